"""What counts as evidence for a transition, asked here alone: which of the runs that ended, and what each of them says.

A run is evidence where it was trained with the steps that all runs of its arm have, and to its end. (That it is a run
of an arm, and no phase that another run goes on from, its label says.) A failed run says nothing; a diverged one
learned nothing. Of runs that are only wanted yet, :attr:`orchestrator.search.base.Request.is_evidence` says it.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.search.base import Observation, Problem, Request, Searcher
from orchestrator.search.registry import make_searcher
from orchestrator.space.spec import SweepSpec
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


def searcher_of(spec: SweepSpec, ended: Iterable[tuple[Request, Outcome]] = ()) -> Searcher:
    """The searcher a specification names, for its mixes, sizes and seeds. It is told of the runs that ``ended``, but
    not of phases that other runs go on from: it asks for none."""
    problem = Problem(tuple(mix.name for mix in spec.mixes), spec.sizes, spec.seed_list)
    searcher = make_searcher(spec.search.method, problem, **spec.search.settings)
    for request, outcome in ended:
        if not request.phase:
            searcher.tell(request, observe(outcome, spec.target))
    return searcher
