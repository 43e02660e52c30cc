"""The default searcher: pairs that decide, pairs that raise a factor, runs that locate."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.forecast.simulation import simulate
from orchestrator.search.base import Problem, Request, Searcher
from orchestrator.search.bisection import Bisection
from orchestrator.search.grid import Grid
from orchestrator.search.next_pair import FEWEST_OPEN
from orchestrator.search.pairs import Pairs
from orchestrator.search.results import learned_runs
from orchestrator.transition.comparison import Comparison, compare
from orchestrator.transition.evidence import LEARNED, Direction, counted_pairs
from orchestrator.transition.types import Point
from tests.conformance.searchers import World, drive
from tests.forecast.truths import Truth, TruthKind, truths_world
from trainables.base import Parameters
from trainables.contract.settings import SettingsError

SIZES = (6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 28)
TWO = Problem(("add", "add+prod"), SIZES, tuple(range(8)), (("add+prod", "add"),))


def world(transitions: dict[str, float], seed: int = 0) -> World:
    """A world in which the probability to learn rises at each mix's own size."""

    def outcome(request: Request) -> Point:
        rng = np.random.default_rng([seed, len(request.mix), request.size, request.seed])
        chance = 0.95 / (1 + math.exp(-20 * (math.log(request.size) - math.log(transitions[request.mix]))))
        return request.point(0.98 if rng.random() < chance else 0.2, 0.15, 20.0 + request.size)

    return outcome


def comparison_of(searcher: Searcher) -> Comparison:
    learned = learned_runs(searcher.results, LEARNED)
    return compare(counted_pairs(searcher.blocks, learned), lambda size: Parameters(size**2.0, size**2.0))


HALF = world({"add": 20.0, "add+prod": 10.0})
ALIKE = world({"add": 12.0, "add+prod": 12.0})


def test_a_mix_that_needs_half_the_size_is_decided_in_a_few_pairs() -> None:
    searcher = Pairs(TWO, aim="decide")
    results = drive(searcher, HALF)
    comparison = comparison_of(searcher)
    assert comparison.decided is Direction.MIX_AHEAD
    assert len(results) == 2 * comparison.pairs <= 30
    assert all(block.mix_size == block.baseline_size for block in searcher.blocks)


def test_a_mix_that_needs_twice_the_size_is_decided_the_other_way() -> None:
    searcher = Pairs(TWO, aim="factor")
    drive(searcher, world({"add": 10.0, "add+prod": 20.0}))
    comparison = comparison_of(searcher)
    assert comparison.decided is Direction.BASELINE_AHEAD
    assert comparison.at_least is not None
    assert 1.5 < comparison.at_least <= 4.5


def test_pairs_of_unequal_sizes_raise_the_factor_up_to_the_truth() -> None:
    factors = []
    for seed in range(3):
        searcher = Pairs(TWO, aim="factor")
        drive(searcher, world({"add": 20.0, "add+prod": 10.0}, seed=seed))
        factors.append(comparison_of(searcher).at_least or 0.0)
        assert any(block.baseline_size > block.mix_size for block in searcher.blocks)
    assert max(factors) <= 4.5
    assert float(np.median(factors)) >= 1.7


def test_a_large_difference_is_certified_by_pairs_far_apart() -> None:
    sizes = (*SIZES, 32, 40, 48, 64)
    wide = Problem(("add", "add+prod"), sizes, tuple(range(16)), (("add+prod", "add"),))
    factors = []
    for seed in range(5):
        searcher = Pairs(wide, aim="factor", max_runs=36)
        drive(searcher, world({"add": 60.0, "add+prod": 12.0}, seed=seed))
        factors.append(comparison_of(searcher).at_least or 0.0)
    assert float(np.median(factors)) >= 5


def test_many_slots_do_not_train_pairs_that_a_decision_would_not_need() -> None:
    sizes = (7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 28, 32, 40, 48, 64)
    problem = Problem(("add", "add+prod"), sizes, tuple(range(200)), (("add+prod", "add"),))
    few, many = (Pairs(problem, aim="decide", max_runs=200) for _ in range(2))
    for searcher, slots in ((few, 2), (many, 256)):
        simulate(searcher, HALF, slots)
        assert comparison_of(searcher).decided is Direction.MIX_AHEAD
    assert len(many.ask(256)) == 0
    assert len(few.results) <= len(many.results) <= 60
    begun = Pairs(problem, aim="decide", max_runs=200)
    first = begun.ask(256)
    assert FEWEST_OPEN <= len(begun.blocks) <= 20
    assert begun.ask(256 - len(first)) == [], "the first pairs should decide, and more would be placed blindly"


