"""How long runs take here and now: by those that have ended, and by the evaluations of those that train."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

FORGET = 0.9
"""What the runs before count for when another one has ended: a machine's load is that of its last ten runs or so."""
CLEARLY = 1.5
"""What trains says how slow the machine is only where that is so many times slower than what has ended says: sizes
differ in what they take by more than is known of them."""
EVALUATIONS = 6
"""The last evaluations of a run, between which its rate is measured: the time it took to start is not in it."""

OVERDUE = 2.0
"""An evaluation is overdue after so many times what one took on average."""


@dataclass(frozen=True)
class Paced:
    """A stack in training, with the steps of its runs by their keys. ``share`` is what each has to do of what is
    expected of a run of its ``size``: 2 with twice the steps."""

    size: int
    share: float
    steps: Mapping[str, int]


@dataclass
class _Times:
    """Of one size, what its ended runs computed, in seconds."""

    total: float = 0.0
    runs: float = 0.0


@dataclass
class Rates:
    """``expected``: the seconds that a run of each size computes at most, of a family whose steps take what they
    typically do. Times are those of a clock that never goes back, in seconds."""

    expected: Mapping[int, float]
    _sizes: dict[int, _Times] = field(default_factory=dict)
    _computed_s: float = 0.0
    _passed_s: float = 0.0
    _seen: dict[str, deque[tuple[int, float]]] = field(default_factory=dict)

    def ended(self, size: int, share: float, computed_s: float, passed_s: float) -> None:
        """A run that was trained took so many seconds of a core or GPU, while so many passed, for this ``share`` of the
        steps that are expected at its size."""
        if computed_s <= 0 or share <= 0:
            return
        times = self._sizes.setdefault(size, _Times())
        times.total += computed_s / share
        times.runs += 1
        self._computed_s = FORGET * self._computed_s + computed_s
        self._passed_s = FORGET * self._passed_s + passed_s

    def look(self, steps: Mapping[str, int], now: float) -> None:
        """Of each run in training, by key, the step of its last evaluation, at this time; others are forgotten."""
        self._seen = {key: seen for key, seen in self._seen.items() if key in steps}
        for key, step in steps.items():
            seen = self._seen.setdefault(key, deque(maxlen=EVALUATIONS))
            if step and (not seen or step > seen[-1][0]):
                seen.append((step, now))

    def left_s(self, key: str, steps: int, now: float) -> float | None:
        """What a run of so many steps still takes, at its own rate; None before that is known, and once it takes
        longer."""
        if (rate := self._rate(key)) is None:
            return None
        step, at = self._seen[key][-1]
        left = (steps - step) / rate - (now - at)
        return left if left > 0 else None

    def slowdown(self, stacks: Iterable[Paced]) -> float:
        """How many seconds pass while one is computed: about 1 on an idle machine whose steps take what is expected."""
        ended = max(1.0, self._passed_s / self._computed_s) if self._computed_s else 1.0
        training = [found for stack in stacks if (found := self._slowdown_of(stack)) is not None]
        now = sum(training) / len(training) if training else ended
        return now if now > CLEARLY * ended else ended

    def times(self, stacks: Iterable[Paced], now: float) -> bool:
        """Whether the rate of each run of these is known, and none is overdue with its next evaluation."""
        return all(self._is_timed(key, now) for stack in stacks for key in stack.steps)

    def longest_s(self, stacks: Iterable[Paced]) -> float | None:
        """What a run of the dearest size takes, in seconds that pass; None before any run's rate was measured."""
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
        """By what a stack that trains has done between evaluations. Its runs share what it computes."""
        rates = {key: rate for key in stack.steps if (rate := self._rate(key)) is not None}
        if not rates:
            return None
        passes = sum(stack.steps[key] / rate for key, rate in rates.items()) / len(rates)
        return passes / (len(stack.steps) * stack.share * self._computes_s(stack.size))

    def _computes_s(self, size: int) -> float:
        """What a run of a size computes: as those that ended, or as expected, by as much more or less as those that
        ended were."""
        if size in self._sizes:
            return self._sizes[size].total / self._sizes[size].runs
        expected = sum(self.expected[each] * times.runs for each, times in self._sizes.items() if each in self.expected)
        total = sum(times.total for each, times in self._sizes.items() if each in self.expected)
        return self.expected[size] * (total / expected if expected else 1.0)
