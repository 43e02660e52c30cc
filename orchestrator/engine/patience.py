"""How often, and after how long, a stack is tried again that met trouble of the machine."""

from __future__ import annotations

import time
from collections import Counter

WAITS_S = (1.0, 5.0, 15.0, 30.0, 60.0)
"""Before the first further try of a stack, the second, and so on: time for somebody to free some space, or for another
program to give memory back. After the last one the sweep stops."""


class Patience:
    """Counts for one process that drives a sweep; a resumed sweep begins anew."""

    def __init__(self) -> None:
        self._met: Counter[str] = Counter()
        self._until = 0.0

    @property
    def waiting(self) -> bool:
        """True while nothing should be started: what troubles one stack is likely to trouble the next."""
        return time.monotonic() < self._until

    def again_in(self, stack_id: str) -> float | None:
        """A stack met trouble: seconds until it is tried again, from now on; None where it was tried often enough."""
        met = self._met[stack_id]
        self._met[stack_id] += 1
        if met >= len(WAITS_S):
            return None
        self._until = time.monotonic() + WAITS_S[met]
        return WAITS_S[met]
