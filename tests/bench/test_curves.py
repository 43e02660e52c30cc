"""Tests of the made-up curves, and of the search on curves that cross."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.search.next_pair import toward_one_side
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
    growth, value = toward_one_side(mix, baseline)
    assert growth.min() > 0.05
    assert value[0] < 1e-3 * value.max()
    np.testing.assert_allclose(value[1:], growth[1:])


def test_before_the_first_pair_no_side_is_preferred() -> None:
    """Half of the draws have the mix ahead. The value is then the growth that one side can expect."""
    one, other = np.array([[0.2, 0.6]]), np.array([[0.6, 0.9]])
    growth, value = toward_one_side(np.concatenate([one, other]), np.concatenate([other, one]))
    np.testing.assert_allclose(value, growth / 2)
