"""Searches without training: the real searchers, an event queue and a clock of its own; and searchers compared by what
each would cost on a problem and how far its estimates would be off.

As in the engine, free workers take stacks, a stack holds runs of one size out of what ``ask`` returned now, and every
run is told when its stack ends.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from orchestrator.search.base import Observation, Problem, Request, Results, Searcher
from orchestrator.search.evidence import points, stack_cost
from orchestrator.search.registry import make_searcher
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
World = Callable[[Request], Observation | None]
"""The outcome of a run: the same for the same request, None for one that failed."""


@dataclass(frozen=True)
class Cluster:
    """The workers that train runs.

    ``workers`` stacks of at most ``stack`` runs train at once. A stack takes as long as it costs, or, with ``even``,
    one unit of time. ``jitter`` is the standard deviation of ln duration; a ``failures`` share of runs fails.
    """

    workers: int = 1
    stack: int = 1
    even: bool = True
    jitter: float = 0.0
    failures: float = 0.0


@dataclass(frozen=True)
class TrainedStack:
    """A trained stack; ``start`` and ``end`` are on the simulator's clock."""

    requests: tuple[Request, ...]
    start: float
    end: float
    cost: float


@dataclass
class Trace:
    """Stacks and results of a simulated search."""

    workers: int
    stacks: list[TrainedStack] = field(default_factory=list)
    results: Results = field(default_factory=dict)

    @property
    def runs(self) -> int:
        return len(self.results)

    @property
    def cost(self) -> float:
        return sum(stack.cost for stack in self.stacks)

    @property
    def makespan(self) -> float:
        return max((stack.end for stack in self.stacks), default=0.0)

    @property
    def busy(self) -> float:
        """Share of the workers' time spent on runs, in [0, 1]."""
        span = self.makespan * self.workers
        return sum(stack.end - stack.start for stack in self.stacks) / span if span else 1.0

    def mix_cost(self, mix: str) -> float:
        """Cost of one mix's runs; a stack's cost is shared evenly."""
        return sum(
            stack.cost * sum(request.mix == mix for request in stack.requests) / len(stack.requests)
            for stack in self.stacks
        )


def simulate(
    searcher: Searcher,
    world: World,
    cluster: Cluster,
    rng: np.random.Generator,
    on_result: Callable[[float, Request, Observation | None], None] | None = None,
) -> Trace:
    """Run a searcher to its end. ``on_result`` is called with every run that ends, and the time.

    Raises ``RuntimeError`` when the searcher neither wants a run, waits for one nor is done.
    """
    trace = Trace(cluster.workers)
    waiting: deque[tuple[Request, ...]] = deque()
    running: list[tuple[float, int, TrainedStack, tuple[Observation | None, ...]]] = []
    now = 0.0
    while True:
        free = cluster.workers - len(running) - len(waiting)
        if free > 0:
            waiting.extend(stacks(searcher.ask(free * cluster.stack), cluster.stack))
        while waiting and len(running) < cluster.workers:
            stack, ended = _train(waiting.popleft(), world, cluster, now, rng)
            trace.stacks.append(stack)
            heapq.heappush(running, (stack.end, len(trace.stacks), stack, ended))
        if not running:
            break
        now, _, stack, ended = heapq.heappop(running)
        for request, seen in zip(stack.requests, ended, strict=True):
            searcher.tell(request, seen)
            if on_result is not None:
                on_result(now, request, seen)
    if not searcher.done:
        raise RuntimeError("the searcher is stuck: it is not done, wants nothing and waits for nothing")
    trace.results = dict(searcher.results)
    return trace


def stacks(wanted: Iterable[Request], most: int) -> list[tuple[Request, ...]]:
    """Runs of equal size and steps together, at most ``most`` a stack, in the order they were wanted."""
    by_shape: dict[tuple[int, int], list[Request]] = {}
    for request in wanted:
        by_shape.setdefault((request.size, request.steps_factor), []).append(request)
    return [tuple(group[start : start + most]) for group in by_shape.values() for start in range(0, len(group), most)]


def _train(
    requests: tuple[Request, ...], world: World, cluster: Cluster, now: float, rng: np.random.Generator
) -> tuple[TrainedStack, tuple[Observation | None, ...]]:
    """One stack from now on, and the outcomes of its runs."""
    ended = [world(request) for request in requests]
    load = stack_cost(len(requests))
    cost = load * max((seen.cost for seen in ended if seen is not None), default=0.0)
    even = load * requests[0].steps_factor
    duration = (even if cluster.even else cost) * float(np.exp(cluster.jitter * rng.normal()))
    lost = rng.random(len(requests)) < cluster.failures
    told = tuple(None if gone else seen for seen, gone in zip(ended, lost, strict=True))
    return TrainedStack(requests, now, now + duration, cost), told


@dataclass(frozen=True)
class Truth:
    """A mix whose runs learn with a probability that is a logistic of ln size. ``key`` seeds its runs."""

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
