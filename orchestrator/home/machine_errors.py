"""Errors of the machine, which say nothing of what was written or read and may pass."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

WORDS = {
    errno.ENOSPC: ("is full", "free some space"),
    errno.EDQUOT: ("has no more room for this user", "free some space"),
    errno.EROFS: ("can only be read", "make it writable"),
    errno.EIO: ("fails", "see what ails it"),
    errno.ESTALE: ("was taken away by its server", "mount it again"),
}
"""What the disk is where an error has this number, and what to do."""
IN_RUST = re.compile(r"\(os error (\d+)\)")
"""How safetensors says what in Python would be an ``OSError``."""
SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
"""What numpy says, without a number, where less was written than it asked for: the disk is full."""


def trouble_in(error: BaseException) -> int | None:
    """The number of the machine's trouble that an exception tells of, or one behind it; None where it is none."""
    found = _troubled(error)
    return None if found is None else _number(found)


def trouble_words(error: BaseException, place: object) -> str:
    """What is wrong with the machine where an exception tells of its trouble, and what to do, for a person to read;
    ``""`` where it is none. ``place`` is what was written or read, where the exception names none."""
    found = _troubled(error)
    if found is None:
        return ""
    what, remedy = WORDS[_number(found) or 0]
    return f"the disk of {getattr(found, 'filename', None) or place} {what}: {remedy}"


def with_causes(error: BaseException) -> Iterator[BaseException]:
    """An exception, then those behind it, as a traceback shows them."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)


def _troubled(error: BaseException) -> BaseException | None:
    """The exception among an error and those behind it that tells of trouble."""
    return next((each for each in with_causes(error) if _number(each) in WORDS), None)


def _number(error: BaseException) -> int | None:
    said = str(error)
    if isinstance(error, OSError):
        return errno.ENOSPC if error.errno is None and SHORT_WRITE.search(said) else error.errno
    found = IN_RUST.search(said) if type(error).__name__ == "SafetensorError" else None
    return None if found is None else int(found[1])
