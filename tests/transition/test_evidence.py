"""Evidence from pairs: decisions, certified factors, and the rate of wrong decisions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from orchestrator.transition import e_value
from orchestrator.transition.comparison import Comparison, Tallies, Tally, compare
from orchestrator.transition.e_value import Growth, growth_of, log_evidence
from orchestrator.transition.evidence import Block, Direction, Pair, counted_pairs, least_accuracy
from trainables.base import Parameters


def parameters(size: float) -> Parameters:
    return Parameters(total=size**2, core=size**3)


def pairs_of(
    count: int, mix: bool | None, baseline: bool | None, size: int = 12, baseline_size: int | None = None
) -> list[Pair]:
    return [Pair(size, baseline_size or size, seed, mix, baseline) for seed in range(count)]


def compared(*pairs: Pair) -> Comparison:
    return compare(pairs, parameters)


def log_evidence_of(direction: Direction, *pairs: Pair) -> float:
    return float(log_evidence(growth_of(pairs).of(direction))[-1])


def test_starts_undecided_at_one_half() -> None:
    result = compared()
    assert (result.decided, result.at_least, result.pairs, result.equal.pairs) == (None, None, 0, 0)
    assert result.evidence == pytest.approx(0.5)
    assert result.threshold == pytest.approx(20)


@pytest.mark.parametrize(("mix", "direction"), [(True, Direction.MIX_AHEAD), (False, Direction.BASELINE_AHEAD)])
def test_five_agreeing_pairs_decide_in_either_direction(mix: bool, direction: Direction) -> None:
    undecided, decided = (compared(*pairs_of(count, mix, not mix)) for count in (3, 5))
    assert (undecided.decided, undecided.leans) == (None, direction)
    assert (decided.decided, decided.at_least, decided.at_least_core) == (direction, 1, 1)
    assert decided.evidence >= decided.threshold > undecided.evidence > 1
    assert decided.evidence == pytest.approx(compared(*pairs_of(5, not mix, mix)).evidence)


def test_later_pairs_never_revoke_a_decision() -> None:
    agreeing = pairs_of(5, True, False)
    result = compared(*agreeing, *pairs_of(15, False, True))
    assert result.decided is Direction.MIX_AHEAD
    assert result.evidence < result.highest
    assert result.highest == pytest.approx(compared(*agreeing).evidence)


def test_the_decision_is_the_first_crossing_of_either_path() -> None:
    rng = np.random.default_rng(0)
    growths, seen = [Growth() for _ in range(8)], set()
    for growth, chance in zip(growths, (0.95, 0.7, 0.5, 0.5, 0.5, 0.5, 0.3, 0.05), strict=True):
        for seed in range(40):
            learned = bool(rng.random() < (chance if seed < 25 else 1 - chance))
            growth.add(Pair(12, 12 if rng.random() < 0.8 else 16, seed, learned, not learned))
            for error, looks in ((0.05, 0), (0.05, 4), (0.5, 0), (1e-6, 1)):
                reached = {
                    direction: np.flatnonzero(path >= -math.log(error))
                    for direction, path in growth.paths(looks).items()
                }
                first = {direction: int(places[0]) for direction, places in reached.items() if len(places)}
                expected = min(first, key=lambda direction: first[direction], default=None)
                assert growth.decision(error, looks) is expected
                seen.add(expected)
    assert seen == {None, *Direction}


def test_pairs_of_a_branch_decide_nothing_elsewhere() -> None:
    growth = growth_of(pairs_of(2, True, False))
    branch = growth.branch()
    for pair in pairs_of(5, True, False):
        branch.add(pair)
    assert (growth.decision(0.05), branch.decision(0.05)) == (None, Direction.MIX_AHEAD)
    assert growth.branch().decision(0.05) is None


def test_the_path_of_the_evidence_has_every_pair_of_equal_sizes() -> None:
    apart = pairs_of(2, True, False, size=12, baseline_size=24)
    pairs = [*pairs_of(3, True, False), *apart, *pairs_of(2, True, True), *pairs_of(2, True, False)]
    result = compared(*pairs)
    assert len(result.path) == 1 + result.equal.pairs == 8
    assert result.path[0] == pytest.approx(0.5)
    assert result.path[-1] == result.evidence
    assert max(result.path) == pytest.approx(result.highest)
    assert list(result.path[1:4]) == pytest.approx([compared(*pairs[:count]).evidence for count in (1, 2, 3)])


def test_the_path_is_of_the_direction_that_the_evidence_leans_to() -> None:
    result = compare([*pairs_of(2, True, False), *pairs_of(6, False, True)], parameters, looks=1)
    assert result.leans is Direction.BASELINE_AHEAD
    assert result.path[0] == pytest.approx(0.25)
    assert result.path[2] < result.path[0]
    assert result.path[-1] == result.evidence > 1


def test_expected_growth_is_at_most_1_if_the_mix_learns_no_more_often() -> None:
    """Computed exactly for every pair of probabilities, after earlier pairs."""
    before = [*pairs_of(1, True, False), *pairs_of(1, True, True)]
    start = log_evidence_of(Direction.MIX_AHEAD, *before)
    factors = {
        (y, z): math.exp(log_evidence_of(Direction.MIX_AHEAD, *before, *pairs_of(1, y, z)) - start)
        for y, z in itertools.product((True, False), repeat=2)
    }
    for baseline, mix in itertools.combinations_with_replacement(np.linspace(1, 0, 11), 2):
        mean = sum(
            factor * (mix if y else 1 - mix) * (baseline if z else 1 - baseline) for (y, z), factor in factors.items()
        )
        assert mean <= 1 + 1e-9


@pytest.mark.parametrize("direction", Direction)
def test_a_failed_run_counts_as_the_less_favorable_outcome(direction: Direction) -> None:
    before = pairs_of(3, True, False)
    failed, *possible = (
        log_evidence_of(direction, *before, *pairs_of(1, outcome, False)) for outcome in (None, True, False)
    )
    assert failed <= min(possible) + 1e-9
    equal = compared(*pairs_of(1, None, True), *pairs_of(1, None, None)).equal
    assert equal == Tallies(2, Tally(0, 0, ()), Tally(1, 1, (12,)))


@pytest.mark.parametrize(
    ("direction", "size", "baseline_size"), [(Direction.MIX_AHEAD, 12, 18), (Direction.BASELINE_AHEAD, 18, 12)], ids=str
)
def test_unequal_sizes_certify_a_factor_but_decide_nothing(direction: Direction, size: int, baseline_size: int) -> None:
    fewer = direction is Direction.MIX_AHEAD
    equal, unequal = pairs_of(6, fewer, not fewer), pairs_of(6, fewer, not fewer, size, baseline_size)
    assert compared(*unequal).decided is None
    result = compared(*equal, *unequal)
    assert result.decided is direction
    assert result.at_least == pytest.approx(1.5**2)
    assert result.at_least_core == pytest.approx(1.5**3)
    good, bad = Tally(6 * fewer, 6, (size,)), Tally(6 * (not fewer), 6, (baseline_size,))
    assert (result.equal.pairs, result.certifying) == (6, Tallies(6, good, bad))


def test_a_factor_needs_every_smaller_factor_refuted() -> None:
    equal, unequal = pairs_of(6, True, False), pairs_of(6, True, False, 12, 18)
    contrary = pairs_of(9, False, True, 12, 14)
    assert compared(*equal, *contrary, *unequal).at_least == 1


def test_at_most_a_number_of_factors_are_tested_and_the_smallest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer of somebody else may have 30,000 pairs, each of sizes of its own."""
    pairs = [*pairs_of(6, True, False), *(pair for size in (14, 16, 18) for pair in pairs_of(6, True, False, 12, size))]
    assert compared(*pairs).at_least == pytest.approx(1.5**2)
    monkeypatch.setattr(e_value, "FEWEST_FACTORS", 2)
    assert compared(*pairs).at_least == pytest.approx(1.5**2)
    monkeypatch.setattr(e_value, "MOST_FACTOR_PAIRS", len(pairs))
    assert compared(*pairs).at_least == pytest.approx((16 / 12) ** 2)


