"""Range of a sweep's time left: its own searcher plays on, many times, against outcomes drawn from the posterior.

Drawn each time: for every mix a curve (kind, place, slope, levels) from the posterior of its runs, each run's scatter
about it and duration, and the machine's speed from now on.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.search.base import Observation, Request, Results, Searcher
from orchestrator.search.evidence import points
from orchestrator.simulation.simulator import stacks
from orchestrator.transition.curves import KINDS, LUCK, Curves, curves_for
from orchestrator.transition.kinds import ASYMPTOTES, CONCENTRATION, NEAR_FLOOR, NEAR_TOP
from orchestrator.transition.posterior import Posterior, posterior_of

DRAWS = 12
"""Futures that are played. With twelve the range from the second to the eleventh holds nine of ten further ones about
as often as five of six: (12 - 2 * 1) / 13 = 77 % by ranks alone, so the range is widened by :data:`WIDER`."""
WIDER = 1.15
"""Factor by which the range's ends are moved out, for errors that no draw contains."""
DRIFT = 0.2
"""Standard deviation of ln time that all runs to come share: the load of machines changes."""
LEAST_SPREAD, UNKNOWN_SPREAD = 0.1, 0.7
"""Standard deviation of ln time of single runs: its least value, and its value before any has ended."""
MOST_EXPONENT = 3.0
"""Of the power law of a run's time in its size; at least 0."""
PRIOR_RUNS = 2.0
"""Weight of the expected times, in ended runs."""


@dataclass(frozen=True)
class Remaining:
    """Seconds left of a sweep: the median of the futures played, and the ends of the range."""

    middle_s: float
    low_s: float
    high_s: float

    def times(self, factor: float) -> Remaining:
        """So many times as long."""
        return Remaining(factor * self.middle_s, factor * self.low_s, factor * self.high_s)


@dataclass(frozen=True)
class Running:
    """Runs of one stack in training, ``left`` the share of their steps that is still to come, in [0, 1]."""

    requests: tuple[Request, ...]
    left: float


@dataclass(frozen=True)
class Pace:
    """A run's time in seconds: ``exp(level + exponent * ln size)`` and a spread, in ln."""

    level: float
    exponent: float
    spread: float

    def draw(self, size: int, rng: np.random.Generator) -> float:
        """The time of one run."""
        return math.exp(self.level + self.exponent * math.log(size) + self.spread * float(rng.normal()))


