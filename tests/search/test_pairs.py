"""The statistical searcher: pairs that decide, pairs that raise a factor, runs that locate."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.search.base import Observation, Problem, Request
from orchestrator.search.bisection import Bisection, Grid
from orchestrator.search.duel import Count
from orchestrator.search.pairs import Pairs
from orchestrator.search.results import learned_runs
from orchestrator.simulation import simulate
from orchestrator.transition.evidence import Block, Comparison, Direction, compare, counted
from tests.conformance.searchers import World, drive
from tests.simulation.truths import Truth, TruthKind, truths_world
from trainables.contract.settings import SettingsError

SIZES = (6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 28)
TWO = Problem(("add", "add+prod"), SIZES, tuple(range(8)), (("add+prod", "add"),))


def world(transitions: dict[str, float], slope: float = 20.0, seed: int = 0) -> World:
    """A world in which the chance to learn rises at each mix's own size."""

    def outcome(request: Request) -> Observation:
        rng = np.random.default_rng([seed, len(request.mix), request.size, request.seed])
        chance = 0.95 / (1 + math.exp(-slope * (math.log(request.size) - math.log(transitions[request.mix]))))
        return Observation(0.98 if rng.random() < chance else 0.2, 0.15, 20.0 + request.size)

    return outcome


def shown(searcher: Pairs | Grid, mix: str = "add+prod") -> Comparison:
    learned = learned_runs(searcher.results, searcher.settings.learned)
    blocks = [block for block in searcher.blocks if block.mix == mix]
    return compare(counted(blocks, learned), lambda size: Count(size**2.0))


HALF = world({"add": 20.0, "add+prod": 10.0})
ALIKE = world({"add": 12.0, "add+prod": 12.0})


def test_a_mix_that_needs_half_the_size_is_decided_in_a_few_pairs() -> None:
    searcher = Pairs(TWO, aim="decide")
    results = drive(searcher, HALF)
    found = shown(searcher)
    assert found.decided is Direction.FEWER
    assert len(results) == 2 * found.pairs <= 30
    assert all(block.mix_size == block.baseline_size for block in searcher.blocks)


def test_a_mix_that_needs_twice_the_size_is_decided_the_other_way() -> None:
    searcher = Pairs(TWO, aim="factor")
    drive(searcher, world({"add": 10.0, "add+prod": 20.0}))
    found = shown(searcher)
    assert found.decided is Direction.MORE
    assert found.at_least is not None
    assert 1.5 < found.at_least <= 4.5


def test_the_factor_is_raised_by_pairs_of_unequal_sizes_and_stays_below_the_truth() -> None:
    factors = []
    for seed in range(4):
        searcher = Pairs(TWO, aim="factor")
        drive(searcher, world({"add": 20.0, "add+prod": 10.0}, seed=seed))
        found = shown(searcher)
        assert found.at_least is not None
        factors.append(found.at_least)
        assert any(block.baseline_size > block.mix_size for block in searcher.blocks)
    assert max(factors) <= 4.5
    assert float(np.median(factors)) >= 1.7


def test_locating_comes_last_and_places_both_transitions() -> None:
    searcher = Pairs(TWO)
    results = list(drive(searcher, HALF))
    paired = {Request(*run) for block in searcher.blocks for run in block.runs}
    alone = [place for place, run in enumerate(results) if run not in paired]
    assert alone == list(range(len(paired), len(results)))
    assert shown(searcher).decided is Direction.FEWER
    lows, highs = zip(*((mix.low, mix.high) for mix in searcher.progress()), strict=True)
    assert lows[0] is not None
    assert highs[1] is not None
    assert highs[1] <= lows[0] + 4


def test_a_problem_without_comparisons_only_locates() -> None:
    searcher = Pairs(replace(TWO, comparisons=()))
    drive(searcher, HALF)
    assert searcher.blocks == ()
    assert all(mix.done for mix in searcher.progress())


def test_both_runs_of_a_block_are_asked_for_at_once_with_one_seed() -> None:
    searcher = Pairs(TWO, aim="decide")
    one = searcher.ask(1)
    assert [run.mix for run in one] == ["add+prod", "add"]
    assert len({(run.size, run.seed) for run in one}) == 1
    assert len(searcher.ask(4)) == 4


