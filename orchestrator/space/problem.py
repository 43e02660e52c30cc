"""The problem that a sweep's searcher solves, and the searcher itself."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.search.base import Problem, Searcher
from orchestrator.search.registry import METHODS
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.evidence import Block


def problem_of(spec: SweepSpec, recipe: str | None = None) -> Problem:
    """Return the problem that a sweep's searcher solves, for one recipe or (None) for all."""
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