def test_a_decision_releases_its_open_runs_for_good() -> None:
    problem = Problem(("add", "add+prod"), SIZES, tuple(range(200)), (("add+prod", "add"),))
    searchers = {aim: Pairs(problem, aim=aim, max_runs=200) for aim in ("decide", "locate")}
    released: dict[str, list[Request]] = {}
    for aim, searcher in searchers.items():
        while comparison_of(searcher).decided is None:
            searcher.ask(64 - len(searcher.pending))
            run = searcher.pending[0]
            assert searcher.needs(run)
            searcher.tell(run, HALF(run))
            released[aim] = searcher.release()
    decides, locates = searchers["decide"], searchers["locate"]
    assert len(released["decide"]) >= 4
    assert decides.done
    assert released["locate"] == []
    assert set(locates.pending) >= set(released["decide"]), "later pairs count only after these"
    assert not any(map(decides.needs, released["decide"]))
    late = released["decide"][0]
    decides.tell(late, HALF(late))
    assert decides.results[late] == HALF(late)
    resumed = Pairs(problem, aim="decide", max_runs=200)
    resumed.restore(decides.blocks)
    for request, result in decides.results.items():
        resumed.tell(request, result)
    assert resumed.done
    assert resumed.ask(64) == []


def test_a_run_that_an_open_comparison_waits_for_is_not_released() -> None:
    mixes = ("add", "add+prod", "add+max")
    problem = Problem(mixes, SIZES, tuple(range(200)), (("add+prod", "add"), ("add+max", "add")))
    outcomes = world({"add": 20.0, "add+prod": 10.0, "add+max": 20.0})
    searcher = Pairs(problem, aim="decide", max_runs=200)
    released: list[Request] = []
    while not released:
        searcher.ask(64 - len(searcher.pending))
        run = searcher.pending[0]
        searcher.tell(run, outcomes(run))
        released = searcher.release()
    open_blocks = [block for block in searcher.blocks if block.mix == "add+max"]
    needed = {Request(*run) for block in open_blocks for run in block.runs}
    assert {run.mix for run in released} <= {"add+prod", "add"}
    assert not needed & set(released)
    assert needed <= {*searcher.pending, *searcher.results}


def test_locating_comes_last_and_places_both_transitions() -> None:
    searcher = Pairs(TWO)
    results = list(drive(searcher, HALF))
    paired = {Request(*run) for block in searcher.blocks for run in block.runs}
    unpaired = [place for place, run in enumerate(results) if run not in paired]
    assert unpaired == list(range(len(paired), len(results)))
    assert comparison_of(searcher).decided is Direction.MIX_AHEAD
    baseline, mix = searcher.progress()
    assert baseline.low is not None
    assert mix.high is not None
    assert mix.high <= baseline.low + 4


def test_a_problem_without_comparisons_only_locates() -> None:
    searcher = Pairs(replace(TWO, comparisons=()))
    drive(searcher, HALF)
    assert searcher.blocks == ()
    assert all(mix.done for mix in searcher.progress())


def test_both_runs_of_a_block_are_requested_at_once_with_one_seed() -> None:
    searcher = Pairs(TWO, aim="decide")
    block = searcher.ask(1)
    assert [run.mix for run in block] == ["add+prod", "add"]
    assert len({(run.size, run.seed) for run in block}) == 1
    assert len(searcher.ask(4)) == 4


def test_the_next_block_waits_for_an_open_one_that_is_about_to_be_complete() -> None:
    searcher = Pairs(TWO, aim="decide")
    first, second = searcher.ask(2)
    searcher.tell(first, HALF(first))
    assert searcher.branch().ask(1), "without news of the second run, another block starts"
    assert searcher.ask(1, [second]) == []
    assert not searcher.done
    searcher.tell(second, HALF(second))
    assert len(searcher.ask(2, [second])) == 2


