"""Searches without training, with the real searchers and a simulated clock. They compare searchers by cost and error,
and predict what more runs of a sweep would decide.

As in the engine, free workers take stacks, and a stack has runs of one size from the same ``ask``. Unlike in the
engine, all runs of a stack are reported when the stack ends.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
"""Range of a curve's slope in ln size. Slopes are drawn uniformly on a log scale."""
MARGIN = 0.07
"""Share of the range of ln size, at each end, without transitions."""
CONTINUATIONS = 20
"""Number of simulated continuations. With 20, the standard error of a probability is about 0.1."""
STACK_OVERHEAD = 0.2
"""Cost of each further run of a stack relative to the first. Four runs cost as much as 1.6 single runs."""
World = Callable[[Request], Point | None]
"""Function that simulates a run: it returns the run's point, or None if the run failed, and is deterministic."""


@dataclass(frozen=True)
class Trace:
    """A simulated search.

    Attributes:
        results: Points of its runs.
        cost: Training time of all stacks, in the unit of the points' costs.
        wall: Time from the start to the end of the search, in the same unit.
        busy: Share of the workers' time that they spent on stacks, in [0, 1].
    """

    results: Results
    cost: float
    wall: float
    busy: float


@dataclass(frozen=True, order=True)
class _StackInTraining:
    """A simulated stack with a worker. Stacks are ordered by their ends, then by their starts.

    Attributes:
        end: Time of the end.
        number: Number of stacks that had started, including this one.
        requests: Runs of the stack.
        results: Points of the runs.
        duration: Time from the start to the end.
    """

    end: float
    number: int
    requests: tuple[Request, ...] = field(compare=False)
    results: Sequence[Point | None] = field(compare=False)
    duration: float = field(compare=False)


def simulate(
    searcher: Searcher,
    world: World,
    workers: int = 1,
    stack: int = 1,
    watch: Callable[[float, int], object] = lambda now, runs_started: None,
) -> Trace:
    """Run a searcher to its end. A stack ends early if the searcher no longer needs any of its runs.

    Args:
        searcher: The searcher.
        world: Simulates the runs.
        workers: Number of stacks that train at the same time.
        stack: Maximum number of runs in a stack.
        watch: Called whenever a stack has ended, with the time and the number of runs that have started.

    Raises:
        RuntimeError: if the searcher requests no run, waits for none and is not done.
    """
    waiting: deque[tuple[Request, ...]] = deque()
    running: list[_StackInTraining] = []  # A heap: the next stack to end is the first.
    now = 0.0
    cost = 0.0
    stacks_started = 0
    runs_started = 0
    released: set[Request] = set()
    while True:
        # Stacks that wait will take free workers, so the searcher is asked only for the others. It may choose better
        # later, when more runs have ended.
        free = workers - len(running) - len(waiting)
        if free > 0:
            ending = [run for item in running if item.end - now < ENDING * item.duration for run in item.requests]
            requested = searcher.ask(free * stack, ending)
            released.difference_update(requested)  # The searcher may request a released run again.
            waiting.extend(stacks(requested, stack))
        while waiting and len(running) < workers:
            requests = waiting.popleft()
            results = [world(request) for request in requests]
            longest = max((point.cost for point in results if point is not None), default=0.0)
            duration = longest * (1 + STACK_OVERHEAD * (len(requests) - 1))
            cost += duration
            stacks_started += 1
            runs_started += len(requests)
            # The number breaks ties, so that stacks that end at the same time end in the order of their starts.
            heapq.heappush(running, _StackInTraining(now + duration, stacks_started, requests, results, duration))
        if not running:
            break
        ended = heapq.heappop(running)
        now = ended.end
        for request, point in zip(ended.requests, ended.results, strict=True):
            searcher.tell(request, point)
        watch(now, runs_started)
        if newly_released := searcher.release():
            released.update(newly_released)
            # A stack trains as long as one of its runs is needed, so only whole stacks are dropped.
            waiting = deque(requests for requests in waiting if not released.issuperset(requests))
            dropped = [item for item in running if released.issuperset(item.requests)]
            cost -= sum(item.end - now for item in dropped)
            running = [item for item in running if item not in dropped]
            heapq.heapify(running)
    if not searcher.done:
        raise RuntimeError("the searcher is stuck: it is not done, but has no run to request and none to wait for")
    return Trace(dict(searcher.results), cost, now, cost / (now * workers) if now else 1.0)


def stacks(wanted: Iterable[Request], most: int) -> list[tuple[Request, ...]]:
    """Return runs as stacks with one size each and at most ``most`` runs, in the order in which they were wanted."""
    by_size: dict[int, list[Request]] = {}
    for request in wanted:
        by_size.setdefault(request.size, []).append(request)
    return [tuple(group[start : start + most]) for group in by_size.values() for start in range(0, len(group), most)]


@dataclass(frozen=True)
class Truth:
    """A mix whose runs learn with a probability that is a logistic function of ln size.

    Attributes:
        midpoint: The ln size at which half of the runs learn.
        slope: Slope of the logistic function.
        key: Seed of the mix's runs.
    """

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
        logit = self.slope * (math.log(request.size) - self.midpoint)
        logit = min(max(logit, -500.0), 500.0)  # exp overflows above 709.
        level = ASYMPTOTE if rng.random() < 1 / (1 + math.exp(-logit)) else FLOOR
        accuracy = min(max(level + SCATTER * float(rng.normal()), 0.0), 1.0)
        return request.point(accuracy, FLOOR, cost)


