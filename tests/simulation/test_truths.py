from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.search.base import Problem
from tests.simulation.truths import Truth, TruthKind

SIZES = (8, 16, 32, 64, 128, 256)
PROBLEM = Problem(("mix",), SIZES, (0, 1, 2))


TRUTH = Truth(TruthKind.MATCHED, math.log(40), 6.0, floor=0.2, asymptote=0.95, lapse=0.02, graded=False, key=3)


CURVES = {"midpoint": math.log(400), "slope": 8.0, "concentration": 3.0}


@pytest.mark.parametrize(
    "changes",
    [
        {"graded": False},
        {"graded": True},
        *({"kind": kind, **CURVES} for kind in (TruthKind.GOMPERTZ, TruthKind.SHOULDER)),
    ],
    ids=str,
)
def test_mean_accuracy_at_the_transition_is_80_percent_of_the_asymptote(changes: dict[str, object]) -> None:
    mix = replace(TRUTH, **changes)  # type: ignore[arg-type]  # each value is that of its field
    seen = [mix.run(round(mix.transition), seed, 1.0).accuracy for seed in range(4000)]
    # Rounding to a whole size changes the accuracy by at most 0.02.
    assert np.mean(seen) == pytest.approx(0.8 * ((1 - mix.lapse) * mix.asymptote + mix.lapse * mix.floor), abs=0.03)


def test_mean_accuracy_of_scattered_runs_is_right_at_the_transition() -> None:
    mix = replace(TRUTH, kind=TruthKind.SCATTERED, partly=0.4, mistaken=0.25)
    large, seen = (
        [mix.run(size, seed, 1.0).accuracy for seed in range(4000)] for size in (10**6, round(mix.transition))
    )
    assert np.mean(seen) == pytest.approx(0.8 * np.mean(large), abs=0.03)
    assert 0.03 < np.mean([0.35 < accuracy < 0.7 for accuracy in seen]) < 0.15, "some runs are part of the way"
