"""How long a sweep still takes, worked out beside it: in a thread of its own, and never for more than a small share of
the time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.search.base import Searcher
from orchestrator.simulation.remaining import Remaining, Running, remaining

FIRST_AFTER_S = 20.0
"""Sweeps that are over sooner need no forecast."""
REST = 15.0
"""After each forecast a pause of so many times what it took: at most 6 % of one core."""
SEED = 0
"""Forecasts draw futures; the same state of a sweep gives the same range."""


@dataclass(frozen=True)
class Forecast:
    """A forecast and when it was begun, on the monotonic clock."""

    found: Remaining
    at: float

    def now(self) -> Remaining:
        """What is left of it by now; no side is negative."""
        gone = time.monotonic() - self.at
        found = self.found
        return Remaining(*(max(side - gone, 0.0) for side in (found.middle_s, found.low_s, found.high_s)))


class Promise:
    """When a sweep is over at the latest, as people were told. It moves on when another run has ended: what is said
    again and again while nothing ends, under load, would else hold for ever."""

    def __init__(self) -> None:
        self._known, self._until = -1, math.inf

    def given(self, known: int, until: float) -> None:
        """With so many runs ended, it was said to be over at this time of the monotonic clock."""
        self._until = min(self._until, until) if known == self._known else until
        self._known = known

    @property
    def left_s(self) -> float | None:
        """Seconds until then, 0 once it is broken; None before anything was promised."""
        return None if math.isinf(self._until) else max(self._until - time.monotonic(), 0.0)


class Forecaster:
    """Keeps :attr:`latest`. :meth:`consider` is called from the driver's thread; ``latest`` may be read from any."""

    def __init__(self, expected: Mapping[int, float]) -> None:
        self._expected = dict(expected)
        self._next_at = time.monotonic() + FIRST_AFTER_S
        self._known = -1
        self._promise = Promise()
        self._thread: threading.Thread | None = None
        self.latest: Forecast | None = None

    @property
    def late(self) -> bool:
        """Whether the range that was said first of the runs that are known has run out, whatever was said since."""
        return self.latest is not None and self._promise.left_s == 0

    def consider(
        self,
        searcher: Searcher,
        running: Sequence[Running],
        workers: int,
        stack: int,
        slowdown: float = 1.0,
        *,
        timed: bool = False,
    ) -> None:
        """Begin a forecast, where the last one is over, long enough ago, and something is known that it did not know:
        something has ended since, or the time it foresaw has run out while all that trains is ``timed``. Another one
        that knows no more would put off the end again and again. There are so many ``workers``, each of which trains
        at most ``stack`` runs at a time. ``slowdown``: how many seconds pass while one is computed, more than 1 where
        other programs want the processor, too."""
        busy = self._thread is not None and self._thread.is_alive()
        if busy or time.monotonic() < self._next_at:
            return
        run_out = self.latest is not None and not self.latest.now().middle_s
        if len(searcher.results) == self._known and not (run_out and timed):
            return
        self._known = len(searcher.results)
        # A branch of its own: the driver goes on telling and asking meanwhile.
        asked = searcher.branch(), tuple(running), workers, stack, slowdown
        self._thread = threading.Thread(target=self._work, args=asked, name="forecast", daemon=True)
        self._thread.start()

    def _work(self, searcher: Searcher, running: Sequence[Running], workers: int, stack: int, slowdown: float) -> None:
        begun = time.monotonic()
        rng = np.random.default_rng([SEED, len(searcher.results)])
        found = remaining(searcher, running, self._expected, workers=workers, stack=stack, rng=rng)
        self.latest = Forecast(found.times(slowdown), begun)
        self._promise.given(len(searcher.results), begun + self.latest.found.high_s)
        self._next_at = time.monotonic() + REST * (time.monotonic() - begun)