def remaining(
    searcher: Searcher,
    running: Sequence[Running],
    expected: Mapping[int, float],
    *,
    workers: int,
    stack: int,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> Remaining:
    """Time left of a searcher that waits for what is ``running``, on so many ``workers``. ``expected`` are seconds of a
    run by size."""
    pace = pace_of(searcher.results, expected)
    worlds = {mix: _posterior(searcher, mix) for mix in searcher.problem.mixes}
    lengths = sorted(
        _play(searcher.branch(), _World(worlds, rng), running, pace, workers, stack, rng) for _ in range(draws)
    )
    low, middle, high = np.quantile(lengths, (0.1, 0.5, 0.9))
    return Remaining(float(middle), float(low) / WIDER, float(high) * WIDER)


def pace_of(results: Results, expected: Mapping[int, float]) -> Pace:
    """Pace of the runs that have ended, with ``expected`` weighing :data:`PRIOR_RUNS` runs."""
    prior = [(math.log(size), math.log(seconds)) for size, seconds in expected.items() if seconds > 0]
    seen = [
        (math.log(request.size), math.log(each.cost / request.steps_factor))
        for request, each in results.items()
        if each is not None and each.cost > 0
    ]
    if not seen and not prior:
        return Pace(0.0, 0.0, UNKNOWN_SPREAD)
    if prior and seen:
        # Expected times are known up to a factor, which the runs seen say better: only their slope is taken.
        off = float(np.median([y for _, y in seen])) - float(np.median([y for _, y in prior]))
        prior = [(x, y + off) for x, y in prior]
    x, y = np.array([*seen, *prior]).T
    weights = np.array([*[1.0] * len(seen), *[PRIOR_RUNS / max(len(prior), 1)] * len(prior)])
    centre_x, centre_y = np.average(x, weights=weights), np.average(y, weights=weights)
    across = float((weights * (x - centre_x) ** 2).sum())
    slope = float((weights * (x - centre_x) * (y - centre_y)).sum()) / across if across > 1e-9 else 1.0
    slope = min(max(slope, 0.0), MOST_EXPONENT)
    level = float(centre_y - slope * centre_x)
    if len(seen) < 2:
        return Pace(level, slope, UNKNOWN_SPREAD if not seen else UNKNOWN_SPREAD / 2)
    missed = np.array([there - level - slope * here for here, there in seen])
    return Pace(level, slope, max(LEAST_SPREAD, float(np.sqrt((missed**2).mean()))))


def _posterior(searcher: Searcher, mix: str) -> Posterior:
    """Posterior of one mix; the prior if no run of it has ended."""
    seen = points(searcher.problem, searcher.results, mix)
    floors = [other.floor for other in searcher.results.values() if other is not None]
    floor = float(np.mean([point.floor for point in seen] or floors or [0.1]))
    return posterior_of(seen, curves_for([*searcher.problem.sizes, *(point.size for point in seen)], floor))


class _World:
    """One future: a curve for each mix, and the outcome of every run."""

    def __init__(self, posteriors: Mapping[str, Posterior], rng: np.random.Generator) -> None:
        self._rng = rng
        self._drawn = {mix: _Curve.draw(posterior, rng) for mix, posterior in posteriors.items()}

    def ends(self, request: Request, seconds: float) -> Observation:
        """Outcome of a run."""
        drawn = self._drawn[request.mix]
        return Observation(drawn.accuracy(request.size, self._rng), drawn.floor, seconds * request.steps_factor)


@dataclass(frozen=True)
class _Curve:
    """One cell of the grid of curves. ``kind`` is its place in KINDS, None for a flat curve with this share of luck."""

    curves: Curves
    kind: int | None
    place: tuple[int, int]
    lapse: float
    low: float
    top: float
    luck: float
    floor: float

    @classmethod
    def draw(cls, posterior: Posterior, rng: np.random.Generator) -> _Curve:
        curves = posterior.curves
        flat = float(posterior.flat.sum())
        if rng.random() < flat:
            luck = float(LUCK[rng.choice(len(LUCK), p=posterior.flat / flat)])
            return cls(curves, None, (0, 0), 0.0, curves.floor, float(ASYMPTOTES[-1]), luck, curves.floor)
        weights = posterior.by_kind
        cell = int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum()))
        kind, midpoint, slope, lapse, low, top = np.unravel_index(min(cell, curves.cells - 1), curves.shape)
        return cls(
            curves,
            int(kind) % len(KINDS),
            (int(midpoint), int(slope)),
            float(_lapse(curves, int(lapse))),
            float(curves.floors[low]),
            float(ASYMPTOTES[top]),
            0.0,
            curves.floor,
        )

    def accuracy(self, size: int, rng: np.random.Generator) -> float:
        """One run's."""
        failed = self.low + NEAR_FLOOR * float(rng.normal())
        done = self.top + NEAR_TOP * float(rng.normal())
        share = self.luck if self.kind is None else float(self.curves.share(size)[self.place])
        if rng.random() < self.lapse:
            found = failed
        elif self.kind is None or self.kind == 0:
            found = done if rng.random() < share else failed
        else:
            at = min(max(share, 1e-6), 1 - 1e-6)
            part = float(rng.beta(CONCENTRATION * at, CONCENTRATION * (1 - at))) if self.kind == 1 else share
            found = self.low + (self.top - self.low) * part + NEAR_TOP * float(rng.normal())
        return min(max(found, 0.0), 1.0)


def _lapse(curves: Curves, place: int) -> float:
    """The lapse whose tops the curves hold at this place: ``top = (1 - lapse) A + lapse f``."""
    rise = ASYMPTOTES[-1] - curves.floors[0]
    return float((ASYMPTOTES[-1] - curves.tops[place, 0, -1]) / rise)


def _play(
    searcher: Searcher,
    world: _World,
    running: Sequence[Running],
    pace: Pace,
    workers: int,
    stack: int,
    rng: np.random.Generator,
) -> float:
    """Seconds until a searcher is done in one future; stacks take as long as their runs together, as they report it."""
    drift = math.exp(DRIFT * float(rng.normal()))
    ending: list[tuple[float, int, tuple[Request, ...], tuple[float, ...]]] = []
    number, now = 0, 0.0

    def start(requests: tuple[Request, ...], share: float) -> None:
        nonlocal number
        number += 1
        seconds = tuple(drift * pace.draw(request.size, rng) for request in requests)
        took = sum(each * request.steps_factor for each, request in zip(seconds, requests, strict=True))
        heapq.heappush(ending, (now + share * took, number, requests, seconds))

    for each in running:
        start(each.requests, each.left)
    waiting: list[tuple[Request, ...]] = []
    while True:
        if (free := workers - len(ending) - len(waiting)) > 0:
            waiting.extend(stacks(searcher.ask(free * stack), stack))
        while waiting and len(ending) < workers:
            start(waiting.pop(0), 1.0)
        if not ending:
            return now
        now, _, requests, seconds = heapq.heappop(ending)
        for request, took in zip(requests, seconds, strict=True):
            searcher.tell(request, world.ends(request, took))
