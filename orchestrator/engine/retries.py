"""Retries of stacks: after a failure, and after a machine error, which is no outcome."""

from __future__ import annotations

import time
from collections import Counter

WAITS_S = (1.0, 5.0, 15.0, 30.0, 60.0)
"""Seconds before the first retry of a stack after a machine error, the second, and so on: time to free some space, or
for another program to give memory back. After the last one the sweep stops."""


class Retries:
    """Counts the retries of each stack, by its id."""

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()
        self._machine_errors: Counter[str] = Counter()
        self._waits_until = 0.0

    @property
    def waiting(self) -> bool:
        """True while no stack may start after a machine error: the next one is likely to meet it, too."""
        return time.monotonic() < self._waits_until

    def failed(self, stack_id: str, most: int) -> bool:
        """A stack failed; True if it continues whole, which it does ``most`` times."""
        self._failures[stack_id] += 1
        return self._failures[stack_id] <= most

    def met_machine_error(self, stack_id: str) -> float | None:
        """A stack met a machine error; seconds until it continues, None after the last retry."""
        met = self._machine_errors[stack_id]
        self._machine_errors[stack_id] += 1
        if met >= len(WAITS_S):
            return None
        self._waits_until = time.monotonic() + WAITS_S[met]
        return WAITS_S[met]
