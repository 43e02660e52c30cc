"""Trouble of the machine: a full disk, one that fails. It says nothing of what was written or read, and may pass."""

from __future__ import annotations

import errno
import re

from orchestrator.errors import SweepError

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


class LastingTroubleError(SweepError):
    """Trouble of the machines that no further try mends: somebody has to change how they are set up."""


def trouble_in(error: BaseException) -> int | None:
    """The number of the machine's trouble that an exception tells of, or one behind it; None where it is none."""
    seen: BaseException | None = error
    while seen is not None:
        if (number := _number(seen)) in WORDS:
            return number
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return None


def trouble_words(number: int, place: object) -> str:
    """What is wrong with the disk of this place, and what to do, for a person to read."""
    what, remedy = WORDS[number]
    return f"the disk of {place} {what}: {remedy}"


def _number(error: BaseException) -> int | None:
    said = str(error)
    if isinstance(error, OSError):
        return errno.ENOSPC if error.errno is None and SHORT_WRITE.search(said) else error.errno
    found = IN_RUST.search(said) if type(error).__name__ == "SafetensorError" else None
    return None if found is None else int(found[1])
