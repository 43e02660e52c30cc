"""The bootstrap over seeds."""

from __future__ import annotations

import numpy as np

from orchestrator.transition.posterior import resampled
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Point

SIZES = (8, 12, 16, 24, 32, 48)


def runs(learns: int, *, by_chance: bool) -> list[Point]:
    """Three seeds a size, learned from ``learns`` on; ``by_chance``, one of three fails there."""
    return [
        Point(size, seed, 0.98 if size > learns or (size == learns and not (by_chance and seed == 0)) else 0.2, 0.2)
        for size in SIZES
        for seed in range(3)
    ]


def test_unanimous_seeds_leave_nothing_to_resample() -> None:
    points = runs(24, by_chance=False)
    medians = resampled(points, SIZES, 20, np.random.default_rng(0))
    assert len(set(medians)) == 1
    assert medians[0] == transition(points, SIZES).relative.value


def test_a_size_learned_by_some_seeds_spreads_the_medians() -> None:
    medians = resampled(runs(24, by_chance=True), SIZES, 50, np.random.default_rng(0))
    assert 16 < medians.min() < medians.max() < 32


def test_a_task_never_learned_lies_beyond_the_sizes() -> None:
    points = [Point(size, seed, 0.2, 0.2) for size in SIZES for seed in range(5)]
    assert (resampled(points, SIZES, 3, np.random.default_rng(0)) > SIZES[-1]).all()
