"""Searches without training, using the real searchers and a simulated clock, to compare searchers by cost and error,
and to predict what more runs of a sweep would decide.

As in the engine, free workers take stacks, a stack has runs of one size from the same ``ask``, and every run is
reported when its stack ends.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from orchestrator.jobs.plan import ENDING
from orchestrator.report.sentences.next_step import MORE
from orchestrator.search.base import Problem, Request, Results, Searcher
from orchestrator.search.next_run import TransitionDesign
from orchestrator.search.pairs import Pairs
from orchestrator.search.registry import METHODS
from orchestrator.search.results import cost_model, learned_runs, points
from orchestrator.transition.comparison import compare
from orchestrator.transition.estimate import transition
from orchestrator.transition.evidence import counted_pairs
from orchestrator.transition.types import LEVEL, Point
from trainables.contract.runs import Parameters

FLOOR = 0.1
"""Mean accuracy of runs that do not learn."""
ASYMPTOTE = 0.97
"""Mean accuracy of runs that learn."""
SCATTER = 0.01
"""Standard deviation of accuracies around both."""
SLOPES = (3.0, 60.0)
"""Range of a curve's slope in ln size, drawn uniformly on a log scale."""
MARGIN = 0.07
"""Share of the range of ln size, at each end, that is kept free of transitions."""
CONTINUATIONS = 20
"""Number of simulated continuations, which estimate the share that decides to within about 0.1."""
STACK_OVERHEAD = 0.2
"""Cost of each further run of a stack relative to the first. Four runs cost as much as 1.6 single runs."""
World = Callable[[Request], Point | None]
"""Returns what a run shows (None if it failed), the same for equal requests."""


@dataclass(frozen=True)
class Trace:
    """A simulated search: its ``cost``, its time (``wall``, in the same unit), and the share of time that workers were
    busy."""

    results: Results
    cost: float
    wall: float
    busy: float


def simulate(
    searcher: Searcher,
    world: World,
    workers: int = 1,
    stack: int = 1,
    watch: Callable[[float, int], object] = lambda now, begun: None,
) -> Trace:
    """Run a searcher to its end. Each of ``workers`` trains a stack of at most ``stack`` runs at a time. ``watch`` is
    called whenever a stack has ended, with the time and the number of runs begun. A stack ends early if the searcher
    needs none of its runs any more. Raises :class:`RuntimeError` if the searcher wants no run, has none pending and is
    not done."""
    waiting: deque[tuple[Request, ...]] = deque()
    running: list[tuple[float, int, tuple[Request, ...], list[Point | None], float]] = []
    now, cost, begun, started = 0.0, 0.0, 0, 0
    released: set[Request] = set()
    while True:
        free = workers - len(running) - len(waiting)
        if free > 0:
            ending = [run for end, _, runs, _, takes in running if end - now < ENDING * takes for run in runs]
            requests_now = searcher.ask(free * stack, ending)
            released.difference_update(requests_now)
            waiting.extend(stacks(requests_now, stack))
        while waiting and len(running) < workers:
            requests = waiting.popleft()
            ended = [world(request) for request in requests]
            longest = max((seen.cost for seen in ended if seen is not None), default=0.0)
            takes = longest * (1 + STACK_OVERHEAD * (len(requests) - 1))
            cost, begun, started = cost + takes, begun + 1, started + len(requests)
            heapq.heappush(running, (now + takes, begun, requests, ended, takes))
        if not running:
            break
        now, _, requests, ended, _ = heapq.heappop(running)
        for request, seen in zip(requests, ended, strict=True):
            searcher.tell(request, seen)
        watch(now, started)
        if fresh := searcher.release():
            released.update(fresh)
            waiting = deque(requests for requests in waiting if not released.issuperset(requests))
            over = [stack for stack in running if released.issuperset(stack[2])]
            cost -= sum(end - now for end, *_ in over)
            running = [stack for stack in running if stack not in over]
            heapq.heapify(running)
    if not searcher.done:
        raise RuntimeError("the searcher is stuck: it is not done, but has no run to request and none to wait for")
    return Trace(dict(searcher.results), cost, now, cost / (now * workers) if now else 1.0)


def stacks(wanted: Iterable[Request], most: int) -> list[tuple[Request, ...]]:
    """Return runs in stacks of equal size with at most ``most`` runs, in the order in which they were wanted."""
    by_size: dict[int, list[Request]] = {}
    for request in wanted:
        by_size.setdefault(request.size, []).append(request)
    return [tuple(group[start : start + most]) for group in by_size.values() for start in range(0, len(group), most)]


@dataclass(frozen=True)
class Truth:
    """A mix whose runs learn with a probability that is a logistic function of ln size. ``key`` seeds its runs."""

    midpoint: float
    slope: float
    key: int

    @property
    def transition(self) -> float:
        """Size at which the mean accuracy is :data:`LEVEL` of its asymptote."""
        share = (LEVEL * ASYMPTOTE - FLOOR) / (ASYMPTOTE - FLOOR)
        return math.exp(self.midpoint + math.log(share / (1 - share)) / self.slope)

    def run(self, request: Request, cost: float) -> Point:
        """Return the outcome of a run, the same for equal size and seed."""
        rng = np.random.default_rng([self.key, request.size, request.seed + 1])
        apart = min(max(self.slope * (math.log(request.size) - self.midpoint), -500.0), 500.0)
        level = ASYMPTOTE if rng.random() < 1 / (1 + math.exp(-apart)) else FLOOR
        accuracy = min(max(level + SCATTER * float(rng.normal()), 0.0), 1.0)
        return request.point(accuracy, FLOOR, cost)


