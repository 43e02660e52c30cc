"""Searchers compared without training: what each would cost on a problem, and how far its estimates would be off."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.search.base import Observation, Problem, Request
from orchestrator.search.evidence import points
from orchestrator.search.registry import make_searcher
from orchestrator.simulation.simulator import Cluster, Trace, World, simulate
from orchestrator.transition.transition import transition
from orchestrator.transition.types import LEVEL

REFERENCE = "grid"
"""The method that costs and times are relative to."""
FLOOR, ASYMPTOTE, SCATTER = 0.1, 0.97, 0.01
"""Accuracy of runs that do not learn, of runs that do, and the standard deviation about both."""
SLOPES = (3.0, 60.0)
"""Range of a curve's slope in ln size, drawn evenly in its logarithm."""
MARGIN = 0.07
"""Share of the sizes, in ln size, at each end in which no transition is drawn."""


@dataclass(frozen=True)
class Truth:
    """A mix of which a run learns with a probability that is a logistic of ln size. ``key`` seeds its runs."""

    midpoint: float
    slope: float
    key: int

    @property
    def transition(self) -> float:
        """Size at :data:`LEVEL` of the asymptote of the mean accuracy."""
        share = (LEVEL * ASYMPTOTE - FLOOR) / (ASYMPTOTE - FLOOR)
        return math.exp(self.midpoint + math.log(share / (1 - share)) / self.slope)

    def run(self, request: Request, cost: float) -> Observation:
        """The outcome of a run: the same for the same size and seed."""
        rng = np.random.default_rng([self.key, request.size, request.seed + 1])
        apart = min(max(self.slope * (math.log(request.size) - self.midpoint), -500.0), 500.0)
        level = ASYMPTOTE if rng.random() < 1 / (1 + math.exp(-apart)) else FLOOR
        accuracy = min(max(level + SCATTER * float(rng.normal()), 0.0), 1.0)
        return Observation(accuracy, FLOOR, cost * request.steps_factor)


@dataclass(frozen=True)
class Tried:
    """A method on many simulated sweeps. ``cost`` and ``wall`` are relative to the grid's; ``busy``, in [0, 1], is the
    share of the workers' time. ``error`` is the median of |ln(estimate / truth)|, None without an estimate; ``holds``
    the share of the 90 % intervals that hold the truth."""

    method: str
    runs: float
    cost: float
    wall: float
    busy: float
    error: float | None
    holds: float


def compare(
    problem: Problem,
    methods: Mapping[str, Mapping[str, Any]],
    costs: Mapping[int, float],
    cluster: Cluster,
    *,
    sweeps: int,
    seed: int,
) -> list[Tried]:
    """Try ``methods`` (by name, with their settings) on simulated sweeps, the same for each. ``costs`` are of a run at
    each size, in any unit."""
    rng = np.random.default_rng(seed)
    drawn = [{mix: _draw(problem, rng) for mix in problem.mixes} for _ in range(sweeps)]

    def traces(method: str, settings: Mapping[str, Any]) -> list[Trace]:
        return [
            simulate(
                make_searcher(method, problem, **settings),
                _world(truths, costs),
                cluster,
                np.random.default_rng([seed, place]),
            )
            for place, truths in enumerate(drawn)
        ]

    grid = traces(REFERENCE, {})
    return [_tried(method, problem, traces(method, settings), grid, drawn) for method, settings in methods.items()]


def _draw(problem: Problem, rng: np.random.Generator) -> Truth:
    """A truth with its transition among the sizes."""
    smallest, largest = math.log(problem.sizes[0]), math.log(problem.sizes[-1])
    margin = MARGIN * (largest - smallest)
    slope = math.exp(rng.uniform(math.log(SLOPES[0]), math.log(SLOPES[1])))
    truth = Truth(0.0, slope, int(rng.integers(2**32)))
    wanted = rng.uniform(smallest + margin, largest - margin)
    return Truth(wanted - math.log(truth.transition), slope, truth.key)


def _world(truths: Mapping[str, Truth], costs: Mapping[int, float]) -> World:
    return lambda request: truths[request.mix].run(request, costs[request.size])


def _tried(
    method: str, problem: Problem, traces: Sequence[Trace], grid: Sequence[Trace], drawn: Sequence[Mapping[str, Truth]]
) -> Tried:
    errors, held = [], []
    for trace, truths in zip(traces, drawn, strict=True):
        for mix, truth in truths.items():
            found = transition(points(problem, trace.results, mix), problem.sizes).relative
            if found.value is not None:
                errors.append(abs(math.log(found.value / truth.transition)))
            known = found.low is not None or found.high is not None
            held.append(known and (found.low or 0.0) <= truth.transition <= (found.high or math.inf))
    return Tried(
        method,
        runs=float(np.mean([trace.runs for trace in traces])),
        cost=sum(trace.cost for trace in traces) / sum(trace.cost for trace in grid),
        wall=sum(trace.makespan for trace in traces) / sum(trace.makespan for trace in grid),
        busy=float(np.mean([trace.busy for trace in traces])),
        error=float(np.median(errors)) if errors else None,
        holds=float(np.mean(held)),
    )
