"""Prior of the curves: how probable each curve of the two grids is before any run has ended.

Within a kind of curve, all cells of a grid (grids.py) are equally probable, so the spacing of its axes is part of the
prior. So the priors of slope, lapse, asymptote and midpoint are the axes in grids.py. The search's smaller model of
curves has separate axes, in surrogate.py. Axes: L lapse, F floor, A asymptote.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from orchestrator.transition.grids import ASYMPTOTES, CurveGrid
from orchestrator.transition.scatter import CLEAR
from orchestrator.transition.types import LEVEL, Floats

KINDS = np.array([0.4, 0.35, 0.25])
"""Prior probabilities of the kinds of curve: all-or-nothing, shares, graded."""
LUCK = np.array([0.0, 0.1, 0.3, 0.6])
"""Share of runs that learn at any size on a flat curve. Each is too small for the task to count as learned."""
FLAT = np.array([0.05, 0.01, 0.01, 0.01])
"""Prior probabilities of the flat curves, by luck."""
LEVELS_OFF = 0.5
"""Prior probability that a curve levels off, once the runs show a sign of it."""
HIGHEST_PLATEAU = 0.87
"""Maximum of the mean accuracy of a curve that levels off."""


def of_rising(cells: int, floors: int) -> Floats:
    """Return the log prior of curves that rise, then of flat curves.

    It is uniform over the cells of each kind, and over the floors of the flat curves with the same luck.

    Args:
        cells: Number of cells of all kinds together.
        floors: Number of floors.
    """
    kind = KINDS * (1 - FLAT.sum()) / (cells / len(KINDS))
    flat = np.repeat(FLAT, floors) / floors
    log_prior: Floats = np.log(np.concatenate([np.repeat(kind, cells // len(KINDS)), flat]))
    return log_prior


def of_levelling(shape: tuple[int, ...], grid: CurveGrid, tops_LFA: Floats, floors: Floats) -> Floats:
    """Return the log prior of curves that level off. Flat curves belong to the other grid.

    Half of the curves have lapses, and half have asymptotes below .9. Every curve has at least one of the two.

    Args:
        shape: Lengths of all axes: kind, midpoint, slope, L, F, A.
        tops_LFA: Asymptotes of mean accuracy, including lapses.
    """
    lapses_L = _halves(grid.lapses > grid.lapses[0])
    asymptotes_A = _halves(grid.asymptotes < ASYMPTOTES[0])
    is_plateau_LFA = (tops_LFA < HIGHEST_PLATEAU) & (LEVEL * tops_LFA > floors[:, None] + CLEAR)
    weight_LFA = lapses_L[:, None, None] * asymptotes_A * is_plateau_LFA
    weight_LFA /= weight_LFA.sum() * math.prod(shape[1:3])
    weight = np.broadcast_to(KINDS[:, None, None, None, None, None] * weight_LFA, shape).ravel()
    with np.errstate(divide="ignore"):  # Cells that are not a plateau have probability 0.
        log_prior: Floats = np.log(weight)
    return log_prior


def _halves(chosen: NDArray[np.bool_]) -> Floats:
    """Return half of the probability spread over the chosen values, and half over the others."""
    halves: Floats = np.where(chosen, 0.5 / chosen.sum(), 0.5 / (~chosen).sum())
    return halves
