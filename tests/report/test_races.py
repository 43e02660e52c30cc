"""Speed-ups from races, some of which were cut short by a budget."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from orchestrator.report.races import Bounds, SpeedUp, median, speed_ups
from orchestrator.search.base import Request
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import Estimate
from tests.report.samples import run_of
from trainables.base import Outcome, Status


def exactly(*ratios: float) -> list[Bounds]:
    return [Bounds(ratio, ratio) for ratio in ratios]


def test_a_median_only_needs_the_side_of_a_censored_extreme() -> None:
    known = median(exactly(1.0, 2.0, 3.0, 4.0, 5.0))
    cut = median([*exactly(1.0, 2.0, 3.0, 4.0), Bounds(4.5, math.inf)])
    assert known == Estimate(3.0, 1.0, 5.0)
    assert cut == Estimate(3.0, 1.0, None)
    assert median([*exactly(1.0, 2.0), *([Bounds(2.5, math.inf)] * 3)]) == Estimate(None, 1.0, None)


def test_too_few_pairs_give_no_interval() -> None:
    """With four pairs, the range of all values contains the median with a probability of only 7/8."""
    assert median(exactly(1.0, 2.0, 2.0, 4.0)) == Estimate(2.0, None, None)


@pytest.mark.parametrize("pairs", [*range(1, 40), 400])
def test_an_interval_ends_at_the_order_statistics_of_the_sign_test(pairs: int) -> None:
    place = int(binom.ppf(0.05, pairs, 0.5))
    interval = median(exactly(*(float(ratio) for ratio in range(1, pairs + 1))))
    ends = (float(place), float(pairs + 1 - place)) if place else (None, None)
    assert (interval.low, interval.high) == ends


@pytest.mark.parametrize("pairs", [5, 9, 20])
def test_intervals_have_their_stated_coverage(pairs: int) -> None:
    """Coverage over 1,000 samples of a skewed ratio with median 1 is at least 90%, less 2.5 standard errors."""
    rng = np.random.default_rng(pairs)
    held = 0
    for _ in range(1000):
        interval = median(exactly(*np.exp(rng.exponential(size=pairs) - math.log(2))))
        assert interval.low is not None
        assert interval.high is not None
        held += interval.low <= 1 <= interval.high
    assert held >= 1000 * 0.9 - 2.5 * math.sqrt(1000 * 0.9 * 0.1)


def test_a_ratio_is_bounded_if_one_side_was_cut_short() -> None:
    finished, cut = Bounds(10, 10), Bounds(50, math.inf)
    assert cut.over(finished) == Bounds(5, math.inf)
    assert finished.over(cut) == Bounds(0, 0.2)
    assert cut.over(cut) == Bounds(0, math.inf)


def spec() -> SweepSpec:
    return SweepSpec.model_validate(
        {
            "name": "race",
            "question": "?",
            "family": "heat_diffusion",
            "target": "hessian",
            "mixes": ["hessian+adam", "hessian+adam+lbfgs"],
            "sizes": [16, 64],
            "seeds": 5,
        }
    )


def record(spec: SweepSpec, mix: str, size: int, seed: int, spent: dict[str, float], arrived: set[str]) -> Run:
    config = spec.config(Request(mix, size, seed))
    measures = {f"spent_{name}": value for name, value in spent.items()}
    measures |= {f"seconds_{name}": 2 * value for name, value in spent.items()}
    measures |= {f"arrived_{name}": float(name in arrived) for name in spent}
    scores = dict.fromkeys(spent, 0.0)
    outcome = Outcome(Status.FINISHED, 20, scores, scores, (), measures)
    return run_of(config, outcome, f"{mix}{size}{seed}")


def test_races_are_paired_by_graph_and_compared_with_the_best_rival() -> None:
    space = spec()
    both, three = (mix.name for mix in space.mixes)
    runs = [
        record(space, both, 16, seed, {"adam": 10.0 * (seed + 1), "hessian": 10}, {"adam", "hessian"})
        for seed in range(5)
    ]
    broken = record(space, three, 16, 0, {"adam": 60, "hessian": 20, "lbfgs": 3}, {"hessian", "adam"})
    broken.outcome.measures["broken_lbfgs"] = 1.0  # It never arrives, although it broke down early.
    assert speed_ups(space, [broken])[0].spent == Estimate(3.0, None, None)
    runs.append(
        record(space, three, 64, 0, {"adam": 100, "hessian": 20, "lbfgs": 30}, {"hessian", "lbfgs"}),
    )
    first, second = speed_ups(space, runs)
    assert first == SpeedUp(both, 16, 5, Estimate(3.0, 1.0, 5.0), Estimate(3.0, 1.0, 5.0))
    assert (second.size, second.pairs, second.spent) == (64, 1, Estimate(1.5, None, None))