def test_a_block_does_not_wait_if_another_one_takes_longer_or_another_comparison_has_room() -> None:
    searcher = Pairs(TWO, aim="decide")
    first, *_ = searcher.ask(4)
    assert searcher.ask(1, [first])
    three = Pairs(
        replace(TWO, mixes=("add", "add+prod", "add+max"), comparisons=(*TWO.comparisons, ("add+max", "add")))
    )
    block = three.ask(2)
    assert {run.mix for run in block} == {"add", "add+prod"}
    assert "add+max" in {run.mix for run in three.ask(1, block)}


def test_two_slots_take_up_a_block_together() -> None:
    """Both runs of these blocks take the same time, so no block starts before the last one is complete."""
    searcher = Pairs(TWO, aim="decide")
    trace = simulate(searcher, HALF, workers=2)
    assert trace.busy == pytest.approx(1.0, abs=0.01)
    one_by_one = Pairs(TWO, aim="decide")
    simulate(one_by_one, HALF, workers=1)
    assert searcher.blocks == one_by_one.blocks


def test_known_runs_do_not_influence_the_blocks() -> None:
    """This assumes that the outcomes are the same."""
    searcher, informed = Pairs(TWO, aim="decide"), Pairs(TWO, aim="decide")
    for size in SIZES:
        for seed in (0, 1):
            informed.tell(Request("add", size, seed), HALF(Request("add", size, seed)))
    drive(searcher, HALF)
    drive(informed, HALF)
    assert informed.blocks == searcher.blocks


def resumed(earlier: Searcher, **settings: float) -> Pairs:
    searcher = Pairs(TWO, aim="decide", **settings)
    searcher.restore(earlier.blocks)
    for request, point in reversed(earlier.results.items()):
        searcher.tell(request, point)
    return searcher


def test_a_resumed_search_requests_the_second_run_of_a_block() -> None:
    searcher = Pairs(TWO, aim="decide")
    first, second = searcher.ask(2)
    searcher.tell(first, first.point(0.2, 0.15, 1.0))
    assert resumed(searcher).ask(1) == [second]


def test_more_seeds_continue_the_evidence() -> None:
    few = Pairs(replace(TWO, seeds=(0, 1)), aim="decide")
    drive(few, ALIKE)
    more = resumed(few)
    drive(more, ALIKE)
    assert more.blocks[: len(few.blocks)] == few.blocks
    assert len(more.blocks) > len(few.blocks)


def test_budgets_end_the_search() -> None:
    by_runs = drive(Pairs(TWO, max_runs=7), ALIKE)
    assert max(sum(run.mix == mix for run in by_runs) for mix in TWO.mixes) <= 7
    by_cost = drive(Pairs(TWO, max_cost=200.0), ALIKE)
    for mix in TWO.mixes:
        costs = [result.cost for run, result in by_cost.items() if run.mix == mix and result is not None]
        assert sum(costs[:-1]) < 200


def test_a_grid_plans_its_blocks_and_bisection_has_none() -> None:
    grid, plain = Grid(TWO), Bisection(TWO)
    for searcher in (grid, plain):
        drive(searcher, HALF, 5, order=3)
    assert len(grid.blocks) == len(SIZES) * len(TWO.seeds)
    assert comparison_of(grid).decided is Direction.MIX_AHEAD
    assert plain.blocks == ()


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ({"error": 0.0}, "be between"),
        ({"learned": 0.01}, "be between"),
        ({"max_runs": 0}, "be between"),
        ({"max_cost": 0.0}, "be at least"),
        ({"stack": 0}, "be between"),
    ],
)
def test_impossible_settings_are_refused(setting: dict[str, float], rule: str) -> None:
    name = next(iter(setting))
    with pytest.raises(SettingsError, match=rf"search\.{name} is .*must {rule}"):
        Pairs(TWO, **setting)


@pytest.mark.slow
def test_eight_mixes_keep_sixteen_workers_busy() -> None:
    mixes = tuple(f"m{place}" for place in range(8))
    truths = {
        mix: Truth(TruthKind.MATCHED, math.log(14 * 1.13**place), 8.0, 0.1, 0.99, 0.02, False, place)
        for place, mix in enumerate(mixes)
    }
    sizes = (8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96)
    problem = Problem(mixes, sizes, tuple(range(16)), tuple((mix, mixes[0]) for mix in mixes[1:]))
    assert simulate(Pairs(problem), truths_world(truths, 1.0), 16).busy >= 0.85
