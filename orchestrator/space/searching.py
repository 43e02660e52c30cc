"""From a search space to its searcher."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.search.base import Problem, Request, Searcher
from orchestrator.search.registry import make_searcher
from orchestrator.space.evidence import observe
from orchestrator.space.spec import SweepSpec
from trainables.base import Outcome


def searcher_of(spec: SweepSpec, ended: Iterable[tuple[Request, Outcome]] = ()) -> Searcher:
    """The searcher a specification names, for its mixes, sizes and seeds. It is told of the runs that ``ended``, but
    not of phases that other runs go on from: it asks for none."""
    problem = Problem(tuple(mix.name for mix in spec.mixes), spec.sizes, spec.seed_list)
    searcher = make_searcher(spec.search.method, problem, **spec.search.settings)
    for request, outcome in ended:
        if not request.phase:
            searcher.tell(request, observe(outcome, spec.target))
    return searcher
