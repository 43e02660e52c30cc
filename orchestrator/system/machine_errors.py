"""Errors of the machine, such as a full disk. They may be temporary, and do not depend on the processed data."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

MACHINE_ERRORS = {
    errno.ENOSPC: "the disk of {place} is full: free some space",
    errno.EDQUOT: "the disk of {place} has reached the quota of this user: free some space",
    errno.EACCES: "{place} cannot be opened by this user: change its permissions, or renew the login to its disk "
    "(such as a Kerberos ticket)",
    errno.EROFS: "the disk of {place} is read-only: make it writable",
    errno.EIO: "the disk of {place} has read or write errors: check its hardware",
    errno.ESTALE: "the disk of {place} has a stale file handle: mount it again",
    errno.ENOTCONN: "the disk of {place} is disconnected from its server: mount it again",
    errno.EFBIG: "the disk of {place} does not accept a file of this size: raise the limit (`ulimit -f`)",
    errno.EMFILE: "too many files are open in one process: raise the limit (`ulimit -n`)",
    errno.ENFILE: "too many files are open on this machine: close other programs",
    errno.EAGAIN: "no more processes or threads can be started: "
    "raise the limit (`ulimit -u`, or the container's limit)",
}
"""State of the machine and remedy, by error number."""
for _name in ("ENOKEY", "EKEYEXPIRED", "EKEYREVOKED", "EKEYREJECTED"):
    if _code := getattr(errno, _name, None):  # Linux only.
        MACHINE_ERRORS[_code] = "the login to the disk of {place} has expired: renew it (`kinit`, for example)"
DAMAGE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EIO)
"""Error numbers that mean that a file is missing, or has lost its content."""
NO_THREAD = "can't start new thread"
"""Message of Python's ``threading`` for an error without a number."""
IN_RUST = re.compile(r"\(os error (\d+)\)")
"""Pattern of the error number in a message of safetensors."""
SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
"""Pattern of numpy's message if a full disk truncates a write. The error has no number."""


def machine_errno(error: BaseException) -> int | None:
    """Return the number of the machine error behind an exception, or None for any other exception."""
    return next((number for number in map(_number, error_and_causes(error)) if number in MACHINE_ERRORS), None)


def is_damage(error: BaseException) -> bool:
    """Return True if an exception while reading a file shows that the file is missing or damaged.

    Return False for other errors of the system, such as a missing permission. The file may then be intact.
    """
    return not isinstance(error, OSError) or error.errno is None or error.errno in DAMAGE


def machine_error_text(error: BaseException, place: object) -> str:
    """Return a sentence with the machine error behind an exception and its remedy. Return an empty string for any other
    exception.

    Args:
        error: The exception.
        place: File or directory to name in the sentence if the exception does not name one.
    """
    for cause in error_and_causes(error):
        number = _number(cause)
        if number in MACHINE_ERRORS:
            return MACHINE_ERRORS[number].format(place=getattr(cause, "filename", None) or place)
    return ""


def error_and_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and then its causes, in the order of a traceback."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _number(error: BaseException) -> int | None:
    message = str(error)
    if isinstance(error, BlockingIOError) and hasattr(error, "characters_written"):
        return None  # A pipe or terminal cannot take more output now. Its number is also EAGAIN.
    if isinstance(error, OSError):
        return errno.ENOSPC if error.errno is None and SHORT_WRITE.search(message) else error.errno
    if isinstance(error, RuntimeError) and NO_THREAD in message:
        return errno.EAGAIN
    match = IN_RUST.search(message) if type(error).__name__ == "SafetensorError" else None
    return None if match is None else int(match[1])
