"""Sums that a search keeps are the same as sums over all its results and blocks."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from orchestrator.search.base import Problem, Request, requests_of
from orchestrator.search.ledger import ComparedRuns
from orchestrator.search.next_run import TransitionDesign
from orchestrator.search.pairs import Pairs
from orchestrator.transition.e_value import growth_of
from orchestrator.transition.evidence import LEARNED, has_learned, pair_of
from orchestrator.transition.types import Point

SIZES = (8, 10, 12, 14, 16, 20, 24, 32, 48, 64)


def outcome(place: int, run: Request) -> Point | None:
    """Return the drawn outcome of a run of the mix at ``place``. Some fail, and the cost of some is unknown."""
    drawn = float(np.random.default_rng([place, run.size, run.seed]).random())
    if drawn > 0.95:
        return None
    learned = drawn < 1 / (1 + math.exp(-4 * math.log(run.size / (14 + 3 * place))))
    return run.point(0.98 if learned else 0.2, 0.15, 0.0 if drawn > 0.9 else run.size * (0.1 + drawn))


def check_sums(searcher: Pairs) -> None:
    """Compare the sums with those over all results and blocks."""
    ledger = searcher.ledger
    learned = {
        (run.mix, run.size, run.seed): None if seen is None else has_learned(seen.accuracy, seen.floor)
        for run, seen in searcher.results.items()
    }
    for mix in searcher.problem.mixes:
        cells = {cell[1:]: outcome is not None for cell, outcome in learned.items() if cell[0] == mix}
        assert ledger.cells[mix].cells == cells
        assert ledger.cells[mix].used == Counter(seed for _, seed in cells)
        assert +ledger.cells[mix].taken == Counter(size for size, seed in cells if seed in searcher.problem.seeds)
        assert ledger.transition(mix) == TransitionDesign.of(searcher.problem, mix, searcher.results, LEARNED)
    for key, runs in ledger.compared.items():
        check_comparison(searcher, key, runs)


def check_comparison(searcher: Pairs, key: tuple[str, str], runs: ComparedRuns) -> None:
    blocks = [block for block in searcher.blocks if (block.mix, block.baseline) == key]
    pairs = [pair_of(block, searcher.ledger.learned) for block in blocks]
    counted = pairs.index(None) if None in pairs else len(pairs)
    assert (runs.blocks, runs.pairs, runs.counted) == (blocks, pairs, counted)
    whole = growth_of(pair for pair in pairs[:counted] if pair is not None)
    assert {side: path.tolist() for side, path in runs.growth.paths().items()} == {
        side: path.tolist() for side, path in whole.paths().items()
    }
    waiting = {place: requests_of(block) for place, block in enumerate(blocks) if pairs[place] is None}
    assert runs.open_runs == waiting
    costs = [
        (run.size, seen.cost)
        for block, pair in zip(blocks, pairs, strict=True)
        for run in (requests_of(block) if pair is not None else ())
        if (seen := searcher.results[run]) is not None and seen.cost > 0
    ]
    assert list(zip(runs.costs.sizes, runs.costs.costs, strict=True)) == costs
    assert runs.uses == Counter(block.seed for block in blocks)
    for sizes, own in (("mix_size", runs.seeds_of_mix), ("baseline_size", runs.seeds_of_baseline)):
        assert own == {
            size: {block.seed for block in blocks if getattr(block, sizes) == size}
            for size in {getattr(block, sizes) for block in blocks}
        }


def anew(searcher: Pairs) -> Pairs:
    """Return a new searcher with the same results, in another order, and the same blocks."""
    twin = Pairs(searcher.problem, **vars(searcher.settings))
    twin.restore(searcher.blocks)
    results = list(searcher.results.items())
    random.Random(len(results)).shuffle(results)
    for request, point in results:
        twin.tell(request, point)
    for mix in searcher.stopped:
        twin.stop(mix)
    return twin


@pytest.mark.parametrize("case", range(8))
def test_a_search_decides_as_one_that_starts_from_all_results(case: int) -> None:
    rng = random.Random(case)
    names = tuple(f"mix{place}" for place in range(rng.choice([2, 3, 5])))
    seeds = tuple(range(rng.choice([4, 24])))
    problem = Problem(names, SIZES, seeds, tuple((mix, names[0]) for mix in names[1:]))
    limits = {"max_cost": 150.0} if case % 3 == 0 else {}
    aim, stack, slots = ("locate", "factor", "decide")[case % 3], rng.choice([1, 4, 16]), rng.choice([1, 3, 40])
    searcher = Pairs(problem, aim=aim, max_runs=40, stack=stack, **limits)
    pending: list[Request] = []
    for step in range(120):
        ending = frozenset(rng.sample(pending, min(len(pending), rng.choice([0, 0, 2]))))
        if (room := slots - len(pending)) > 0:
            if step % 7 == 0:
                check_sums(searcher)
                twin = anew(searcher)
                assert searcher.choose(searcher.pending, room, ending) == twin.choose(searcher.pending, room, ending)
                assert searcher.choose((), room) == twin.choose((), room), "as after a resume"
                assert searcher.progress() == twin.progress()
            pending += searcher.ask(room, ending)
        if step == 60 and case % 4 == 1:
            searcher.stop(names[-1])
            pending = [run for run in pending if run.mix != names[-1]]
        if not pending:
            break
        run = pending.pop(rng.randrange(len(pending)))
        searcher.tell(run, outcome(names.index(run.mix), run))
    assert len(searcher.results) > 20
    check_sums(searcher)


def test_a_branch_has_sums_of_its_own() -> None:
    problem = Problem(("add", "mixed"), SIZES, tuple(range(8)), (("mixed", "add"),))
    searcher = Pairs(problem, max_runs=30)
    for run in searcher.ask(6):
        searcher.tell(run, outcome(0, run))
    before = searcher.ledger.compared["mixed", "add"]
    other = before.branch()
    block = before.blocks[0]
    other.add(block, pair_of(block, searcher.ledger.learned), searcher.ledger.run_cost)
    assert len(other.costs.sizes) == len(before.costs.sizes) + 2
    assert other.uses[block.seed] == before.uses[block.seed] + 1
    check_sums(searcher)
