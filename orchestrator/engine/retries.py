"""Retries of stacks after failures and after machine errors."""

from __future__ import annotations

import time
from collections import Counter

WAITS_S = (1.0, 5.0, 15.0, 30.0, 60.0)
"""Seconds before each retry of a stack after a machine error: time to free some disk space, or for another program to
release memory. After the last retry the sweep stops."""


class Retries:
    """Counts the retries of each stack, by its id."""

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()
        self._machine_errors: Counter[str] = Counter()
        self._waits_until = 0.0

    @property
    def waiting(self) -> bool:
        """True while no stack may start after a machine error, which the next stack would probably meet too."""
        return time.monotonic() < self._waits_until

    def failed(self, stack_id: str, most: int) -> bool:
        """Count a failure. Return True if the stack continues as a whole: after its first ``most`` failures it does."""
        self._failures[stack_id] += 1
        return self._failures[stack_id] <= most

    def met_machine_error(self, stack_id: str) -> float | None:
        """Count a machine error. Return the seconds until the stack continues, None after the last retry."""
        count = self._machine_errors[stack_id]
        self._machine_errors[stack_id] += 1
        if count >= len(WAITS_S):
            return None
        self._waits_until = time.monotonic() + WAITS_S[count]
        return WAITS_S[count]
