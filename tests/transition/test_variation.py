"""Components of variance of transitions over recipes and mixes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orchestrator.transition.scaling import Variation, variation
from orchestrator.transition.types import Density

SIZES = tuple(np.geomspace(4, 64, 97).tolist())


def density(middle: float, deviation: float, above: float = 0.0) -> Density:
    """A bell in ln size around ``middle``."""
    weights = np.exp(-0.5 * ((np.log(SIZES) - math.log(middle)) / deviation) ** 2)
    weights *= (1 - above) / weights.sum()
    return Density(SIZES, tuple(weights.tolist()), above)


def shares(table: list[list[Density]]) -> Variation:
    found = variation(table, 64.0, 0.9, np.random.default_rng(0))
    assert found is not None
    parts = (found.recipe, found.mix, found.both, found.seeds)
    assert sum(part.value for part in parts) == pytest.approx(1)
    assert all(0 <= part.low <= part.high <= 1 for part in parts)
    return found


def test_what_only_recipes_move_is_the_recipes() -> None:
    found = shares([[density(middle, 0.05), density(middle, 0.05)] for middle in (8, 12, 16, 24)])
    assert found.recipe.value > 0.9
    assert found.deviation == pytest.approx(np.std(np.log([8, 12, 16, 24]), ddof=1), rel=0.1)


def test_what_only_mixes_move_is_the_mixes() -> None:
    found = shares([[density(24, 0.05), density(8, 0.05)] for _ in range(4)])
    assert found.mix.value > 0.9


def test_a_synergy_under_half_of_the_recipes_is_neithers_alone() -> None:
    found = shares([[density(16, 0.05), density(other, 0.05)] for other in (8, 32, 8, 32)])
    assert found.both.value > max(found.mix.value, found.seeds.value)


def test_equal_transitions_leave_only_the_seeds() -> None:
    found = shares([[density(12, 0.3)] * 2 for _ in range(4)])
    assert found.seeds.value == pytest.approx(1)
    assert found.deviation == pytest.approx(0.3, rel=0.1)


def test_transitions_beyond_the_sizes_count_at_the_largest_and_are_said_to() -> None:
    found = shares([[density(16, 0.1, above=0.98), density(16, 0.1)], [density(16, 0.1), density(16, 0.1)]])
    assert found.bounded
    assert not shares([[density(16, 0.1)] * 2] * 2).bounded


def test_one_recipe_has_no_variation() -> None:
    assert variation([[density(8, 0.1), density(9, 0.1)]], 64.0, 0.9, np.random.default_rng(0)) is None
