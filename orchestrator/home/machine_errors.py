"""Errors of the machine. They may be temporary and do not depend on the data that was read or written."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

ERRORS = {
    errno.ENOSPC: "the disk of {place} is full: free some space",
    errno.EDQUOT: "the disk of {place} has reached the quota of this user: free some space",
    errno.EROFS: "the disk of {place} is read-only: make it writable",
    errno.EMFILE: "too many files are open in one process: raise the limit (`ulimit -n`)",
    errno.ENFILE: "too many files are open on this machine: close other programs",
}
"""State of the machine and remedy, by error number."""
IN_RUST = re.compile(r"\(os error (\d+)\)")
"""Error number in a message of safetensors."""
SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
"""Message of numpy, without an error number, if a full disk truncates a write."""


def trouble_words(error: BaseException, place: object) -> str:
    """Return a sentence with the machine error behind an exception and its remedy, "" for other errors. ``place`` is
    the file or directory to name by default."""
    for cause in with_causes(error):
        number = _number(cause)
        if number in ERRORS:
            return ERRORS[number].format(place=getattr(cause, "filename", None) or place)
    return ""


def with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, then its causes, as a traceback shows them."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _number(error: BaseException) -> int | None:
    message = str(error)
    if isinstance(error, OSError):
        return errno.ENOSPC if error.errno is None and SHORT_WRITE.search(message) else error.errno
    match = IN_RUST.search(message) if type(error).__name__ == "SafetensorError" else None
    return None if match is None else int(match[1])
