"""How often a stack is tried again after it failed or its machine did, and when."""

from __future__ import annotations

import time
from collections import Counter

WAITS_S = (1.0, 5.0, 15.0, 30.0, 60.0)
"""Seconds before each retry of a stack after a machine error, so that disk space or memory may be freed. After the last
retry the sweep stops."""


class Retries:
    """Counts of failures and machine errors of the stacks of a campaign, by the ids of the stacks.

    A failure is the stack's own: its code raised an exception. A machine error says nothing about the stack, so the two
    are counted apart, and machine errors only in a row.
    """

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()
        self._machine_errors: Counter[str] = Counter()
        """Consecutive machine errors of each stack."""
        self._reached: dict[str, int] = {}
        """The furthest step at which a machine error met each stack."""
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
        """Count a machine error that met a stack at a step. Return the seconds to wait before its next try, or None
        after the last. The count starts over once the stack gets further than at any earlier error."""
        if step > self._reached.get(stack_id, 0):
            self._reached[stack_id] = step
            self._machine_errors[stack_id] = 0
        count = self._machine_errors[stack_id]
        self._machine_errors[stack_id] += 1
        return WAITS_S[count] if count < len(WAITS_S) else None

    def pause(self, seconds: float) -> None:
        """Start no stack for some seconds."""
        self._paused_until = time.monotonic() + seconds
