"""Coverage of the 90% intervals on the data that each searcher collects."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orchestrator.search.base import Problem
from orchestrator.search.registry import METHODS
from orchestrator.search.results import points
from orchestrator.transition.estimate import transition
from orchestrator.transition.types import Verdict
from tests.bench import levelling
from tests.forecast.truths import OTHER_SHAPES, TruthKind, draw

SIZES = tuple(int(size) for size in np.unique(np.geomspace(8, 256, 16).round().astype(int)))
COVERED = 0.88
"""Least share of 90% intervals that contain the truth."""
COVERED_OF_100 = 0.83
COVERED_OF_PLATEAUS = 0.85
"""Least share if two runs in five never learn: then a small plateau and a late transition look alike."""
ERROR = 0.1
"""Largest median error in ln size."""
ERROR_OF_SHOULDERS = 0.15
"""Largest median error if accuracy rises in two steps .5 apart in ln size. The curves of the posterior have one."""
PROBLEM = Problem(("mix",), SIZES, (0, 1, 2))


def sweep(method: str, kind: TruthKind, count: int) -> tuple[float, float]:
    """Return the share of intervals that contain the truth, and the median error of the estimates in ln size."""
    rng = np.random.default_rng(2025)
    covered, errors = 0, []
    for key in range(count):
        truth = draw(kind, PROBLEM, rng, key)
        searcher = METHODS[method](PROBLEM)
        while not searcher.done:
            for request in searcher.ask(4):
                searcher.tell(request, truth.run(request.size, request.seed, 1.0))
        result = transition(points(searcher.results, "mix"), SIZES)
        size, estimate = truth.transition, result.relative
        # An undecided mix without bounds claims nothing, but counts as a miss.
        claims = result.verdict is Verdict.FOUND or estimate.low is not None or estimate.high is not None
        covered += claims and (estimate.low or 0.0) <= size <= (estimate.high or math.inf)
        if estimate.value is not None:
            errors.append(abs(math.log(estimate.value / size)))
    return covered / count, float(np.median(errors))


@pytest.mark.parametrize("method", sorted(METHODS))
def test_intervals_contain_the_truth(method: str) -> None:
    # Of 40 sweeps with a coverage of 0.90, fewer than 32 contain it in about one case of fifty.
    coverage, error = sweep(method, TruthKind.MATCHED, 40)
    assert coverage >= 0.8
    assert error < ERROR


KINDS = [TruthKind.MATCHED, *OTHER_SHAPES]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_the_default_searcher_contain_every_kind_of_truth(kind: TruthKind) -> None:
    # Of 100 sweeps with a coverage of 0.90, fewer than 83 contain it in one case of a hundred.
    coverage, error = sweep("pairs", kind, 100)
    assert coverage >= COVERED_OF_100
    assert error < (ERROR_OF_SHOULDERS if kind is TruthKind.SHOULDER else ERROR)


@pytest.mark.slow
@pytest.mark.parametrize("shape", levelling.SHAPES)
@pytest.mark.parametrize("plateau", [0.6, 0.8])
def test_intervals_of_curves_that_level_off_contain_the_truth(shape: str, plateau: float) -> None:
    assert covered_plateaus(shape, plateau, "pairs", 30) >= 0.8


@pytest.mark.night
@pytest.mark.parametrize("shape", levelling.SHAPES)
@pytest.mark.parametrize("plateau", levelling.PLATEAUS)
@pytest.mark.parametrize("method", ["grid", "pairs"])
def test_intervals_of_curves_that_level_off_contain_200_truths(shape: str, plateau: float, method: str) -> None:
    assert covered_plateaus(shape, plateau, method, 200) >= COVERED_OF_PLATEAUS


def covered_plateaus(shape: str, plateau: float, method: str, count: int) -> float:
    """Return the share of intervals that contain the truth if curves level off."""
    cell = levelling.Cell(TruthKind.MATCHED, shape, plateau, method, 3)
    return float(np.mean([levelling.sweep(cell, key).is_covered for key in range(count)]))


@pytest.mark.night
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", sorted(METHODS))
def test_intervals_contain_300_truths(method: str, kind: TruthKind) -> None:
    coverage, error = sweep(method, kind, 300)
    assert coverage >= COVERED
    assert error < (ERROR_OF_SHOULDERS if kind is TruthKind.SHOULDER else ERROR)
