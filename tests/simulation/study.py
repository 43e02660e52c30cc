"""Studies of searchers without training. Synthetic truths tell the error of an estimate; a recorded table tells what a
searcher would have made of real outcomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.search.base import Observation, Problem, Request, Results
from orchestrator.search.evidence import points
from orchestrator.search.registry import make_searcher
from orchestrator.simulation.simulator import Cluster, Trace, World, simulate
from orchestrator.transition.posterior import resampled
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Estimate, Point, Transition
from tests.simulation.truths import Truth

REFERENCE = "grid"
"""The method that costs and times are given relative to."""
RESAMPLES = 100


@dataclass(frozen=True)
class Benchmark:
    """What is searched and how: ``methods`` by name with their settings, ``costs`` in seconds (or any unit) of a run
    at each size of the problem."""

    problem: Problem
    methods: Mapping[str, Mapping[str, Any]]
    costs: Mapping[int, float]
    cluster: Cluster
    seed: int


@dataclass(frozen=True)
class Tried:
    """One method on many simulated sweeps. ``cost``, ``wall`` are relative to the grid's; ``busy`` in [0, 1]."""

    method: str
    runs: float
    cost: float
    wall: float
    busy: float


@dataclass(frozen=True)
class Reference:
    """What the whole recorded table says of one mix: its transition, and where resampling its seeds puts the size
    (5 % and 95 %; None where it finds none)."""

    mix: str
    transition: Transition
    low: float | None
    high: float | None

    def agrees(self, found: Estimate) -> bool:
        """Whether an estimate lies in the resampled interval; without one, whether there is no estimate either."""
        if self.low is None or self.high is None:
            return found.value is None
        return found.value is not None and self.low <= found.value <= self.high


@dataclass(frozen=True)
class Replayed:
    """A method on the recorded table: per mix the share of replays that agree with the reference, and the last
    transition."""

    tried: Tried
    agreement: Mapping[str, float]
    example: Mapping[str, Transition]


def truths_world(truths: Mapping[str, Truth], cost_exponent: float) -> World:
    """A world of synthetic mixes, by name."""
    return lambda request: truths[request.mix].run(request.size, request.seed, cost_exponent, request.steps_factor)


def table_world(table: Mapping[Request, Observation | None]) -> World:
    """A world of recorded outcomes. Raises ``KeyError`` for a run that was not recorded."""

    def outcome(request: Request) -> Observation | None:
        if request not in table:
            raise KeyError(f"no outcome is recorded for {request}")
        return table[request]

    return outcome


def against_table(benchmark: Benchmark, table: Results, count: int) -> Iterator[Replayed]:
    """Replay a recorded table ``count`` times a method, the seeds spent in another order each time.

    The problem of ``benchmark`` has to lie within the table (:func:`tests.simulation.recorded.table_problem`).
    """
    rng = np.random.default_rng(benchmark.seed)
    orders = [_shuffled(benchmark.problem, rng) for _ in range(count)]
    references = {each.mix: each for each in references_of(benchmark.problem, table, benchmark.seed)}
    world = table_world(table)
    grid = [_simulate(benchmark, REFERENCE, {}, order, world, sweep) for sweep, order in enumerate(orders)]
    for method, options in benchmark.methods.items():
        traces = [_simulate(benchmark, method, options, order, world, sweep) for sweep, order in enumerate(orders)]
        found = [
            {
                mix: transition(points(benchmark.problem, trace.results, mix), benchmark.problem.sizes)
                for mix in references
            }
            for trace in traces
        ]
        agreement = {
            mix: float(np.mean([reference.agrees(each[mix].relative) for each in found]))
            for mix, reference in references.items()
        }
        yield Replayed(_tried(method, traces, grid), agreement, found[-1])


def references_of(problem: Problem, table: Results, seed: int) -> list[Reference]:
    """What the whole table says, mix by mix; seeds are resampled within each size."""
    return [_reference(mix, points(problem, table, mix), problem.sizes, seed) for mix in problem.mixes]


def _simulate(
    benchmark: Benchmark, method: str, options: Mapping[str, Any], problem: Problem, world: World, sweep: int
) -> Trace:
    searcher = make_searcher(method, problem, **options)
    return simulate(searcher, world, benchmark.cluster, np.random.default_rng([benchmark.seed, sweep]))


def _tried(method: str, traces: Sequence[Trace], grid: Sequence[Trace]) -> Tried:
    return Tried(
        method,
        runs=float(np.mean([trace.runs for trace in traces])),
        cost=sum(trace.cost for trace in traces) / sum(trace.cost for trace in grid),
        wall=sum(trace.makespan for trace in traces) / sum(trace.makespan for trace in grid),
        busy=float(np.mean([trace.busy for trace in traces])),
    )


def _shuffled(problem: Problem, rng: np.random.Generator) -> Problem:
    return Problem(problem.mixes, problem.sizes, tuple(int(seed) for seed in rng.permutation(problem.seeds)))


def _reference(mix: str, runs: Sequence[Point], sizes: Sequence[int], seed: int) -> Reference:
    whole = transition(runs, sizes)
    if whole.relative.value is None:
        return Reference(mix, whole, None, None)
    low, high = np.quantile(resampled(runs, sizes, RESAMPLES, np.random.default_rng(seed)), (0.05, 0.95))
    return Reference(mix, whole, float(low), float(high))
