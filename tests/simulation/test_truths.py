from __future__ import annotations

import math

import numpy as np
import pytest

from orchestrator.search.base import Problem
from tests.simulation.truths import Truth, TruthKind, draw

SIZES = (8, 16, 32, 64, 128, 256)
PROBLEM = Problem(("mix",), SIZES, (0, 1, 2))


def truth(**changes: object) -> Truth:
    values: dict[str, object] = {
        "kind": TruthKind.MATCHED,
        "midpoint": math.log(40),
        "slope": 6.0,
        "floor": 0.2,
        "asymptote": 0.95,
        "lapse": 0.02,
        "graded": False,
        "key": 3,
    }
    return Truth(**(values | changes))  # type: ignore[arg-type]


CURVES = {"midpoint": math.log(400), "slope": 8.0, "concentration": 3.0}


@pytest.mark.parametrize(
    "changes",
    [
        {"graded": False},
        {"graded": True},
        {"kind": TruthKind.HALVES},
        *({"kind": kind, **CURVES} for kind in (TruthKind.GOMPERTZ, TruthKind.WEIBULL, TruthKind.SHOULDER)),
    ],
    ids=str,
)
def test_mean_accuracy_at_the_transition_is_80_percent_of_the_asymptote(changes: dict[str, object]) -> None:
    mix = truth(**changes)
    seen = [mix.run(round(mix.transition or 0), seed, 1.0).accuracy for seed in range(4000)]
    # Rounding to a whole size changes the accuracy by at most 0.02.
    assert np.mean(seen) == pytest.approx(0.8 * ((1 - mix.lapse) * mix.asymptote + mix.lapse * mix.floor), abs=0.03)


def test_mean_accuracy_of_scattered_runs_is_right_at_the_transition() -> None:
    mix = truth(kind=TruthKind.SCATTERED, partly=0.4, mistaken=0.25)
    large, seen = (
        [mix.run(size, seed, 1.0).accuracy for seed in range(4000)] for size in (10**6, round(mix.transition or 0))
    )
    assert np.mean(seen) == pytest.approx(0.8 * np.mean(large), abs=0.03)
    assert 0.03 < np.mean([0.35 < accuracy < 0.7 for accuracy in seen]) < 0.15, "some runs are part of the way"


def test_a_run_is_the_same_every_time() -> None:
    mix = truth()
    assert mix.run(32, 1, 1.75) == mix.run(32, 1, 1.75)
    assert mix.run(32, 1, 1.75) != mix.run(32, 2, 1.75)
    assert mix.run(32, 1, 1.75).cost == pytest.approx(32**1.75)


@pytest.mark.parametrize("kind", list(TruthKind))
def test_transitions_are_placed_according_to_their_kind(kind: TruthKind) -> None:
    rng = np.random.default_rng(0)
    for key in range(50):
        mix = draw(kind, PROBLEM, rng, key)
        size = mix.transition
        if kind is TruthKind.NEVER:
            assert size is None
            assert all(mix.run(256, seed, 1.0).accuracy < 0.5 for seed in range(5))
        elif kind is TruthKind.LEVELS_OFF:
            assert size is None
            assert 0.6 <= mix.asymptote <= 0.85
            assert mix.share(SIZES[-1]) > 0.5
        elif kind is TruthKind.ABOVE:
            assert size is not None
            assert size > SIZES[-1]
            assert mix.share(SIZES[-1]) < 0.1
        elif kind is TruthKind.BELOW:
            assert size is not None
            assert size < SIZES[0]
            assert mix.share(SIZES[0]) > 0.9
        else:
            assert size is not None
            assert SIZES[0] < size < SIZES[-1]
