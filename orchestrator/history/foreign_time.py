"""A limit on the time that a command spends on all sweeps that this user did not make."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from orchestrator.history.sweeps import UnreadableError
from orchestrator.home.directories import Home
from orchestrator.home.ownership import is_foreign
from orchestrator.system.reading_time import TooSlowError

LONGEST_S = 20.0
"""Seconds that a command spends on such sweeps. A small archive may contain thousands that take seconds each."""
NOT_READ = f"Sweeps of others before them took more than {LONGEST_S:g} s"
"""Why several sweeps are not read."""
T = TypeVar("T")


class ForeignTime:
    """Reads sweeps until those of others have taken too long. This user's own sweeps are all read.

    Args:
        home: The home.
        remedy: What to do about a sweep that was not read. By default, the command that reads it alone.
    """

    def __init__(self, home: Home, remedy: str = "") -> None:
        self._home = home
        self._remedy = remedy
        self._is_foreign = is_foreign(home.root)
        self._spent_s = 0.0

    def read(self, sweep_id: str, read: Callable[[], T]) -> T | UnreadableError:
        """Return what ``read`` returns for a sweep, or an error if the time is over and the sweep is not this user's
        own."""
        files = self._home.sweep(sweep_id)
        if not (self._is_foreign or files.is_imported):
            return read()
        if self._spent_s > LONGEST_S:
            why = f"it was not read, because sweeps of others before it took more than {LONGEST_S:g} s"
            return UnreadableError(files, why, self._remedy or f"`status {sweep_id}` reads it")
        started = time.monotonic()
        try:
            return read()
        except TooSlowError as error:
            return UnreadableError(files, str(error), "")
        finally:
            self._spent_s += time.monotonic() - started
