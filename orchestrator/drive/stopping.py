"""Ctrl-C: the first one ends a sweep so that it can be resumed, the second one ends the process at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

HARD_EXIT = 130
"""128 + SIGINT, as shells have it."""


@contextmanager
def stop_on_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """While the block runs, SIGINT and SIGTERM call ``stop``; a second one ends the process at once.

    Even then no finished run is lost: it is in the journal, or on disk beside it.
    """
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os._exit(HARD_EXIT)
        asked = True
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
