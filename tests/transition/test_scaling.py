"""A power law fitted to several transitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orchestrator.transition.scaling import PlacedTransition, Scaling, scaling
from orchestrator.transition.types import Density

SIZES = tuple(np.geomspace(4, 64, 97).tolist())


def place(
    value: float, size: float, deviation: float = 0.05, above: float = 0.0, *, beyond: bool = False
) -> PlacedTransition:
    """Return a transition at a value of the setting, with a normal posterior in ln size around ``size``."""
    weights = np.exp(-0.5 * ((np.log(SIZES) - math.log(size)) / deviation) ** 2)
    weights *= (1 - above) / weights.sum()
    return PlacedTransition(value, Density(SIZES, tuple(weights.tolist()), above), SIZES[-1], beyond)


def law(*places: PlacedTransition) -> Scaling:
    result = scaling(places, np.random.default_rng(0))
    assert result is not None
    return result


@pytest.mark.parametrize("exponent", [-0.7, 0.0, 1.0])
def test_recovers_an_exponent(exponent: float) -> None:
    result = law(*(place(n, 12 * (n / 10) ** exponent) for n in (6, 10, 15, 20)))
    assert result.exponent == pytest.approx(exponent, abs=0.05)
    assert result.low <= exponent <= result.high < result.low + 0.4
    assert (result.places, result.bounded) == (4, False)


def test_transitions_that_deviate_from_the_law_widen_the_interval() -> None:
    straight = law(*(place(n, 2.0 * n) for n in (6, 8, 12, 16)))
    crooked = law(*(place(n, 2.0 * n * factor) for n, factor in ((6, 1.3), (8, 0.7), (12, 1.4), (16, 0.8))))
    assert crooked.high - crooked.low > 2 * (straight.high - straight.low)


def test_two_values_are_enough_for_a_slope() -> None:
    assert law(place(6, 10), place(12, 20)).exponent == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("third", [place(8, 60, above=0.9, beyond=True), place(8, 40, above=0.2)])
def test_a_transition_possibly_beyond_the_sizes_gives_a_bound(third: PlacedTransition) -> None:
    assert law(place(4, 8), place(6, 16), third).bounded


@pytest.mark.parametrize(
    "places",
    [[place(6, 10)], [place(6, 10), place(6, 12)], [place(6, 10), place(12, 60, above=0.9, beyond=True)]],
)
def test_fewer_than_two_values_within_the_sizes_give_no_law(places: list[PlacedTransition]) -> None:
    assert scaling(places, np.random.default_rng(0)) is None


def test_intervals_contain_the_exponent_of_noisy_transitions() -> None:
    rng, contained = np.random.default_rng(1), 0
    for _ in range(100):
        result = law(
            *(place(n, 2.0 * n**0.6 * math.exp(rng.normal() * 0.15), 0.15) for n in (5.0, 8.0, 12.0, 20.0, 30.0))
        )
        contained += result.low <= 0.6 <= result.high
    assert contained >= 83  # Nominally 90; a binomial of 100 is below 83 in one case of a hundred.
