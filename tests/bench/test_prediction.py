"""The prediction of savings, on numbers whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench.prediction import (
    best_constant,
    information,
    predict_each,
    rank_correlation,
    read_savings,
    shared_quotient,
)


def test_the_savings_are_those_of_the_files_of_answers() -> None:
    savings = {str(mix): round(saving, 3) for mix, saving in read_savings().items()}
    assert len(savings) == 11
    assert savings["add+prod modulo 6"] == pytest.approx((36 + 18 - 22 - 8) / 70, abs=1e-3)
    assert savings["add+prod modulo 7"] == pytest.approx((11 - 30) / 32, abs=1e-3)


def test_numbers_of_the_tasks_are_those_of_their_tables() -> None:
    mixes = {str(mix): mix for mix in read_savings()}
    # All sums of three numbers are equally frequent, with signs or without.
    assert best_constant(mixes["add+nadd modulo 6"]) == pytest.approx(1 / 6)
    assert shared_quotient(mixes["add+prod modulo 6"]) == pytest.approx(1)
    assert shared_quotient(mixes["add+prod modulo 7"]) == 0
    assert 0 < information(mixes["add+max modulo 6"]) < 1


def test_each_mix_is_predicted_by_the_others_alone() -> None:
    values = np.arange(5.0)
    assert predict_each(values, 2 * values + 1) == pytest.approx(2 * values + 1)
    outlier = np.array([0.0, 0.0, 0.0, 0.0, 9.0])
    assert predict_each(values, outlier)[4] == pytest.approx(0)
    assert predict_each(np.ones(5), values) == pytest.approx([2.5, 2.25, 2.0, 1.75, 1.5])
    assert rank_correlation(values, -values) == pytest.approx(-1)
    assert rank_correlation(np.ones(5), values) == 0
