"""Evidence of pairs: what it decides, when, and how often it is wrong where nothing differs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from orchestrator.transition.evidence import (
    ALTERNATIVES,
    Block,
    Comparison,
    Direction,
    Evidence,
    Pair,
    Tally,
    bar,
    compare,
    counted,
)
from trainables.base import Parameters


def parameters(size: float) -> Parameters:
    return Parameters(total=size**2, core=size**3)


def pair(mix: bool | None, baseline: bool | None, size: int = 12, seed: int = 0, other: int | None = None) -> Pair:
    return Pair(size, size if other is None else other, seed, mix, baseline)


def shown(*pairs: Pair) -> Comparison:
    return compare(pairs, parameters)


def test_without_pairs_nothing_is_shown() -> None:
    found = shown()
    assert (found.decided, found.leaning, found.at_least, found.pairs, found.tallies) == (None, None, None, 0, ())
    assert found.evidence == pytest.approx(0.5)
    assert found.threshold == pytest.approx(20)


@pytest.mark.parametrize(("mix", "direction"), [(True, Direction.FEWER), (False, Direction.MORE)])
def test_a_few_pairs_that_all_say_the_same_decide(mix: bool, direction: Direction) -> None:
    undecided, decided = (shown(*[pair(mix, not mix, seed=seed) for seed in range(runs)]) for runs in (3, 5))
    assert undecided.decided is None
    assert (decided.decided, decided.leaning, decided.at_least, decided.at_least_core) == (direction, direction, 1, 1)
    assert decided.evidence >= decided.threshold > undecided.evidence > 1


def test_a_decision_is_never_taken_back() -> None:
    agreeing = [pair(True, False, seed=seed) for seed in range(5)]
    against = [pair(False, True, seed=seed) for seed in range(5, 20)]
    found = shown(*agreeing, *against)
    assert found.decided is Direction.FEWER
    assert found.evidence < found.highest
    assert found.highest == pytest.approx(shown(*agreeing).evidence)


def test_swapping_mix_and_baseline_swaps_the_direction() -> None:
    rng = np.random.default_rng(0)
    pairs = [pair(bool(rng.random() < 0.9), bool(rng.random() < 0.1), seed=seed) for seed in range(12)]
    swapped = [pair(each.baseline_learned, each.mix_learned, seed=each.seed) for each in pairs]
    there, back = shown(*pairs), shown(*swapped)
    assert (there.decided, back.decided) == (Direction.FEWER, Direction.MORE)
    assert there.evidence == pytest.approx(back.evidence)


@pytest.mark.parametrize(("p", "q"), ALTERNATIVES)
def test_no_pair_is_expected_to_raise_the_evidence_where_the_mix_learns_no_more_often(p: float, q: float) -> None:
    """Exact, at every probability and after any earlier pairs: the mean factor of the evidence is at most 1."""
    before = [pair(True, False, seed=0), pair(True, True, seed=1)]
    for mix_chance, baseline_chance in itertools.product(np.linspace(0, 1, 11), repeat=2):
        if mix_chance > baseline_chance:
            continue
        mean = 0.0
        for y, z in itertools.product((True, False), repeat=2):
            evidence = Evidence()
            for each in [*before, pair(y, z, seed=2)]:
                evidence.add(each)
            start, end = (evidence.log_path(Direction.FEWER, [True] * 3)[place] for place in (2, 3))
            chance = (mix_chance if y else 1 - mix_chance) * (baseline_chance if z else 1 - baseline_chance)
            mean += chance * math.exp(end - start)
        assert mean <= 1 + 1e-9


def test_a_failed_run_counts_as_what_says_least_for_each_direction() -> None:
    before = [pair(True, False, seed=seed) for seed in range(3)]
    failed = Evidence()
    for each in [*before, pair(None, False, seed=3)]:
        failed.add(each)
    for direction in Direction:
        possible = []
        for outcome in (True, False):
            evidence = Evidence()
            for each in [*before, pair(outcome, False, seed=3)]:
                evidence.add(each)
            possible.append(evidence.log_path(direction, [True] * 4)[-1])
        assert failed.log_path(direction, [True] * 4)[-1] <= min(possible) + 1e-9
    assert shown(pair(None, True), pair(None, None)).tallies == (Tally(12, 0, 0, 1, 1),)


def test_pairs_of_unequal_sizes_certify_a_factor_but_decide_nothing() -> None:
    equal = [pair(True, False, seed=seed) for seed in range(6)]
    apart = [pair(True, False, size=12, other=18, seed=seed) for seed in range(6)]
    assert shown(*apart).decided is None
    found = shown(*equal, *apart)
    assert found.decided is Direction.FEWER
    assert found.at_least == pytest.approx(1.5**2)
    assert found.at_least_core == pytest.approx(1.5**3)
    # A larger factor needs the smaller ones to be refuted as well: here pairs in between say the opposite.
    between = [pair(False, True, size=12, other=14, seed=seed) for seed in range(9)]
    assert shown(*equal, *between, *apart).at_least == 1


def test_a_mix_that_needs_more_is_certified_by_its_larger_sizes() -> None:
    equal = [pair(False, True, seed=seed) for seed in range(6)]
    apart = [pair(False, True, size=18, other=12, seed=seed) for seed in range(6)]
    found = shown(*equal, *apart)
    assert found.decided is Direction.MORE
    assert found.at_least == pytest.approx(1.5**2)


def test_blocks_count_in_the_order_asked_up_to_the_first_that_is_not_complete() -> None:
    blocks = [Block("mix", "base", 12, size, seed) for seed, size in enumerate((12, 12, 16))]
    learned: dict[tuple[str, int, int], bool | None] = {
        ("mix", 12, 0): True, ("base", 12, 0): None, ("mix", 12, 1): True,
        ("mix", 12, 2): True, ("base", 16, 2): False,
    }  # fmt: skip
    assert counted(blocks, learned) == [Pair(12, 12, 0, True, None)]
    learned["base", 12, 1] = False
    assert len(counted(blocks, learned)) == 3


def test_a_run_learned_by_its_share_of_what_lies_above_the_best_constant_answer() -> None:
    assert bar(0.2) == pytest.approx(0.84)
    assert bar(0.5, 0.6) == pytest.approx(0.8)


CURVES: dict[str, Callable[[int], float]] = {
    "rises": lambda size: 1 / (1 + math.exp(-8 * (math.log(size) - math.log(14)))),
    "falls again": lambda size: 0.9 if 10 <= size <= 16 else 0.2,
    "luck": lambda size: 0.1,
    "even": lambda size: 0.5,
}


@pytest.mark.parametrize("shape", CURVES)
def test_where_nothing_differs_decisions_are_rare_whatever_the_curve(shape: str) -> None:
    """A searcher that goes where its own pairs differ most, and looks after each of 40 pairs."""
    rng, sizes, wrong, sweeps = np.random.default_rng(7), (8, 10, 12, 14, 16, 20), 0, 200
    for _ in range(sweeps):
        evidence, lead = Evidence(), dict.fromkeys(sizes, 0)
        for seed in range(40):
            size = max(sizes, key=lambda size: (abs(lead[size]), rng.random()))
            y, z = (bool(rng.random() < CURVES[shape](size)) for _ in range(2))
            evidence.add(pair(y, z, size=size, seed=seed))
            lead[size] += y - z
        wrong += evidence.compare(parameters).decided is not None
    assert wrong <= 0.05 * sweeps
