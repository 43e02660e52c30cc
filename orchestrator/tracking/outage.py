"""Telling an outage of the store, which passes, from a mistake, which does not."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import requests
from mlflow.exceptions import MlflowException

from orchestrator.store.machine import REMOTE
from orchestrator.tracking.base import DamagedStoreError, OutageError, RefusedError

TEMPORARY_CODES = frozenset(
    {"TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}
)
TEMPORARY_STATUS = frozenset({408, 429, 500, 502, 503, 504})
TEMPORARY_ERRNO = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.EMFILE, REMOTE})
TEMPORARY_S3_CODES = frozenset({"RequestTimeout", "RequestLimitExceeded", "Throttling", "ThrottlingException"})
"""What object stores say with status 400 though the same request may succeed later."""
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
NO_LOGIN, NO_PERMISSION = 401, 403
USERNAME, PASSWORD, TOKEN = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"
LONGEST = 300
"""Characters of the store's own words that a warning repeats."""


@contextmanager
def outages() -> Iterator[None]:
    """Turn what MLflow raises while its store is out into :class:`OutageError`; let everything else pass."""
    try:
        yield
    except OutageError:
        raise
    except _store_errors() as error:
        if why := damage_words(error):
            raise DamagedStoreError(f"its database is damaged ({why}); `sync --rebuild` makes it anew") from error
        if why := refusal_words(error):
            raise RefusedError(why) from error
        if is_outage(error):
            raise OutageError(_words(error)) from error
        raise


def damage_words(error: BaseException | None) -> str:
    """What SQLite says of a damaged file, where that is beneath an error; ``""`` where it is not."""
    while error is not None:
        if isinstance(error, sqlite3.DatabaseError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGE:
            return str(error)
        error = getattr(error, "orig", None) or error.__cause__ or error.__context__
    return ""


def refusal_words(error: BaseException) -> str:
    """What a server wants that refuses a login, or a user's writing, in words that go on from its name; ``""`` for any
    other error."""
    status = None
    if isinstance(error, requests.HTTPError) and error.response is not None:
        status = error.response.status_code
    elif isinstance(error, MlflowException):
        status = error.get_http_status_code()  # type: ignore[no-untyped-call]
    if status == NO_LOGIN:
        given = any(os.environ.get(each) for each in (USERNAME, PASSWORD, TOKEN))
        said = "refuses the user name or password it is given" if given else "asks for a login"
        return f"{said}: set {USERNAME} and {PASSWORD} (or {TOKEN}) to those of an account there"
    if status == NO_PERMISSION:
        return (
            "lets this user in, but not do this there: ask who made the experiment, or an administrator, for the "
            "permission MANAGE on it, or record under another name (--set name=...)"
        )
    return ""


def is_outage(error: BaseException) -> bool:
    """Whether the same call may succeed later: no connection, a server in trouble, a full or locked disk."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return error.response.status_code in TEMPORARY_STATUS
    if isinstance(error, requests.ConnectionError | requests.Timeout | ConnectionError | TimeoutError):
        return True
    if isinstance(error, MlflowException):
        # MLflow's client wraps what went wrong on the way to a server without a code of its own.
        beneath = error.__cause__ or error.__context__
        if isinstance(beneath, requests.RequestException):
            return is_outage(beneath) or isinstance(beneath, requests.exceptions.RetryError)
        return error.error_code in TEMPORARY_CODES
    if isinstance(error, _object_store_errors()):
        return _object_store_is_out(error)
    return isinstance(error, OSError) and error.errno in TEMPORARY_ERRNO


def _store_errors() -> tuple[type[Exception], ...]:
    return MlflowException, requests.RequestException, OSError, *_object_store_errors(), *_database_errors()


def _database_errors() -> tuple[type[Exception], ...]:
    """What MLflow lets through of its database's own errors."""
    if "sqlalchemy" not in sys.modules:
        return ()
    from sqlalchemy.exc import DatabaseError

    return (DatabaseError,)


def _object_store_errors() -> tuple[type[Exception], ...]:
    """What MLflow's client raises where it uploads to an object store itself, not through a server."""
    # The store's client need not be installed; as long as MLflow has not loaded it, nobody can have raised its errors.
    if "boto3" not in sys.modules:
        return ()
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    return Boto3Error, BotoCoreError, ClientError


def _object_store_is_out(error: BaseException) -> bool:
    from botocore import exceptions as raised

    # An upload that the store refused hides the store's answer beneath an error of its own.
    answer = error if isinstance(error, raised.ClientError) else error.__context__
    if isinstance(answer, raised.ClientError):
        status = answer.response["ResponseMetadata"]["HTTPStatusCode"]
        return status in TEMPORARY_STATUS or answer.response["Error"]["Code"] in TEMPORARY_S3_CODES
    if isinstance(error, raised.SSLError):
        return False  # A certificate that does not fit now will not fit later.
    return isinstance(error, raised.ConnectionError | raised.HTTPClientError)


def _words(error: BaseException) -> str:
    """The first line of an error, without the URL MLflow puts before it: it may hold a password."""
    line = str(error).strip().partition("\n")[0]
    _, found, reason = line.partition(" failed with exception ")
    return (reason if found else line)[:LONGEST]
