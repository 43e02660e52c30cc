"""An object store that speaks S3: the few requests this program makes, each an answer or an ``OSError``.

Endpoint, region and credentials are the environment's business (``AWS_ENDPOINT_URL``, ``AWS_DEFAULT_REGION``,
``AWS_ACCESS_KEY_ID``, a profile, the machine's role): an address names a bucket and a prefix, and nothing else.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import UserError
from orchestrator.store.s3_client import (
    BUSY,
    CHANGED,
    GONE,
    MISSING,
    REFUSED,
    UNKNOWN,
    EndpointError,
    broken_off,
    client,
    client_error,
    code_of,
    need_boto3,
    now_of,
    words_of,
)
from orchestrator.store.trouble import remote_trouble

ADDRESS = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*?))?/*")
"""``s3://BUCKET/PREFIX``; the prefix may be missing."""
ABSENT = ""
"""In place of an ETag: nothing may be there."""
PART_BYTES = 64 << 20
"""Larger files travel in parts of this size. S3 takes 10 000 of them."""
TRIES = 3
"""How often a download is begun that breaks off; other requests are tried again by boto3."""
_heedless: set[str] = set()
"""The buckets whose store does not know conditional writes, as far as this process has found out."""


class ChangedError(Exception):
    """What was to be replaced is not what it was, or something is there already."""


@dataclass(frozen=True)
class Stored:
    """An object: its key within the prefix, ETag, bytes, and the age (s) that it had, by the store's own clock."""

    key: str
    etag: str
    size: int
    age_s: float


