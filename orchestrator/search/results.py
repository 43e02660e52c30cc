"""Results by mix and size, and the cost of runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from orchestrator.search.base import Problem, Request, Results
from orchestrator.transition.evidence import RunId, has_learned
from orchestrator.transition.types import Floats, Point

MAX_EXPONENT = 3.0
"""Maximum exponent of a run's cost in its size: quadratic work plus the resulting memory traffic."""


def learned_runs(results: Results, learned: float) -> dict[RunId, bool | None]:
    """Return whether each full run learned, or None if it failed. ``learned`` is the bar
    (:attr:`~orchestrator.search.base.EvidenceSettings.learned`)."""
    return {
        (run.mix, run.size, run.seed): None
        if result is None
        else has_learned(result.accuracy, result.floor, result.settled, learned)
        for run, result in results.items()
        if run.is_full
    }


@lru_cache(maxsize=4096)
def cell_runs(problem: Problem, mix: str, size: int) -> tuple[Request, ...]:
    """Return the runs of one cell by seed. Each decision uses each cell several times, and creating runs is slow."""
    return tuple(Request(mix, size, seed) for seed in problem.seeds)


def ended_runs(problem: Problem, results: Results, mix: str, size: int) -> list[Point | None]:
    """Return the results of one cell, in the order of the problem's seeds."""
    return [results[run] for run in cell_runs(problem, mix, size) if run in results]


def points(results: Results, mix: str) -> list[Point]:
    """Return the points of the full runs of one mix, sorted."""
    return sorted(point for run, point in results.items() if point is not None and run.mix == mix and run.is_full)


@dataclass(frozen=True)
class CostModel:
    """The cost of a run by size, ``scale * size ** exponent``, in the unit of the measured costs."""

    scale: float
    exponent: float

    def cost(self, size: float) -> float:
        return self.scale * math.exp(self.exponent * math.log(size))


def cost_model(results: Results) -> CostModel:
    """Return the least-squares fit in ln size and ln cost to all runs with a known cost.

    The exponent is between 0 and :data:`MAX_EXPONENT`. It is 0 until runs of two sizes have ended, so that all sizes
    count as equally expensive.
    """
    known = [
        (run.size, result.cost)
        for run, result in results.items()
        if result is not None and result.cost > 0 and run.is_full
    ]
    # Sorted, so that sums do not depend on the order of results.
    x, y = np.log(np.array(sorted(known), dtype=float).reshape(-1, 2).T.copy())
    return fit_costs(x, y)


def fit_costs(x: Floats, y: Floats) -> CostModel:
    """Return the model of :func:`cost_model` for runs with ln size ``x`` and ln cost ``y``."""
    if not len(x):
        return CostModel(1.0, 0.0)
    spread = float(((x - x.mean()) ** 2).sum())
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 0 else 0.0
    exponent = min(max(slope, 0.0), MAX_EXPONENT)
    return CostModel(math.exp(float(y.mean()) - exponent * float(x.mean())), exponent)
