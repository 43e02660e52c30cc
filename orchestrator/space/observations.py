"""Observations of a sweep: which finished runs count as evidence for a transition, and what each one shows.

A run is evidence if it was trained to its end, with the steps of all runs of its arm. Earlier phases of an arm are not
evidence; their labels differ. A failed run is not evidence, and a diverged run did not learn. For runs that have not
ended, see :attr:`orchestrator.search.base.Request.is_evidence`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchestrator.search.base import Observation, Problem, Request, Searcher
from orchestrator.search.registry import METHODS
from orchestrator.search.results import learned_runs
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.evidence import ERROR, LEARNED, Block, Comparison, compare, counted
from orchestrator.transition.types import Point
from trainables.base import Outcome, RunConfig, Status


def is_evidence(run: RunConfig) -> bool:
    """Return True if a run trains for the full length of its arm, so that it is evidence unless it fails."""
    return run.until is None


def stands_for_its_size(run: RunConfig, outcome: Outcome) -> bool:
    """Return True if a run's model and training are typical of its size."""
    return is_evidence(run) and outcome.status is Status.FINISHED


def scores(outcome: Outcome, task: str) -> tuple[float, float] | None:
    """Return accuracy and floor on a task, both in [0, 1], or None for a failed run. A diverged run is at its floor."""
    if outcome.status is Status.FAILED:
        return None
    floor = outcome.floor[task]
    return floor if outcome.status is Status.DIVERGED else outcome.accuracy[task], floor


def point_of(run: RunConfig, outcome: Outcome, task: str) -> Point | None:
    """Return a run as a point for a task, or None for a failed run."""
    result = scores(outcome, task)
    return None if result is None else Point(run.size, run.seed, *result, outcome.settled(task))


def observe(outcome: Outcome, target: str) -> Observation | None:
    """Return an outcome as an observation for a searcher, or None for a failed run."""
    result = scores(outcome, target)
    cost = outcome.measures.get("seconds", 0.0)
    return None if result is None else Observation(*result, cost, outcome.settled(target))


def problem_of(spec: SweepSpec, recipe: str | None = None) -> Problem:
    """Return the searcher's problem of a sweep, under one recipe or under all."""
    mixes = [mix for mix in spec.mixes if recipe is None or mix.recipe == recipe]
    compared = [(mix.name, spec.baseline_of(mix).name) for mix in mixes if mix != spec.baseline_of(mix)]
    family = spec.make_family()
    return Problem(
        tuple(mix.name for mix in mixes),
        spec.sizes,
        spec.seed_list,
        tuple(compared) if family.compares_mixes else (),
        tuple(family.parameters(size).total for size in spec.sizes),
        tuple(spec.looks.get(mix, 0) for mix, _ in compared) if family.compares_mixes else (),
    )


def searcher_of(spec: SweepSpec, blocks: Iterable[Block] = ()) -> Searcher:
    """Return a sweep's searcher with all requested ``blocks``, without results."""
    searcher = METHODS[spec.search.method](problem_of(spec), **spec.search.settings)
    searcher.restore(blocks)
    return searcher


def comparisons(
    spec: SweepSpec, blocks: Sequence[Block], ended: Iterable[tuple[RunConfig, Outcome]]
) -> dict[str, Comparison]:
    """Return the comparisons of a sweep by mix, from its blocks and the ``ended`` runs that are evidence. Baselines and
    methods without blocks have none."""
    observations = {Request(run.label, run.size, run.seed): observe(outcome, spec.target) for run, outcome in ended}
    error, share = spec.search.settings.get("error", ERROR), spec.search.settings.get("learned", LEARNED)
    learned, family = learned_runs(observations, share), spec.make_family()
    own = {
        mix: [block for block in blocks if (block.mix, block.baseline) == (mix, baseline)]
        for mix, baseline in problem_of(spec).comparisons
    }
    return {
        mix: compare(counted(asked, learned), family.parameters, error, spec.looks.get(mix, 0))
        for mix, asked in own.items()
        if asked
    }