class Bucket:
    """The objects of a bucket whose keys begin with a prefix. Safe to use from several threads.

    Every method raises ``OSError`` (:func:`orchestrator.store.trouble.remote_trouble`) where the store cannot be
    reached, refuses or fails, and :class:`SweepError` where boto3 is not installed.
    """

    def __init__(self, address: str) -> None:
        """Nothing is asked yet. Raises :class:`UserError` for what is no address."""
        found = ADDRESS.fullmatch(address)
        if found is None:
            raise UserError(f"{address!r} is no address of an object store: write s3://BUCKET/PREFIX")
        self.address = address.rstrip("/")
        self._bucket, prefix = found[1], (found[2] or "").strip("/")
        self._prefix = f"{prefix}/" if prefix else ""

    def check(self) -> None:
        """Ask the store whether it is there. Raises :class:`UserError` for a bucket that is not, and where it
        refuses."""
        from botocore.exceptions import ClientError, NoCredentialsError, PartialCredentialsError

        try:
            with self._asked():
                client().list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
        except OSError as error:
            cause = error.__cause__
            wrong = isinstance(cause, NoCredentialsError | PartialCredentialsError) or (
                isinstance(cause, ClientError) and code_of(cause) in REFUSED | MISSING
            )
            if wrong:
                raise UserError(f"{error.filename} {error.strerror}") from error
            raise

    def read(self, key: str, known: str = "") -> tuple[bytes, str] | None:
        """An object's content and ETag; None where there is none, and where it is as ``known``, its ETag, has it."""
        asked = {"IfNoneMatch": known} if known else {}
        with self._asked():
            for left in reversed(range(TRIES)):
                try:
                    found = client().get_object(Bucket=self._bucket, Key=self._prefix + key, **asked)
                    return found["Body"].read(), found["ETag"]
                except client_error() as error:
                    if code_of(error) in GONE | {"304", "NotModified"}:
                        return None
                    raise
                except broken_off():
                    if not left:
                        raise
        return None

    def download(self, key: str, file: Path, known: str = "") -> str:
        """Write an object to a file; its ETag, ``""`` where there is none. Where it is as ``known`` has it, nothing is
        written and ``known`` returned."""
        asked = {"IfNoneMatch": known} if known else {}
        with self._asked():
            for left in reversed(range(TRIES)):
                try:
                    found = client().get_object(Bucket=self._bucket, Key=self._prefix + key, **asked)
                    with file.open("wb") as target:
                        for part in found["Body"].iter_chunks(1 << 20):
                            target.write(part)
                    return str(found["ETag"])
                except client_error() as error:
                    if code_of(error) in GONE:
                        return ""
                    if code_of(error) in ("304", "NotModified"):
                        return known
                    raise
                except broken_off():
                    if not left:
                        raise
        return ""

    def heeds_conditions(self) -> bool:
        """Whether the store writes on a condition: tried with an object that goes again. From one that does not, what
        is there is asked before every write, so that two writers at the same moment may both be told that they
        wrote."""
        key = f".conditions-{secrets.token_hex(8)}"
        try:
            self.write(key, b"", ABSENT)
            self.write(key, b"", ABSENT)
            _heedless.add(self._bucket)
        except ChangedError:
            """As it should be, unless it was asked before."""
        finally:
            self.delete(key)
        return self._bucket not in _heedless

    def write(self, key: str, content: bytes, over: str | None) -> str:
        """Put an object, at once for every reader; its ETag. It replaces the one with the ETag ``over``, with
        :data:`ABSENT` none, with None whatever is there. Raises :class:`ChangedError` where another one is there."""
        place = {"Bucket": self._bucket, "Key": self._prefix + key, "Body": content}
        return self._put(key, over, lambda only: client().put_object(**place, **only))

    def upload(self, key: str, file: Path, over: str | None) -> str:
        """The same with the content of a file, of any size."""
        if file.stat().st_size > PART_BYTES:
            return self._upload_parts(key, file, over)
        with file.open("rb") as source:
            place = {"Bucket": self._bucket, "Key": self._prefix + key, "Body": source}
            return self._put(key, over, lambda only: client().put_object(**place, **only))

    def _upload_parts(self, key: str, file: Path, over: str | None) -> str:
        place = {"Bucket": self._bucket, "Key": self._prefix + key}
        with self._asked():
            upload = {**place, "UploadId": client().create_multipart_upload(**place)["UploadId"]}
            try:
                sent: list[dict[str, Any]] = []
                with file.open("rb") as source:
                    while content := source.read(PART_BYTES):
                        number = len(sent) + 1
                        etag = client().upload_part(**upload, PartNumber=number, Body=content)["ETag"]
                        sent.append({"PartNumber": number, "ETag": etag})
                parts = {"Parts": sent}
                return self._put(
                    key, over, lambda only: client().complete_multipart_upload(**upload, MultipartUpload=parts, **only)
                )
            except BaseException:
                with self._unless_gone():
                    client().abort_multipart_upload(**upload)
                raise

    def _put(self, key: str, over: str | None, send: Callable[[dict[str, str]], dict[str, Any]]) -> str:
        """Send what makes an object, on a condition; the object's ETag."""
        with self._asked(), _conditional():
            if self._bucket not in _heedless:
                try:
                    return str(send(_only(over))["ETag"])
                except client_error() as error:
                    if over is None or code_of(error) not in UNKNOWN:
                        raise
                    _heedless.add(self._bucket)
            if over is not None and self.etag(key) != over:
                raise ChangedError
            return str(send({})["ETag"])

    def etag(self, key: str) -> str:
        """An object's ETag, ``""`` where there is none."""
        with self._asked():
            try:
                return str(client().head_object(Bucket=self._bucket, Key=self._prefix + key)["ETag"])
            except client_error() as error:
                if code_of(error) in GONE:
                    return ""
                raise

    def list(self, prefix: str = "", *, deep: bool = True) -> Iterator[Stored]:
        """The objects whose keys begin so, sorted; without ``deep`` those alone that have no ``/`` behind it."""
        asked: dict[str, Any] = {} if deep else {"Delimiter": "/"}
        with self._asked():
            pages = client().get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix, **asked):
                now = now_of(page)
                for each in page.get("Contents", ()):
                    age_s = max(0.0, now - each["LastModified"].timestamp())
                    yield Stored(each["Key"].removeprefix(self._prefix), each["ETag"], each["Size"], age_s)

    def delete(self, key: str) -> None:
        """Remove an object; nothing where there is none."""
        with self._unless_gone():
            client().delete_object(Bucket=self._bucket, Key=self._prefix + key)

    def uploads(self, prefix: str = "") -> Iterator[tuple[str, str, float]]:
        """Uploads in parts that were begun and have not ended: key, id, age (s)."""
        with self._asked():
            pages = client().get_paginator("list_multipart_uploads")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix):
                now = now_of(page)
                for each in page.get("Uploads") or ():
                    yield each["Key"].removeprefix(self._prefix), each["UploadId"], now - each["Initiated"].timestamp()

    def abort(self, key: str, upload: str) -> None:
        """Forget the parts of an upload; nothing where it has ended."""
        with self._unless_gone():
            client().abort_multipart_upload(Bucket=self._bucket, Key=self._prefix + key, UploadId=upload)

    @contextmanager
    def _unless_gone(self) -> Iterator[None]:
        with self._asked():
            try:
                yield
            except client_error() as error:
                if code_of(error) not in GONE:
                    raise

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """A block that asks the store. What goes wrong there is an ``OSError`` that says so."""
        need_boto3()
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError, EndpointError) as error:
            raise remote_trouble(self.address, words_of(error)) from error


def is_address(given: str) -> bool:
    """Whether a text is meant as the address of an object store."""
    return given.startswith("s3:/")


@contextmanager
def _conditional() -> Iterator[None]:
    """A block that writes on a condition."""
    try:
        yield
    except client_error() as error:
        # Replacing what was removed meanwhile is answered with "no such key".
        if code_of(error) in CHANGED | BUSY | GONE:
            raise ChangedError from error
        raise


def _only(over: str | None) -> dict[str, str]:
    if over is None:
        return {}
    return {"IfMatch": over} if over else {"IfNoneMatch": "*"}
