"""What ends a sweep so that it can be resumed: Ctrl-C (a second one ends the process), trouble of the machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from orchestrator.engine.base import TroubleError
from orchestrator.errors import SweepError
from orchestrator.store.files import SweepFiles
from orchestrator.store.trouble import trouble_in, trouble_words

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


@contextmanager
def stop_on_trouble(files: SweepFiles) -> Iterator[None]:
    """A block that raises :class:`SweepError`, with what to do, where what the driver writes or reads meets a full
    disk, or other trouble of the machine, and where an engine gave up for it."""
    try:
        yield
    except TroubleError as error:
        raise SweepError(stopped_words(files.directory.name, f"{error}. What finished is kept")) from error
    except OSError as error:
        number = trouble_in(error)
        if number is None:
            raise
        trouble = trouble_words(number, error.filename or files.directory)
        raise SweepError(stopped_words(files.directory.name, f"{trouble}. What finished is kept")) from error


def stopped_words(sweep_id: str, why: str) -> str:
    """That a sweep has stopped, why, and how to go on."""
    return f"{sweep_id} has stopped: {why}; continue then with the same command and --resume {sweep_id}"
