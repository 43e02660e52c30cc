"""Every setting of every searcher changes the search, or what its evidence decides."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from orchestrator.search.base import Request
from orchestrator.search.registry import METHODS
from orchestrator.search.results import learned_runs
from orchestrator.transition.comparison import Comparison, compare
from orchestrator.transition.evidence import ERROR, LEARNED, counted_pairs
from orchestrator.transition.types import Point
from tests.conformance.searchers import PROBLEM, World, coin, drive, mixed, step
from trainables.base import Parameters

MANY_SEEDS = replace(PROBLEM, seeds=tuple(range(24)))
"""A problem with more runs than a search needs, so that its settings say where it ends."""
OTHERS: dict[tuple[str, str], Any] = {
    ("pairs", "stack"): 4,
    ("pairs", "error"): 0.3,
    ("pairs", "learned"): 0.95,
    ("pairs", "aim"): "decide",
    ("pairs", "max_runs"): 4,
    ("pairs", "max_cost"): 50.0,
    ("grid", "stack"): 3,
    ("grid", "error"): 0.3,
    ("grid", "learned"): 0.95,
    ("bisection", "stack"): 3,
}
"""A value for each setting that is not its default."""


def apart(request: Request) -> Point | None:
    """A world in which ``add+prod`` is learned at smaller sizes than ``add``."""
    chance = coin(1)(request)
    assert chance is not None
    low, high = (16, 24) if request.mix == "add+prod" else (40, 64)
    return chance if low <= request.size < high else step(high)(request)


def searched(method: str, world: World, **settings: Any) -> tuple[list[Request], Comparison]:
    """Return the runs of a search in the order of their requests, and what its pairs decide."""
    searcher = METHODS[method](MANY_SEEDS, **settings)
    results = drive(searcher, world, 8)
    own = vars(searcher.settings)
    pairs = counted_pairs(searcher.blocks, learned_runs(results, own.get("learned", LEARNED)))
    return list(results), compare(pairs, lambda size: Parameters(size, size), own.get("error", ERROR))


def test_every_setting_is_listed() -> None:
    known = {(method, one.name) for method, kind in METHODS.items() for one in fields(kind.Settings)}
    assert known == set(OTHERS)


@pytest.mark.parametrize(("method", "name"), OTHERS)
def test_no_setting_is_ignored(method: str, name: str) -> None:
    changed = {name: OTHERS[method, name]}
    assert any(searched(method, world, **changed) != searched(method, world) for world in (mixed(3), apart))
