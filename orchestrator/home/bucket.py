"""Objects of an S3 bucket beneath a prefix: the few requests this program makes, through obstore.

Endpoint, region and credentials are the environment's business (``AWS_ENDPOINT_URL``, ``AWS_DEFAULT_REGION``,
``AWS_ACCESS_KEY_ID``, the machine's role): an address names a bucket and a prefix, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from orchestrator.errors import SweepError, UserError
from orchestrator.home.machine_errors import remote_trouble

ADDRESS = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/.*)?")
"""``s3://BUCKET/PREFIX``; the prefix may be missing."""
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
ABSENT = ""
"""In the place of an ETag: no object may be there."""
ATTEMPTS = 10
"""Retries of one request that is answered with 5xx, or not at all."""
GIVE_UP = timedelta(seconds=20)
"""Longest time for one request with its retries."""
ANSWER_WITHIN = timedelta(seconds=60)
"""Longest time for one answer."""


class ChangedError(Exception):
    """The object to be replaced is not what it was, or one is there already."""


@dataclass(frozen=True)
class Stored:
    """An object: its key beneath the prefix, its ETag and the time of its last change."""

    key: str
    etag: str
    changed: datetime


def is_address(given: str) -> bool:
    """True for the address of a bucket, False for a path. Raises :class:`UserError` for any other address."""
    if ADDRESS.fullmatch(given):
        return True
    if SCHEME.match(given):
        raise UserError(f"{given!r} is no home: give a directory, or s3://BUCKET/PREFIX")
    return False


class Bucket:
    """Safe to use from several threads. Every method raises ``OSError``
    (:func:`orchestrator.home.machine_errors.remote_trouble`) if the bucket cannot be reached, refuses or fails."""

    def __init__(self, address: str) -> None:
        """Asks nothing yet. Raises :class:`SweepError` if obstore is not installed."""
        self.address = address.rstrip("/")
        try:
            import obstore
        except ImportError as error:
            raise SweepError(
                "a home in a bucket needs obstore, which is not installed: pip install 'transition-sweeps[s3]'"
            ) from error
        self._ask = obstore

    @cached_property
    def _store(self) -> Any:
        from obstore.store import S3Store

        pause: Any = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2}
        retry: Any = {"max_retries": ATTEMPTS, "retry_timeout": GIVE_UP, "backoff": pause}
        answers: Any = {"allow_http": True, "timeout": ANSWER_WITHIN}
        # Not from a URL: a prefix may have a question mark, a hash or a percent sign in it.
        name, _, prefix = self.address.removeprefix("s3://").partition("/")
        return S3Store(name, prefix=prefix or None, client_options=answers, retry_config=retry)

    def read(self, key: str) -> tuple[bytes, str] | None:
        """Content and ETag of an object; None if it is missing."""
        with self._asked():
            try:
                found = self._ask.get(self._store, key)
                return bytes(found.bytes()), str(found.meta["e_tag"])
            except FileNotFoundError:
                return None

    def write(self, key: str, content: bytes, over: str | None) -> str:
        """Put an object, at once for every reader; its ETag. It replaces the one with the ETag ``over``, with
        :data:`ABSENT` none, with None any. Raises :class:`ChangedError` if another one is there."""
        mode: Any = "overwrite" if over is None else ({"e_tag": over} if over else "create")
        with self._asked():
            try:
                return str(self._ask.put(self._store, key, content, mode=mode, use_multipart=False)["e_tag"])
            except (self._ask.exceptions.AlreadyExistsError, self._ask.exceptions.PreconditionError) as error:
                there = self.read(key)
                if there is not None and there[0] == content:
                    return there[1]  # Our own write, whose answer was lost.
                raise ChangedError(key) from error

    def list(self) -> Iterator[Stored]:
        """The objects beneath the address."""
        with self._asked():
            for page in self._ask.list(self._store):
                for each in page:
                    yield Stored(each["path"], str(each["e_tag"]), each["last_modified"])

    def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        with self._asked(), suppress(FileNotFoundError):
            self._ask.delete(self._store, key)

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """A block that asks the bucket. Its failures become ``OSError`` with what to do."""
        try:
            yield
        except self._ask.exceptions.BaseError as error:
            raise remote_trouble(self.address, _words(str(error))) from error


def _words(said: str) -> str:
    first = said.partition("\n")[0]
    if "NoSuchBucket" in said:
        return "has no such bucket: make it, or look at AWS_ENDPOINT_URL and AWS_DEFAULT_REGION"
    if "169.254.169.254" in said or "credentials" in said.lower():
        return "wants credentials, and there are none here: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if re.search(r"\b40[13]\b|InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied", said):
        return f"refuses these credentials ({first}): look at AWS_ACCESS_KEY_ID and at what its owner may do"
    return f"cannot be reached ({first}): look at the network and at AWS_ENDPOINT_URL"
