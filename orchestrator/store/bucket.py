"""An object store that speaks S3: the few requests this program makes, each an answer or an ``OSError``.

Endpoint, region and credentials are the environment's business (``AWS_ENDPOINT_URL``, ``AWS_DEFAULT_REGION``,
``AWS_ACCESS_KEY_ID``, a profile, the machine's role): an address names a bucket and a prefix, and nothing else.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from orchestrator.errors import UserError
from orchestrator.store.trouble import LastingTroubleError, remote_trouble

ADDRESS = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*?))?/*")
"""``s3://BUCKET/PREFIX``; the prefix may be missing."""
ABSENT = ""
"""In place of an ETag: nothing may be there."""
PART_BYTES = 64 << 20
"""Larger files travel in parts of this size. S3 takes 10 000 of them."""
TRIES = 3
"""How often a download is begun that breaks off; other requests are tried again by boto3."""
CONNECT_S, READ_S = 10, 60
"""How long an answer is waited for."""
GONE = {"404", "NoSuchKey", "NotFound", "NoSuchUpload"}
CHANGED = {"412", "PreconditionFailed"}
BUSY = {"409", "ConditionalRequestConflict"}
"""Another conditional write of the same key was under way: nothing was decided."""
REFUSED = {"403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"}
MISSING = {"NoSuchBucket", "PermanentRedirect", "301"}


class ChangedError(Exception):
    """What was to be replaced is not what it was, or something is there already."""


class _EndpointError(Exception):
    """The environment names an endpoint that is no URL."""


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
    reached, refuses or fails, and :class:`LastingTroubleError` where boto3 is not installed.
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
                _client().list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
        except OSError as error:
            cause = error.__cause__
            wrong = isinstance(cause, NoCredentialsError | PartialCredentialsError) or (
                isinstance(cause, ClientError) and _code(cause) in REFUSED | MISSING
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
                    found = _client().get_object(Bucket=self._bucket, Key=self._prefix + key, **asked)
                    return found["Body"].read(), found["ETag"]
                except _client_error() as error:
                    if _code(error) in GONE | {"304", "NotModified"}:
                        return None
                    raise
                except _broken_off():
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
                    found = _client().get_object(Bucket=self._bucket, Key=self._prefix + key, **asked)
                    with file.open("wb") as target:
                        for part in found["Body"].iter_chunks(1 << 20):
                            target.write(part)
                    return str(found["ETag"])
                except _client_error() as error:
                    if _code(error) in GONE:
                        return ""
                    if _code(error) in ("304", "NotModified"):
                        return known
                    raise
                except _broken_off():
                    if not left:
                        raise
        return ""

    def write(self, key: str, content: bytes, over: str | None) -> str:
        """Put an object, at once for every reader; its ETag. It replaces the one with the ETag ``over``, with
        :data:`ABSENT` none, with None whatever is there. Raises :class:`ChangedError` where another one is there."""
        with self._asked(), _conditional():
            done = _client().put_object(Bucket=self._bucket, Key=self._prefix + key, Body=content, **_only(over))
            return str(done["ETag"])

    def upload(self, key: str, file: Path, over: str | None) -> str:
        """The same with the content of a file, of any size."""
        if file.stat().st_size <= PART_BYTES:
            with file.open("rb") as source, self._asked(), _conditional():
                done = _client().put_object(Bucket=self._bucket, Key=self._prefix + key, Body=source, **_only(over))
                return str(done["ETag"])
        return self._upload_parts(key, file, over)

    def _upload_parts(self, key: str, file: Path, over: str | None) -> str:
        client, place = _client(), {"Bucket": self._bucket, "Key": self._prefix + key}
        with self._asked(), _conditional():
            upload = {**place, "UploadId": client.create_multipart_upload(**place)["UploadId"]}
            try:
                parts: list[dict[str, Any]] = []
                with file.open("rb") as source:
                    while content := source.read(PART_BYTES):
                        number = len(parts) + 1
                        sent = client.upload_part(**upload, PartNumber=number, Body=content)
                        parts.append({"PartNumber": number, "ETag": sent["ETag"]})
                done = client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, **_only(over))
                return str(done["ETag"])
            except BaseException:
                with self._unless_gone():
                    client.abort_multipart_upload(**upload)
                raise

    def etag(self, key: str) -> str:
        """An object's ETag, ``""`` where there is none."""
        with self._asked():
            try:
                return str(_client().head_object(Bucket=self._bucket, Key=self._prefix + key)["ETag"])
            except _client_error() as error:
                if _code(error) in GONE:
                    return ""
                raise

    def list(self, prefix: str = "", *, deep: bool = True) -> Iterator[Stored]:
        """The objects whose keys begin so, sorted; without ``deep`` those alone that have no ``/`` behind it."""
        asked: dict[str, Any] = {} if deep else {"Delimiter": "/"}
        with self._asked():
            pages = _client().get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix, **asked):
                now = _now(page)
                for each in page.get("Contents", ()):
                    age_s = max(0.0, now - each["LastModified"].timestamp())
                    yield Stored(each["Key"].removeprefix(self._prefix), each["ETag"], each["Size"], age_s)

    def delete(self, key: str) -> None:
        """Remove an object; nothing where there is none."""
        with self._unless_gone():
            _client().delete_object(Bucket=self._bucket, Key=self._prefix + key)

    def uploads(self, prefix: str = "") -> Iterator[tuple[str, str, float]]:
        """Uploads in parts that were begun and have not ended: key, id, age (s)."""
        with self._asked():
            pages = _client().get_paginator("list_multipart_uploads")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix):
                now = _now(page)
                for each in page.get("Uploads") or ():
                    yield each["Key"].removeprefix(self._prefix), each["UploadId"], now - each["Initiated"].timestamp()

    def abort(self, key: str, upload: str) -> None:
        """Forget the parts of an upload; nothing where it has ended."""
        with self._unless_gone():
            _client().abort_multipart_upload(Bucket=self._bucket, Key=self._prefix + key, UploadId=upload)

    @contextmanager
    def _unless_gone(self) -> Iterator[None]:
        with self._asked():
            try:
                yield
            except _client_error() as error:
                if _code(error) not in GONE:
                    raise

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """A block that asks the store. What goes wrong there is an ``OSError`` that says so."""
        need_boto3()
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError, _EndpointError) as error:
            raise remote_trouble(self.address, _words(error)) from error


