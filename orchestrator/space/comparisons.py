"""Statistics of a sweep's runs: what its searcher sees of each run, its comparisons, and which ones can be decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from orchestrator.jobs.timetable import typical_seconds
from orchestrator.search.pairs import Pairs
from orchestrator.search.reachable_pairs import Shortfall
from orchestrator.search.results import learned_runs
from orchestrator.space.problem import problem_of, searcher_of
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.comparison import Comparison, compare
from orchestrator.transition.evidence import ERROR, LEARNED, Block, counted_pairs
from orchestrator.transition.types import Point


def search_points(spec: SweepSpec) -> Callable[[Run], Point | None]:
    """Return a function that returns the result of a run for the sweep's searcher.

    A search weighs sizes by the cost of their runs. With measured seconds, it would request other runs on a busy or
    different machine. If the family knows the speed of a core, the cost is therefore the predicted number of seconds
    (:func:`orchestrator.jobs.timetable.typical_seconds`).
    """
    family = spec.make_family()
    speed = family.typical_speed(spec.resources.device)

    def search_point(run: Run) -> Point | None:
        point = run.point(spec.target)
        if point is None or speed is None:
            return point
        trained = run.outcome.steps / family.steps(run.config)
        return replace(point, cost=trained * typical_seconds(family, speed, run.config))

    return search_point


def comparisons(spec: SweepSpec, blocks: Sequence[Block], runs: Iterable[Run]) -> dict[str, Comparison]:
    """Return the comparisons of a sweep by mix. Baselines have none, and methods without blocks have none.

    Args:
        blocks: The sweep's blocks, in the order of request.
        runs: The runs that count for its answer.
    """
    results = {run.request: run.point(spec.target) for run in runs}
    error = spec.search.settings.get("error", ERROR)
    learned = learned_runs(results, spec.search.settings.get("learned", LEARNED))
    family = spec.make_family()
    baselines = dict(problem_of(spec).comparisons)
    blocks_of: dict[str, list[Block]] = {mix: [] for mix in baselines}
    for block in blocks:
        if baselines.get(block.mix) == block.baseline:
            blocks_of[block.mix].append(block)
    return {
        mix: compare(counted_pairs(requested, learned), family.parameters, error, spec.looks.get(mix, 0))
        for mix, requested in blocks_of.items()
        if requested
    }


def shortfalls(spec: SweepSpec, blocks: Sequence[Block], runs: Iterable[Run]) -> dict[str, Shortfall]:
    """Return, by mix, why comparisons of a sweep can no longer be decided within their budget.

    The result omits a comparison that could have been decided but has used up its budget. It is simply undecided.
    """
    searcher = searcher_of(spec, blocks)
    if not isinstance(searcher, Pairs):  # Other methods have no budget that could run out.
        return {}
    point = search_points(spec)
    for run in runs:
        searcher.tell(run.request, point(run))
    shortfall_of = {mix: searcher.shortfall((mix, baseline)) for mix, baseline in searcher.problem.comparisons}
    return {mix: short for mix, short in shortfall_of.items() if short is not None and (short.room or short.from_start)}
