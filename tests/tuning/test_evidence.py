"""When a trial counts as better than the settings as written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tuning.evidence import beats, probability_of_more

COUNTS = st.integers(1, 30).flatmap(lambda of: st.tuples(st.integers(0, of), st.integers(0, of), st.just(of)))


@pytest.mark.parametrize(("learned", "written", "of"), [(6, 4, 8), (8, 7, 8), (1, 0, 4), (3, 9, 12), (20, 17, 40)])
def test_the_probability_is_that_of_the_two_posteriors(learned: int, written: int, of: int) -> None:
    rng = np.random.default_rng(7)
    ours, theirs = (rng.beta(1 + k, 1 + of - k, 400_000) for k in (learned, written))
    assert probability_of_more(learned, of, written, of) == pytest.approx((ours > theirs).mean(), abs=0.004)


@given(COUNTS)
def test_one_of_the_two_is_larger(counts: tuple[int, int, int]) -> None:
    one, other, of = counts
    both = probability_of_more(one, of, other, of) + probability_of_more(other, of, one, of)
    assert both == pytest.approx(1)
    assert not (beats(one, other, of) and beats(other, one, of))
    assert not beats(one, one, of)


def test_of_eight_runs_two_more_must_learn() -> None:
    least = {written: min((k for k in range(9) if beats(k, written, 8)), default=None) for written in range(9)}
    assert least == {0: 2, 1: 3, 2: 4, 3: 5, 4: 6, 5: 7, 6: 8, 7: None, 8: None}


def test_a_probability_of_exactly_what_is_asked_for_is_enough() -> None:
    assert probability_of_more(2, 2, 1, 2) == pytest.approx(0.8, abs=1e-12)
    assert beats(2, 1, 2)
