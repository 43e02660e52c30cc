"""A limit on the time that reading a sweep of others may take, and what is computed from it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from orchestrator.system.errors import SweepError

LONGEST_READING_S = 60.0
"""Seconds for a sweep that is imported, or in a home that is not the user's own. Its author may have made it endless.
"""
TRUST = "If it is yours, run `home trust`, or import it with --mine"
"""Remedy for a sweep."""
_limit: ContextVar[tuple[float, str]] = ContextVar("limit", default=(math.inf, ""))
"""When reading must end, as a value of ``time.monotonic``, and the remedy."""


class TooSlowError(SweepError):
    """Reading a sweep took too long. It is not a ``ValueError``: what was not read is not damaged, and an answer from a
    part of a sweep would be wrong."""


@contextmanager
def reading_limited(is_foreign: bool, remedy: str = TRUST) -> Iterator[None]:
    """During the block, if it ``is_foreign``, let :func:`check_reading_time` raise :class:`TooSlowError` with a remedy
    after :data:`LONGEST_READING_S`. A block around this one keeps its own limit."""
    end = time.monotonic() + LONGEST_READING_S if is_foreign else math.inf
    token = _limit.set(min((end, remedy), _limit.get()))
    try:
        yield
    finally:
        _limit.reset(token)


def check_reading_time() -> None:
    """Raise :class:`TooSlowError` after the time of :func:`reading_limited`."""
    end, remedy = _limit.get()
    if time.monotonic() > end:
        why = f"reading what others may have written took more than {LONGEST_READING_S:g} s"
        raise TooSlowError(". ".join(filter(None, (why, remedy))))
