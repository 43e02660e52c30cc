"""The client by which an object store is asked, what its errors mean, and what a person reads of them."""

from __future__ import annotations

import os
import threading
import time
from email.utils import parsedate_to_datetime
from typing import Any

from orchestrator.errors import SweepError

CONNECT_S, READ_S = 10, 60
"""How long an answer is waited for."""
ATTEMPTS = 6
"""Of one request, unless the environment says otherwise (``AWS_MAX_ATTEMPTS``): with boto3's pauses some 15 s."""
GONE = {"404", "NoSuchKey", "NotFound", "NoSuchUpload"}
CHANGED = {"412", "PreconditionFailed"}
UNKNOWN = {"501", "NotImplemented"}
"""The store does not know the condition."""
BUSY = {"409", "ConditionalRequestConflict"}
"""Another conditional write of the same key was under way: nothing was decided."""
REFUSED = {"403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"}
MISSING = {"NoSuchBucket", "PermanentRedirect", "301"}


class EndpointError(Exception):
    """The environment names an endpoint that is no URL."""


_clients: dict[int, Any] = {}
_making = threading.Lock()


def client() -> Any:
    """The one client of this process."""
    with _making:
        if os.getpid() not in _clients:
            import boto3
            from botocore.config import Config

            # A store of one's own answers at one name, whatever its buckets are called.
            own = any(os.environ.get(name) for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"))
            settings: dict[str, Any] = {"s3": {"addressing_style": "path"}} if own else {}
            retries: dict[str, Any] = {"mode": "standard"}
            if "AWS_MAX_ATTEMPTS" not in os.environ:
                retries["total_max_attempts"] = ATTEMPTS
            config = Config(connect_timeout=CONNECT_S, read_timeout=READ_S, retries=retries, **settings)
            try:
                _clients[os.getpid()] = boto3.session.Session().client("s3", config=config)
            except ValueError as error:  # It is no URL.
                raise EndpointError(str(error)) from error
        return _clients[os.getpid()]


def need_boto3() -> None:
    """Raise :class:`SweepError` where boto3 is not installed."""
    try:
        import boto3  # noqa: F401
    except ImportError as error:
        raise SweepError(
            "a home on an object store needs boto3, which is not installed on this machine: pip install "
            "'transition-sweeps[s3]'"
        ) from error


def client_error() -> type[Exception]:
    """What is raised where the store says no."""
    from botocore.exceptions import ClientError

    return ClientError  # type: ignore[no-any-return]


def broken_off() -> tuple[type[Exception], ...]:
    """What is raised where an answer breaks off in its middle."""
    from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError

    return IncompleteReadError, ReadTimeoutError, ResponseStreamingError


def code_of(error: Any) -> str:
    """The code of a client error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def now_of(answer: dict[str, Any]) -> float:
    """The store's time, as its answer says (s since 1970); this machine's where it does not."""
    said = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return parsedate_to_datetime(said).timestamp() if said else time.time()


def words_of(error: Exception) -> str:
    """What is wrong with the store, and what to do."""
    from botocore.exceptions import ClientError, NoCredentialsError, PartialCredentialsError

    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return "wants credentials, and there are none here: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if not isinstance(error, ClientError):
        return f"cannot be reached ({error}): see whether the network is up, and AWS_ENDPOINT_URL right"
    code, said = code_of(error), error.response.get("Error", {}).get("Message", "")
    if code in REFUSED:
        return f"refuses this machine's credentials ({code}): look at AWS_ACCESS_KEY_ID and at what its owner may do"
    if code in MISSING:
        return f"has no such bucket ({code}): make it, or look at AWS_ENDPOINT_URL and AWS_DEFAULT_REGION"
    return f"failed at {error.operation_name} ({code}{f': {said}' if said else ''}): see what ails it"
