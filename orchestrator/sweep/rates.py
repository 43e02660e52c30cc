"""Durations of runs on this machine now: from runs that have ended, and from evaluations of runs in training."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

FORGET = 0.9
"""Weight of the former runs when another one ends: a machine's load is that of its last ten runs or so."""
CLEARLY = 1.5
"""Runs in training tell the slowdown only if they are so many times slower than ended ones: expected times of sizes are
uncertain by as much."""
EVALUATIONS = 6
"""Last evaluations of a run between which its rate is measured, without its start."""

OVERDUE = 2.0
"""An evaluation is overdue after so many times the average."""


@dataclass(frozen=True)
class Paced:
    """A stack in training, with the steps of its runs by key. ``share`` is each run's work relative to that expected of
    its ``size``: 2 with twice the steps."""

    size: int
    share: float
    steps: Mapping[str, int]


@dataclass
class _Times:
    """Seconds of computation of one size's ended runs."""

    total: float = 0.0
    runs: float = 0.0


@dataclass
class Rates:
    """``expected``: most seconds of computation of a run of each size, at typical rates. Times are of a monotonic
    clock, in seconds."""

    expected: Mapping[int, float]
    _sizes: dict[int, _Times] = field(default_factory=dict)
    _computed_s: float = 0.0
    _passed_s: float = 0.0
    _seen: dict[str, deque[tuple[int, float]]] = field(default_factory=dict)

    def ended(self, size: int, share: float, computed_s: float, passed_s: float) -> None:
        """Count a trained run: seconds of a core or GPU, seconds that passed, and its ``share`` of the steps expected
        at its size."""
        if computed_s <= 0 or share <= 0:
            return
        times = self._sizes.setdefault(size, _Times())
        times.total += computed_s / share
        times.runs += 1
        self._computed_s = FORGET * self._computed_s + computed_s
        self._passed_s = FORGET * self._passed_s + passed_s

    def look(self, steps: Mapping[str, int], now: float) -> None:
        """Note the step of the last evaluation of each run in training, by key; other runs are forgotten."""
        self._seen = {key: seen for key, seen in self._seen.items() if key in steps}
        for key, step in steps.items():
            seen = self._seen.setdefault(key, deque(maxlen=EVALUATIONS))
            if step and (not seen or step > seen[-1][0]):
                seen.append((step, now))

    def left_s(self, key: str, steps: int, now: float) -> float | None:
        """Seconds left of a run of so many steps at its own rate; None before the rate is known, and once the run takes
        longer."""
        if (rate := self._rate(key)) is None:
            return None
        step, at = self._seen[key][-1]
        left = (steps - step) / rate - (now - at)
        return left if left > 0 else None

    def slowdown(self, stacks: Iterable[Paced]) -> float:
        """Seconds that pass while one is computed: about 1 on an idle machine with expected rates."""
        ended = max(1.0, self._passed_s / self._computed_s) if self._computed_s else 1.0
        training = [found for stack in stacks if (found := self._slowdown_of(stack)) is not None]
        now = sum(training) / len(training) if training else ended
        return now if now > CLEARLY * ended else ended

    def times(self, stacks: Iterable[Paced], now: float) -> bool:
        """True if the rate of each of these runs is known and no evaluation is overdue."""
        return all(self._is_timed(key, now) for stack in stacks for key in stack.steps)

    def longest_s(self, stacks: Iterable[Paced]) -> float | None:
        """Seconds that a run of the most expensive size takes; None before any rate was measured."""
        held = list(stacks)
        if not self._sizes and all(self._slowdown_of(stack) is None for stack in held):
            return None
        return max(map(self._computes_s, self.expected)) * self.slowdown(held)

    def _is_timed(self, key: str, now: float) -> bool:
        seen = self._seen.get(key, deque())
        return len(seen) > 1 and now - seen[-1][1] <= OVERDUE * (seen[-1][1] - seen[0][1]) / (len(seen) - 1)

    def _rate(self, key: str) -> float | None:
        """Steps a second."""
        seen = self._seen.get(key, deque())
        if len(seen) < 2 or seen[-1][1] <= seen[0][1]:
            return None
        return (seen[-1][0] - seen[0][0]) / (seen[-1][1] - seen[0][1])

    def _slowdown_of(self, stack: Paced) -> float | None:
        """Slowdown of a stack in training, from its evaluations. Its runs share its computation."""
        rates = {key: rate for key in stack.steps if (rate := self._rate(key)) is not None}
        if not rates:
            return None
        passes = sum(stack.steps[key] / rate for key, rate in rates.items()) / len(rates)
        return passes / (len(stack.steps) * stack.share * self._computes_s(stack.size))

    def _computes_s(self, size: int) -> float:
        """Seconds of computation of a run: the mean of its size's ended runs, or the expected time corrected by those
        of other sizes."""
        if size in self._sizes:
            return self._sizes[size].total / self._sizes[size].runs
        expected = sum(self.expected[each] * times.runs for each, times in self._sizes.items() if each in self.expected)
        total = sum(times.total for each, times in self._sizes.items() if each in self.expected)
        return self.expected[size] * (total / expected if expected else 1.0)
