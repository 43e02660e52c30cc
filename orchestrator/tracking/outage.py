"""Telling an outage of the store, which passes, from a mistake, which does not."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import requests
from mlflow.exceptions import MlflowException

from orchestrator.tracking.base import OutageError

TEMPORARY_CODES = frozenset(
    {"TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}
)
TEMPORARY_STATUS = frozenset({408, 429, 500, 502, 503, 504})
TEMPORARY_ERRNO = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.EMFILE})
LONGEST = 300
"""Characters of the store's own words that a warning repeats."""


@contextmanager
def outages() -> Iterator[None]:
    """Turn what MLflow raises while its store is out into :class:`OutageError`; let everything else pass."""
    try:
        yield
    except (MlflowException, requests.RequestException, OSError) as error:
        if is_outage(error):
            raise OutageError(_words(error)) from error
        raise


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
    return isinstance(error, OSError) and error.errno in TEMPORARY_ERRNO


def _words(error: BaseException) -> str:
    """The first line of an error, without the URL MLflow puts before it: it may hold a password."""
    line = str(error).strip().partition("\n")[0]
    _, found, reason = line.partition(" failed with exception ")
    return (reason if found else line)[:LONGEST]
