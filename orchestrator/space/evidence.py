"""What counts as evidence for a transition, asked here alone: which of the runs that ended, and what each of them says.

A run is evidence where it was trained with the steps that all runs of its arm have, and to its end. (That it is a run
of an arm, and no phase that another run goes on from, its label says.) A failed run says nothing; a diverged one
learned nothing. Of runs that are only wanted yet, :attr:`orchestrator.search.base.Request.is_evidence` says it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchestrator.search.base import Observation, Problem, Request, Searcher
from orchestrator.search.registry import make_searcher
from orchestrator.search.results import learned_runs
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.evidence import ERROR, LEARNED, Block, Comparison, bar, compare, counted
from orchestrator.transition.types import Point
from trainables.base import Outcome, RunConfig, Status


def is_evidence(run: RunConfig) -> bool:
    """Whether a run is trained as all runs of its arm are, so that it says something of its size; not whether it did
    not fail."""
    return run.until is None


def stands_for_its_size(run: RunConfig, outcome: Outcome) -> bool:
    """Whether what is found inside a run's model, or how it was trained, says something of all models of its size."""
    return is_evidence(run) and outcome.status is Status.FINISHED


def scores(outcome: Outcome, task: str) -> tuple[float, float] | None:
    """Accuracy and floor on a task, both in [0, 1], as the statistics see them: a diverged run is at its floor. None
    for a failed run."""
    if outcome.status is Status.FAILED:
        return None
    floor = outcome.floor[task]
    return floor if outcome.status is Status.DIVERGED else outcome.accuracy[task], floor


def point_of(run: RunConfig, outcome: Outcome, task: str) -> Point | None:
    """Point of a run for a task; None for a failed run."""
    seen = scores(outcome, task)
    return None if seen is None else Point(run.size, run.seed, *seen)


def observe(outcome: Outcome, target: str) -> Observation | None:
    """Observation of an outcome for a searcher; None for a failed run."""
    seen = scores(outcome, target)
    return None if seen is None else Observation(*seen, outcome.measures.get("seconds", 0.0))


def problem_of(spec: SweepSpec, recipe: str | None = None) -> Problem:
    """Return the question that a searcher of a sweep searches, under one recipe or under all."""
    mixes = [mix for mix in spec.mixes if recipe is None or mix.recipe == recipe]
    compared = [(mix.name, spec.baseline_of(mix).name) for mix in mixes if mix != spec.baseline_of(mix)]
    family = spec.make_family()
    return Problem(
        tuple(mix.name for mix in mixes),
        spec.sizes,
        spec.seed_list,
        tuple(compared) if family.compares_mixes else (),
        tuple(family.parameters(size).total for size in spec.sizes),
    )


def searcher_of(
    spec: SweepSpec, ended: Iterable[tuple[Request, Outcome]] = (), blocks: Iterable[Block] = ()
) -> Searcher:
    """Return the searcher of a sweep, with the results of runs that ``ended`` and the ``blocks`` asked for so far.

    Phases that other runs continue are left out: no searcher asks for them.
    """
    searcher = make_searcher(spec.search.method, problem_of(spec), **spec.search.settings)
    searcher.restore(blocks)
    for request, outcome in ended:
        if not request.phase:
            searcher.tell(request, observe(outcome, spec.target))
    return searcher


def comparisons(
    spec: SweepSpec, blocks: Sequence[Block], ended: Iterable[tuple[RunConfig, Outcome]]
) -> dict[str, Comparison]:
    """Return what the blocks of a sweep show, by mix: nothing for baselines and for methods without blocks."""
    seen = {}
    for run, outcome in ended:
        if is_evidence(run) and run.label in spec.mix_named:
            seen[Request(run.label, run.size, run.seed)] = observe(outcome, spec.target)
    error, share = (spec.search.settings.get(*each) for each in (("error", ERROR), ("learned", LEARNED)))
    learned, family = learned_runs(seen, share), spec.make_family()
    floors = [found.floor for found in seen.values() if found is not None]
    accuracy = bar(sum(floors) / len(floors), share) if floors else share
    own = {
        mix: [block for block in blocks if (block.mix, block.baseline) == (mix, baseline)]
        for mix, baseline in problem_of(spec).comparisons
    }
    return {
        mix: compare(counted(asked, learned), family.parameters, error, accuracy) for mix, asked in own.items() if asked
    }
