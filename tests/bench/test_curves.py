"""Tests of the made-up curves, and of the search on curves that cross."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orchestrator.search.next_pair import chance_to_decide, leading_side, signed_growth
from orchestrator.transition.evidence import Direction
from tests.bench.curves import TOP, main, play, rising_to


def test_curves_reach_80_percent_where_they_say() -> None:
    for slope in (3, 12):
        assert rising_to(16, slope)(16) == pytest.approx(0.8 * TOP)


def test_a_mix_with_much_smaller_models_is_claimed(capsys: pytest.CaptureFixture[str]) -> None:
    sweeps = [play("locate", 2, None, "3 times smaller, from 72, slope 10", key) for key in range(3)]
    assert [sweep.decided for sweep in sweeps] == [Direction.MIX_AHEAD] * 3
    assert any(sweep.claims_parameters for sweep in sweeps)
    main(["--sweeps", "1", "--aim", "decide", "--only", "3 times smaller, from 72"])
    assert "| 3 times smaller, from 72, slope 10 | 1.00 | 0.00 |" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("aim", ["decide", pytest.param("locate", marks=pytest.mark.night)])
def test_curves_with_the_same_80_percent_point_seldom_end_in_fewer_parameters(aim: str) -> None:
    sweeps = [play(aim, 2, None, "slopes 3 and 12, the same 80% point", key) for key in range(30)]
    assert np.mean([sweep.decided is Direction.MIX_AHEAD for sweep in sweeps]) > 0.5  # It is learned more often at 12.
    assert np.mean([sweep.claims_parameters for sweep in sweeps]) <= 0.1


def test_the_search_stays_on_one_side_of_a_crossing() -> None:
    """The mix is behind at the first size and ahead at the other two, in all draws."""
    mix, baseline = np.array([[0.1, 0.9, 0.95]] * 8), np.array([[0.4, 0.4, 0.5]] * 8)
    growth = signed_growth(mix, baseline)
    assert np.sign(growth).tolist() == [[-1, 1, 1]] * 8
    assert np.abs(growth).min() > 0.05
    assert leading_side(growth) is Direction.MIX_AHEAD
    assert leading_side(-growth) is Direction.BASELINE_AHEAD
    chance = chance_to_decide(np.maximum(growth, 0), 3.0, np.full(3, 20.0))
    assert chance[0] < 1e-6
    assert chance[1:].min() > 0.5


def test_before_the_first_pair_no_side_is_preferred() -> None:
    """Half of the draws have the mix ahead. Either side then has the same chance, and at most that of half of them."""
    one, other = np.array([[0.2, 0.6]]), np.array([[0.6, 0.9]])
    growth = signed_growth(np.concatenate([one, other]), np.concatenate([other, one]))
    np.testing.assert_allclose(growth.sum(axis=0), 0)
    pairs = np.full(2, 1_000.0)
    chances = [chance_to_decide(np.maximum(sign * growth, 0), 3.0, pairs) for sign in (1, -1)]
    np.testing.assert_allclose(chances, 0.5)


def test_the_chance_to_decide_is_that_of_a_walk_of_the_log_evidence() -> None:
    """Pairs of .8 against .2, with the bet on these chances: each adds a log likelihood ratio."""
    pairs, needed = 12, 3.0
    rng = np.random.default_rng(0)
    learned = rng.random((20_000, pairs, 2)) < (0.8, 0.2)
    steps = np.where(learned == (True, False), math.log(0.8 / 0.5), math.log(0.2 / 0.5)).sum(axis=2)
    [chance] = chance_to_decide(signed_growth(np.array([[0.8]]), np.array([[0.2]])), needed, np.array([float(pairs)]))
    assert chance == pytest.approx((steps.sum(axis=1) >= needed).mean(), abs=0.05)
