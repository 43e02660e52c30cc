"""Watches the programs in the project of a script while its sweep trains."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from orchestrator.jobs.plan import SweepSetup
from trainables.script.nearby import hash_of_mixed

LONGEST_SHARE = 0.05
"""Maximum share of the time that goes into looking at the programs. A project may have 100,000 files of data."""


class NearbyPrograms:
    """The programs and settings in the project of a sweep's script. A sweep of any other family has none."""

    def __init__(self, setup: SweepSetup) -> None:
        self._family = setup.family
        self._since = datetime.now(UTC).isoformat()
        self._look()
        self._first = self._now
        """Their hash when this process began with the sweep."""
        self._is_reported = False
        self._begun = setup.nearby or self._first
        """Their hash when the sweep began."""

    def hash_of_run(self) -> str:
        """Return their hash for a run that ends now."""
        if time.monotonic() >= self._next_look:
            self._look()
        return self._now if self._now == self._begun else hash_of_mixed(self._begun, self._now)

    def new_change(self) -> str:
        """Return a clause about the first change since this process began with the sweep, and an empty string from then
        on. It counts when it is seen for :meth:`hash_of_run`."""
        if self._is_reported or self._now == self._first:
            return ""
        self._is_reported = True
        return self._family.changed_nearby(self._since)

    def _look(self) -> None:
        started = time.monotonic()
        self._now = self._family.hash_nearby()
        ended = time.monotonic()
        self._next_look = ended + (ended - started) / LONGEST_SHARE
