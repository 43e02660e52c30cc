"""A search without training: the real searchers, an event queue and a clock of its own.

As in the engine, free workers take stacks, a stack holds runs of one size out of what ``ask`` returned now, and every
run is told when its stack ends.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from orchestrator.search.base import Observation, Request, Results, Searcher
from orchestrator.search.evidence import stack_cost

World = Callable[[Request], Observation | None]
"""The outcome of a run: the same for the same request, None for one that failed."""


@dataclass(frozen=True)
class Cluster:
    """The workers that train runs.

    ``workers`` stacks of at most ``stack`` runs train at once. A stack takes as long as it costs, or, with ``even``,
    one unit of time; and ``latency`` to start. ``jitter`` is the standard deviation of ln duration; a
    ``straggler`` share of stacks takes ``straggler_factor`` times as long; a ``failures`` share of runs fails.
    """

    workers: int = 1
    stack: int = 1
    even: bool = True
    latency: float = 0.0
    jitter: float = 0.0
    stragglers: float = 0.0
    straggler_factor: float = 5.0
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
    if rng.random() < cluster.stragglers:
        duration *= cluster.straggler_factor
    lost = rng.random(len(requests)) < cluster.failures
    told = tuple(None if gone else seen for seen, gone in zip(ended, lost, strict=True))
    return TrainedStack(requests, now, now + cluster.latency + duration, cost), told