def test_blocks_count_in_order_of_request_up_to_the_first_incomplete_one() -> None:
    blocks = [Block("mix", "base", 12, size, seed) for seed, size in enumerate((12, 12, 16))]
    learned: dict[tuple[str, int, int], bool | None] = {
        ("mix", 12, 0): True, ("base", 12, 0): None, ("mix", 12, 1): True,
        ("mix", 12, 2): True, ("base", 16, 2): False,
    }  # fmt: skip
    assert counted_pairs(blocks, learned) == [Pair(12, 12, 0, True, None)]
    learned["base", 12, 1] = False
    assert len(counted_pairs(blocks, learned)) == 3


def test_the_threshold_is_a_share_of_the_score_above_the_best_constant_answer() -> None:
    assert least_accuracy(0.2) == pytest.approx(0.84)
    assert least_accuracy(0.5, 0.6) == pytest.approx(0.8)


CURVES: dict[str, Callable[[int], float]] = {
    "rises": lambda size: 1 / (1 + math.exp(-8 * (math.log(size) - math.log(14)))),
    "falls again": lambda size: 0.9 if 10 <= size <= 16 else 0.2,
    "luck": lambda size: 0.1,
    "even": lambda size: 0.5,
}


@pytest.mark.parametrize("shape", CURVES)
def test_wrong_decisions_are_rare_on_every_curve(shape: str) -> None:
    """The sizes are chosen where the comparison's own pairs differ most, and evidence is checked after each pair."""
    rng, sizes, wrong, sweeps = np.random.default_rng(7), (8, 10, 12, 14, 16, 20), 0, 200
    for _ in range(sweeps):
        pairs, lead = [], dict.fromkeys(sizes, 0)
        for seed in range(40):
            size = max(sizes, key=lambda size: (abs(lead[size]), rng.random()))
            y, z = (bool(rng.random() < CURVES[shape](size)) for _ in range(2))
            pairs.append(Pair(size, size, seed, y, z))
            lead[size] += y - z
        wrong += compared(*pairs).decided is not None
    assert wrong <= 0.05 * sweeps
