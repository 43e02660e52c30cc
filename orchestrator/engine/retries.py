"""Retries of stacks after failures and machine errors."""

from __future__ import annotations

import time
from collections import Counter

WAITS_S = (1.0, 5.0, 15.0, 30.0, 60.0)
"""Seconds before each retry of a stack after a machine error, so that disk space or memory may be freed. After the last
retry the sweep stops."""


class Retries:
    """Counts the retries of each stack by id."""

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()
        self._machine_errors: Counter[str] = Counter()
        self._waits_until = 0.0

    @property
    def waiting(self) -> bool:
        """True if no stack may start yet after a machine error, because it would probably fail too."""
        return time.monotonic() < self._waits_until

    def failed(self, stack_id: str, most: int) -> bool:
        """Count a failure. Return True if the whole stack should continue, for the first ``most`` failures."""
        self._failures[stack_id] += 1
        return self._failures[stack_id] <= most

    def met_machine_error(self, stack_id: str) -> float | None:
        """Count a machine error. Return the seconds until the stack continues, or None after the last retry."""
        count = self._machine_errors[stack_id]
        self._machine_errors[stack_id] += 1
        if count >= len(WAITS_S):
            return None
        self._waits_until = time.monotonic() + WAITS_S[count]
        return WAITS_S[count]
