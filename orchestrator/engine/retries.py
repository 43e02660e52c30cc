"""Decides how often a stack is tried again after it or its machine failed, and when."""

from __future__ import annotations

import time
from collections import Counter

WAITS_S = (1.0, 5.0, 15.0, 30.0, 60.0)
"""Seconds before each retry of a stack after a machine error. In this time, disk space or memory may be freed. After
the last retry, the sweep stops."""


class Retries:
    """Counts of failures and machine errors of a campaign's stacks, by the ids of the stacks.

    A failure means that the stack's code raised an exception. A machine error is not the stack's fault. So both are
    counted separately, and only consecutive machine errors count.
    """

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()
        self._machine_errors: Counter[str] = Counter()
        """Consecutive machine errors of each stack."""
        self._reached: dict[str, int] = {}
        """The latest step of each stack at which a machine error happened."""
        self._paused_until = 0.0

    @property
    def are_paused(self) -> bool:
        """True for a while after a machine error. A stack that starts now would probably meet the same error."""
        return time.monotonic() < self._paused_until

    def count_failure(self, stack_id: str, retries: int) -> bool:
        """Count a failure of a stack. Return True if the whole stack may be tried again, up to ``retries`` times."""
        self._failures[stack_id] += 1
        return self._failures[stack_id] <= retries

    def count_machine_error(self, stack_id: str, step: int) -> float | None:
        """Count a machine error of a stack at a step. Return the seconds to wait before the next try, or None if the
        stack is not tried again."""
        # Progress since the last error means that the retries help, so the count starts over.
        if step > self._reached.get(stack_id, 0):
            self._reached[stack_id] = step
            self._machine_errors[stack_id] = 0
        count = self._machine_errors[stack_id]
        self._machine_errors[stack_id] += 1
        return WAITS_S[count] if count < len(WAITS_S) else None

    def pause(self, seconds: float) -> None:
        """Let no stack start for some seconds."""
        self._paused_until = time.monotonic() + seconds