def test_a_run_known_from_elsewhere_does_not_draw_a_block_towards_itself_or_away() -> None:
    """Whatever runs of the home the searcher was given: the blocks are those it would have asked for without them, as
    long as the same outcomes come back."""
    asked = Pairs(TWO, aim="decide")
    drive(asked, HALF)
    given = Pairs(TWO, aim="decide")
    for size in SIZES:
        for seed in (0, 1):
            given.tell(Request("add", size, seed), HALF(Request("add", size, seed)))
    drive(given, HALF)
    assert given.blocks == asked.blocks


def test_the_second_run_of_a_block_is_asked_for_whatever_the_first_did() -> None:
    searcher = Pairs(TWO, aim="decide")
    first, second = searcher.ask(2)
    searcher.tell(first, Observation(0.2, 0.15, 1.0))
    resumed = Pairs(TWO, aim="decide")
    resumed.restore(searcher.blocks)
    resumed.tell(first, Observation(0.2, 0.15, 1.0))
    assert resumed.ask(1) == [second]


def test_a_resumed_search_continues_the_product() -> None:
    whole = Pairs(TWO)
    drive(whole, HALF)
    broken = Pairs(TWO)
    drive(broken, HALF, stop=13)
    resumed = Pairs(TWO)
    resumed.restore(broken.blocks)
    for request, seen in reversed(list(broken.results.items())):
        resumed.tell(request, seen)
    drive(resumed, HALF)
    assert resumed.blocks == whole.blocks
    assert resumed.results == whole.results


def test_more_seeds_continue_it_too() -> None:
    few = Pairs(replace(TWO, seeds=(0, 1)), aim="decide")
    drive(few, ALIKE)
    more = Pairs(TWO, aim="decide")
    more.restore(few.blocks)
    for request, seen in few.results.items():
        more.tell(request, seen)
    drive(more, ALIKE)
    assert more.blocks[: len(few.blocks)] == few.blocks
    assert len(more.blocks) > len(few.blocks)


def test_budgets_end_the_search() -> None:
    by_runs = drive(Pairs(TWO, max_runs=7), ALIKE)
    assert max(sum(run.mix == mix for run in by_runs) for mix in TWO.mixes) <= 7
    by_cost = drive(Pairs(TWO, max_cost=200.0), ALIKE)
    for mix in TWO.mixes:
        spent = [seen.cost for run, seen in by_cost.items() if run.mix == mix and seen is not None]
        assert sum(spent[:-1]) < 200


def test_a_grid_is_planned_beforehand_so_that_its_cells_are_evidence_and_bisection_has_none() -> None:
    grid, plain = Grid(TWO), Bisection(TWO)
    for searcher in (grid, plain):
        drive(searcher, HALF, 5, order=3)
    assert len(grid.blocks) == len(SIZES) * len(TWO.seeds)
    assert shown(grid).decided is Direction.FEWER
    assert plain.blocks == ()


def test_what_an_order_of_completion_would_decide_the_order_asked_does_not() -> None:
    """Rule 1 of the evidence: learners end early, so what is back first has learned."""
    blocks = [Block("mix", "base", 12, 12, seed) for seed in range(8)]
    learned = {run: run[0] == "mix" for block in blocks[3:] for run in block.runs}
    assert counted(blocks, learned) == []
    back = compare(counted(blocks[3:], learned), lambda size: Count(size))
    assert back.decided is Direction.FEWER


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ({"error": 0.0}, "lie between"),
        ({"learned": 0.01}, "lie between"),
        ({"max_runs": 0}, "lie between"),
        ({"max_cost": 0.0}, "be at least"),
        ({"stack": 0}, "lie between"),
    ],
)
def test_impossible_settings_are_refused(setting: dict[str, float], rule: str) -> None:
    name = next(iter(setting))
    with pytest.raises(SettingsError, match=rf"search\.{name} is .*must {rule}"):
        Pairs(TWO, **setting)


EIGHT = tuple(f"m{place}" for place in range(8))


def eight() -> World:
    truths = {
        mix: Truth(TruthKind.MATCHED, math.log(14 * 1.13**place), 8.0, 0.1, 0.99, 0.02, False, place)
        for place, mix in enumerate(EIGHT)
    }
    return truths_world(truths, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("slots", "busy"), [(16, 0.85), (64, 0.8)])
def test_eight_mixes_keep_many_slots_busy(slots: int, busy: float) -> None:
    sizes = (8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96)
    problem = Problem(EIGHT, sizes, tuple(range(16)), tuple((mix, EIGHT[0]) for mix in EIGHT[1:]))
    trace = simulate(Pairs(problem), eight(), slots)
    print(f"{slots} slots: busy {trace.busy:.0%} of the time, {trace.runs} runs")
    assert trace.busy >= busy