@dataclass(frozen=True)
class MethodScore:
    """Results of a method on many simulated sweeps.

    Attributes:
        method: Name of the method.
        runs: Mean number of runs.
        cost: Cost relative to the grid's.
        wall: Time from start to end relative to the grid's.
        busy: Share of the workers' time that they spent on stacks, in [0, 1].
        error: Median of |ln(estimate / truth)|, or None if there are no estimates.
        holds: Share of the 90% intervals that contain the truth.
    """

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
    on_sweep: Callable[[str], object] = str,
) -> list[MethodScore]:
    """Compare search methods on the same simulated sweeps.

    Args:
        problem: Sizes, mixes and seeds of the sweeps.
        methods: Settings of each method, by its name.
        costs: Cost of a run by size, in any unit.
        sweeps: Number of sweeps.
        seed: Seed of the sweeps' curves.
        workers: Number of stacks that train at the same time.
        stack: Maximum number of runs in a stack.
        on_sweep: Called before each sweep with its method and number, such as ``pairs, 3 of 40``.
    """
    rng = np.random.default_rng(seed)
    truths_by_sweep = [{mix: _draw_truth(problem, rng) for mix in problem.mixes} for _ in range(sweeps)]

    def trace(searcher: Searcher, truths: Mapping[str, Truth]) -> Trace:
        return simulate(searcher, lambda run: truths[run.mix].run(run, costs[run.size]), workers, stack)

    def traces(method: str, settings: Mapping[str, Any]) -> list[Trace]:
        traced = []
        for number, truths in enumerate(truths_by_sweep, 1):
            on_sweep(f"{method}, {number} of {sweeps}")
            traced.append(trace(METHODS[method](problem, **settings), truths))
        return traced

    grid = traces("grid", {})
    return [
        _score(method, problem, traces(method, settings), grid, truths_by_sweep) for method, settings in methods.items()
    ]


def _draw_truth(problem: Problem, rng: np.random.Generator) -> Truth:
    """Return a mix with a random slope and a transition that is uniform in ln size."""
    smallest = math.log(problem.sizes[0])
    largest = math.log(problem.sizes[-1])
    margin = MARGIN * (largest - smallest)
    slope = math.exp(rng.uniform(math.log(SLOPES[0]), math.log(SLOPES[1])))
    # The distance from the midpoint to the transition depends on the slope, so it is computed at midpoint 0 first.
    truth = Truth(0.0, slope, int(rng.integers(2**32)))
    transition_at = rng.uniform(smallest + margin, largest - margin)
    return replace(truth, midpoint=transition_at - math.log(truth.transition))


def _score(
    method: str,
    problem: Problem,
    traces: Sequence[Trace],
    grid: Sequence[Trace],
    truths_by_sweep: Sequence[Mapping[str, Truth]],
) -> MethodScore:
    """Return the score of a method, given a trace of the method and of the grid for each sweep."""
    errors: list[float] = []
    held: list[bool] = []
    for trace, truths in zip(traces, truths_by_sweep, strict=True):
        for mix, truth in truths.items():
            estimate = transition(points(trace.results, mix), problem.sizes).relative
            if estimate.value is not None:
                errors.append(abs(math.log(estimate.value / truth.transition)))
            # An interval that is open at both ends contains everything and states nothing, so it counts as a miss.
            is_bounded = estimate.low is not None or estimate.high is not None
            held.append(is_bounded and (estimate.low or 0.0) <= truth.transition <= (estimate.high or math.inf))
    return MethodScore(
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

    Each continuation draws a learning curve for every mix, given the mix's runs. A copy of the searcher then finishes
    on these curves. The seed is fixed, so equal runs give equal results.

    Args:
        searcher: A search with the extended limits, as from :func:`continued`.

    Returns:
        The share of continuations that decide each comparison, in [0, 1], by mix and baseline.
    """
    problem = searcher.problem
    settings = searcher.settings
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
        # Any numbers will do, because only factors depend on parameters, and no factor is used here.
        return Parameters(size**2, size**2)

    for draw in range(CONTINUATIONS):
        chance = {mix: dict(zip(problem.sizes, chances[draw], strict=True)) for mix, chances in chance_DS.items()}
        branch = searcher.branch()
        trace = simulate(branch, _continuation(chance, cost, draw))
        outcomes = learned_runs(trace.results, settings.learned)
        for pair in problem.comparisons:
            blocks = [block for block in branch.blocks if (block.mix, block.baseline) == pair]
            pairs = counted_pairs(blocks, outcomes)
            comparison = compare(pairs, parameters, settings.error, problem.earlier_looks(*pair))
            decided[pair] += comparison.decided is not None
    return {pair: count / CONTINUATIONS for pair, count in decided.items()}


def continued(searcher: Pairs) -> Pairs:
    """Return a search that continues another with twice its seeds and limits, until every comparison is decided."""
    problem = searcher.problem
    settings = searcher.settings
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
    """Return a world in which runs learn with the given probability, by mix and size. ``draw`` is its seed."""
    position = {mix: index for index, mix in enumerate(chance)}

    def run(request: Request) -> Point:
        # Seeded by the request, so that the result does not depend on the order of the requests.
        uniform = np.random.default_rng([draw, position[request.mix], request.size, request.seed]).random()
        return request.point(float(uniform < chance[request.mix][request.size]), 0.0, cost[request.size])

    return run