@dataclass(frozen=True)
class Tried:
    """Results of a method on many simulated sweeps. ``cost`` and ``wall`` are relative to the grid's; ``busy``, in [0,
    1], is the share of the workers' time spent on runs. ``error`` is the median of |ln(estimate / truth)|, None without
    estimates, and ``holds`` is the share of 90% intervals that contain the truth."""

    method: str
    runs: float
    cost: float
    wall: float
    busy: float
    error: float | None
    holds: float


def compare_searchers(
    problem: Problem,
    methods: Mapping[str, Mapping[str, Any]],
    costs: Mapping[int, float],
    *,
    sweeps: int,
    seed: int,
    workers: int = 1,
    stack: int = 1,
) -> list[Tried]:
    """Compare ``methods`` (by name, with their settings) on the same simulated sweeps. ``costs`` has the cost of a run
    by size, in any unit."""
    rng = np.random.default_rng(seed)
    drawn = [{mix: _draw(problem, rng) for mix in problem.mixes} for _ in range(sweeps)]

    def trace(searcher: Searcher, truths: Mapping[str, Truth]) -> Trace:
        return simulate(searcher, lambda run: truths[run.mix].run(run, costs[run.size]), workers, stack)

    def traces(method: str, settings: Mapping[str, Any]) -> list[Trace]:
        return [trace(METHODS[method](problem, **settings), truths) for truths in drawn]

    grid = traces("grid", {})
    return [_tried(method, problem, traces(method, settings), grid, drawn) for method, settings in methods.items()]


def _draw(problem: Problem, rng: np.random.Generator) -> Truth:
    smallest, largest = math.log(problem.sizes[0]), math.log(problem.sizes[-1])
    margin = MARGIN * (largest - smallest)
    slope = math.exp(rng.uniform(math.log(SLOPES[0]), math.log(SLOPES[1])))
    truth = Truth(0.0, slope, int(rng.integers(2**32)))
    wanted = rng.uniform(smallest + margin, largest - margin)
    return replace(truth, midpoint=wanted - math.log(truth.transition))


def _tried(
    method: str, problem: Problem, traces: Sequence[Trace], grid: Sequence[Trace], drawn: Sequence[Mapping[str, Truth]]
) -> Tried:
    errors, held = [], []
    for trace, truths in zip(traces, drawn, strict=True):
        for mix, truth in truths.items():
            estimate = transition(points(trace.results, mix), problem.sizes).relative
            if estimate.value is not None:
                errors.append(abs(math.log(estimate.value / truth.transition)))
            known = estimate.low is not None or estimate.high is not None
            held.append(known and (estimate.low or 0.0) <= truth.transition <= (estimate.high or math.inf))
    return Tried(
        method,
        runs=float(np.mean([len(trace.results) for trace in traces])),
        cost=sum(trace.cost for trace in traces) / sum(trace.cost for trace in grid),
        wall=sum(trace.wall for trace in traces) / sum(trace.wall for trace in grid),
        busy=float(np.mean([trace.busy for trace in traces])),
        error=float(np.median(errors)) if errors else None,
        holds=float(np.mean(held)),
    )


def outlook(searcher: Pairs) -> dict[tuple[str, str], float]:
    """Return the probability that each comparison is decided after a search has used up its limits.

    Each continuation draws a learning curve for every mix, given the mix's runs, and lets ``searcher``, which has the
    extended limits, finish on these curves. Return the share of continuations that decide each comparison, by mix and
    baseline, in [0, 1]. The seed is fixed, so equal runs give equal results.
    """
    problem, settings = searcher.problem, searcher.settings
    rng = np.random.default_rng(0)
    costs = cost_model(searcher.results)
    cost = {size: costs.cost(size) for size in problem.sizes}
    chance_DS = {
        mix: TransitionDesign.of(problem, mix, searcher.results, settings.learned).surrogate.draw(
            problem.sizes, rng.random(CONTINUATIONS)
        )
        for mix in problem.mixes
    }
    decided = dict.fromkeys(problem.comparisons, 0)

    def parameters(size: float) -> Parameters:
        return Parameters(size**2, size**2)  # Only factors depend on parameters, and no factor is needed here.

    for draw in range(CONTINUATIONS):
        chance = {mix: dict(zip(problem.sizes, chances[draw], strict=True)) for mix, chances in chance_DS.items()}
        branch = searcher.branch()
        trace = simulate(branch, _continuation(chance, cost, draw))
        outcomes = learned_runs(trace.results, settings.learned)
        for pair in problem.comparisons:
            own = [block for block in branch.blocks if (block.mix, block.baseline) == pair]
            pairs = counted_pairs(own, outcomes)
            comparison = compare(pairs, parameters, settings.error, problem.earlier_looks(*pair))
            decided[pair] += comparison.decided is not None
    return {pair: count / CONTINUATIONS for pair, count in decided.items()}


def continued(searcher: Pairs) -> Pairs:
    """Return a search that continues another with twice its seeds and limits, until every comparison is decided."""
    problem, settings = searcher.problem, searcher.settings
    first = problem.seeds[0]
    more = replace(problem, seeds=tuple(range(first, first + MORE * len(problem.seeds))))
    cost = None if settings.max_cost is None else MORE * settings.max_cost
    raised = replace(settings, aim="decide", max_runs=MORE * settings.max_runs, max_cost=cost)
    result = Pairs(more, **asdict(raised))
    result.restore(searcher.blocks)
    for request, point in searcher.results.items():
        result.tell(request, point)
    return result


def _continuation(chance: Mapping[str, Mapping[int, float]], cost: Mapping[int, float], draw: int) -> World:
    place = {mix: index for index, mix in enumerate(chance)}

    def run(request: Request) -> Point:
        uniform = np.random.default_rng([draw, place[request.mix], request.size, request.seed]).random()
        return request.point(float(uniform < chance[request.mix][request.size]), 0.0, cost[request.size])

    return run
