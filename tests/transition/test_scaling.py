"""A power law through several transitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orchestrator.transition.scaling import Place, Scaling, scaling
from orchestrator.transition.types import Density

SIZES = tuple(np.geomspace(4, 64, 97).tolist())


def density(middle: float, deviation: float, above: float = 0.0) -> Density:
    """A bell in ln size around ``middle``."""
    weights = np.exp(-0.5 * ((np.log(SIZES) - math.log(middle)) / deviation) ** 2)
    weights *= (1 - above) / weights.sum()
    return Density(SIZES, tuple(weights.tolist()), above)


def law(points: list[tuple[float, float]], deviation: float = 0.05, beyond: int = 0) -> Scaling | None:
    """The law through (value, size); the last ``beyond`` of them lie above the sizes."""
    places = []
    for number, (value, size) in enumerate(points):
        above = number >= len(points) - beyond
        places.append(Place(value, density(size, deviation, 0.9 if above else 0.0), SIZES[-1], above))
    return scaling(places, np.random.default_rng(0))


@pytest.mark.parametrize("exponent", [-0.7, 0.0, 0.5, 1.0])
def test_an_exponent_comes_back_inside_its_interval(exponent: float) -> None:
    found = law([(n, 12 * (n / 10) ** exponent) for n in (6, 10, 15, 20)])
    assert found is not None
    assert found.exponent == pytest.approx(exponent, abs=0.05)
    assert found.low <= exponent <= found.high
    assert found.high - found.low < 0.4
    assert (found.places, found.bounded) == (4, False)


def test_transitions_off_the_line_widen_the_interval() -> None:
    straight = law([(n, 2.0 * n) for n in (6, 8, 12, 16)])
    crooked = law([(n, 2.0 * n * wobble) for n, wobble in ((6, 1.3), (8, 0.7), (12, 1.4), (16, 0.8))])
    assert straight is not None
    assert crooked is not None
    assert width(crooked) > 2 * width(straight)


def width(found: Scaling) -> float:
    return found.high - found.low


def test_two_values_have_a_slope() -> None:
    found = law([(6, 10), (12, 20)])
    assert found is not None
    assert found.exponent == pytest.approx(1, abs=0.05)


def test_what_lies_beyond_the_sizes_is_said() -> None:
    found = law([(4, 8), (6, 16), (8, 60)], beyond=1)
    assert found is not None
    assert found.bounded


def test_what_may_lie_beyond_the_sizes_is_said() -> None:
    sure = [Place(value, density(size, 0.05), SIZES[-1], beyond=False) for value, size in ((4, 8), (6, 16))]
    may = Place(8, density(40, 0.05, above=0.2), SIZES[-1], beyond=False)
    found = scaling([*sure, may], np.random.default_rng(0))
    assert found is not None
    assert found.bounded


def test_too_little_gives_no_law() -> None:
    assert law([(6, 10)]) is None
    assert law([(6, 10), (6, 12)]) is None
    assert law([(6, 10), (12, 60)], beyond=1) is None


def test_intervals_hold_the_exponent_of_noisy_transitions() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(100):
        noisy = [(n, 2.0 * n**0.6 * math.exp(rng.normal() * 0.15)) for n in (5.0, 8.0, 12.0, 20.0, 30.0)]
        found = law(noisy, deviation=0.15)
        assert found is not None
        held += found.low <= 0.6 <= found.high
    assert held >= 83  # Nominal 90; a binomial of 100 is below 83 in one of a hundred.
