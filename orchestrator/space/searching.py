"""Between a search space and its searcher: makes the searcher, and turns outcomes into its observations."""

from __future__ import annotations

from orchestrator.search.base import Observation, Problem, Searcher
from orchestrator.search.registry import make_searcher
from orchestrator.space.spec import SweepSpec
from trainables.base import Outcome, Status


def searcher_of(spec: SweepSpec) -> Searcher:
    """The searcher a specification names, for its mixes, sizes and seeds."""
    problem = Problem(tuple(mix.name for mix in spec.mixes), spec.sizes, spec.seed_list)
    return make_searcher(spec.search.method, problem, **spec.search.settings)


def observe(outcome: Outcome, target: str) -> Observation | None:
    """What a searcher is told of an outcome; None for a failed run, which is no evidence."""
    if outcome.status is Status.FAILED:
        return None
    return Observation(outcome.accuracy[target], outcome.floor[target], outcome.measures.get("seconds", 0.0))
