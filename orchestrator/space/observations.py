"""Observations of a sweep: which finished runs count as evidence for a transition, and what each one shows.

A run is evidence if it was trained to its end, with the steps of all runs of its arm. Earlier phases of an arm are not
evidence; their labels differ. A failed run is not evidence, and a diverged run did not learn. For runs that have not
ended, see :attr:`orchestrator.search.base.Request.is_evidence`.

A search weighs sizes by what their runs cost. Measured seconds would make it request other runs on a busy machine, and
on another one, so a family that knows the speed of a core predicts them (:func:`typical_seconds`).
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.search.base import Observation, Problem, Searcher
from orchestrator.search.registry import METHODS
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.evidence import Block
from trainables.base import Family, Outcome, RunConfig, Status


def scores(outcome: Outcome, task: str) -> tuple[float, float] | None:
    """Return accuracy and floor on a task, both in [0, 1], or None for a failed run. A diverged run is at its floor."""
    if outcome.status is Status.FAILED:
        return None
    floor = outcome.floor[task]
    return floor if outcome.status is Status.DIVERGED else outcome.accuracy[task], floor


def observe(outcome: Outcome, target: str, typical_s: float | None = None) -> Observation | None:
    """Return an outcome as an observation for a searcher, or None for a failed run. Its cost is ``typical_s``, or what
    was measured if that is None."""
    result = scores(outcome, target)
    cost = outcome.measures.get("seconds", 0.0) if typical_s is None else typical_s
    return None if result is None else Observation(*result, cost, outcome.settled(target))


def typical_seconds(family: Family, device: str, run: RunConfig, outcome: Outcome) -> float | None:
    """Return the seconds that the steps of a run take on a typical core, or None if the family does not know."""
    speed = family.speed(device)
    if speed is None:
        return None
    trained = outcome.steps / family.steps(run)
    return trained * speed.seconds(family.flops(run), family.parameters(run.size).total)


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
