"""Time left of a sweep, computed in a thread of its own for a small share of the time."""

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
"""Shorter sweeps need no forecast."""
REST = 15.0
"""Pause after a forecast, in times of its duration: at most 6 % of one core."""
SEED = 0
"""Forecasts draw futures; the same state of a sweep gives the same range."""


@dataclass(frozen=True)
class Forecast:
    """A forecast and when it was begun, on the monotonic clock."""

    found: Remaining
    at: float

    def now(self) -> Remaining:
        """The time left by now; no side is negative."""
        gone = time.monotonic() - self.at
        found = self.found
        return Remaining(*(max(side - gone, 0.0) for side in (found.middle_s, found.low_s, found.high_s)))


class Promise:
    """The latest end of a sweep that was printed. It moves on only when another run has ended: repeated while nothing
    ends, it would hold for ever."""

    def __init__(self) -> None:
        self._known, self._until = -1, math.inf

    def given(self, known: int, until: float) -> None:
        """With ``known`` runs ended, the end was printed as ``until`` on the monotonic clock."""
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
        """True if the first range for the runs known now has run out."""
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
        """Begin a forecast if the last one is old enough and something is new: a run has ended, or its time has run out
        while the rates of all runs in training are known (``timed``). Without news, another forecast would only put off
        the end. Each of the ``workers`` trains at most ``stack`` runs at a time. ``slowdown``: seconds that pass while
        one is computed, above 1 if other programs use the processor."""
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