def is_address(given: str) -> bool:
    """Whether a text is meant as the address of an object store."""
    return given.startswith("s3:/")


_clients: dict[int, Any] = {}
_making = threading.Lock()


def _client() -> Any:
    """The one client of this process."""
    with _making:
        if os.getpid() not in _clients:
            import boto3
            from botocore.config import Config

            # A store of one's own answers at one name, whatever its buckets are called.
            own = any(os.environ.get(name) for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"))
            settings: dict[str, Any] = {"s3": {"addressing_style": "path"}} if own else {}
            config = Config(connect_timeout=CONNECT_S, read_timeout=READ_S, retries={"mode": "standard"}, **settings)
            try:
                _clients[os.getpid()] = boto3.session.Session().client("s3", config=config)
            except ValueError as error:  # It is no URL.
                raise _EndpointError(str(error)) from error
        return _clients[os.getpid()]


def need_boto3() -> None:
    """Raise :class:`LastingTroubleError` where boto3 is not installed."""
    try:
        import boto3  # noqa: F401
    except ImportError as error:
        raise LastingTroubleError(
            "a home on an object store needs boto3, which is not installed on this machine: pip install "
            "'transition-sweeps[s3]'"
        ) from error


def _client_error() -> type[Exception]:
    from botocore.exceptions import ClientError

    return ClientError  # type: ignore[no-any-return]


def _broken_off() -> tuple[type[Exception], ...]:
    """What is raised where an answer breaks off in its middle."""
    from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError

    return IncompleteReadError, ReadTimeoutError, ResponseStreamingError


@contextmanager
def _conditional() -> Iterator[None]:
    """A block that writes on a condition."""
    try:
        yield
    except _client_error() as error:
        # Replacing what was removed meanwhile is answered with "no such key".
        if _code(error) in CHANGED | BUSY | GONE:
            raise ChangedError from error
        raise


def _only(over: str | None) -> dict[str, str]:
    if over is None:
        return {}
    return {"IfMatch": over} if over else {"IfNoneMatch": "*"}


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _now(answer: dict[str, Any]) -> float:
    """The store's time, as its answer says (s since 1970); this machine's where it does not."""
    said = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return parsedate_to_datetime(said).timestamp() if said else time.time()


def _words(error: Exception) -> str:
    """What is wrong with the store, and what to do."""
    from botocore.exceptions import ClientError, NoCredentialsError, PartialCredentialsError

    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return "wants credentials, and there are none here: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if not isinstance(error, ClientError):
        return f"cannot be reached ({error}): is the network up, and AWS_ENDPOINT_URL right?"
    code, said = _code(error), error.response.get("Error", {}).get("Message", "")
    if code in REFUSED:
        return f"refuses this machine's credentials ({code}): look at AWS_ACCESS_KEY_ID and at what its owner may do"
    if code in MISSING:
        return f"has no such bucket ({code}): make it, or look at AWS_ENDPOINT_URL and AWS_DEFAULT_REGION"
    return f"failed at {error.operation_name} ({code}{f': {said}' if said else ''}): see what ails it"
