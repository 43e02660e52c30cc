"""Grid of learning curves, and the likelihood of runs on each curve.

Mean accuracy rises from a floor to an asymptote along a logistic in ln size. Single runs scatter in one of three ways.
*All-or-nothing*: a run learned (accuracy near the asymptote) or did not (near the floor), with a probability that
follows the logistic. *Shares*: a run learns a share of the task with a beta distribution around the logistic, mostly
close to 0 or 1. *Graded*: the accuracy of every run follows the logistic itself. At every size a fraction of runs, the
*lapse*, fails to learn. A flat curve has no transition: either no run learns at any size, or the same small fraction
learns at every size.

Each size is slightly easier or harder than the logistic predicts: all runs of a size share a shift in ln size, over
which their likelihood is averaged. Axes: kind (3), M midpoint, K slope, L lapse, F floor, A asymptote, R luck.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import expit, logit

from orchestrator.transition.scatter import (
    ASYMPTOTES,
    NEAR_FLOOR,
    NEAR_TOP,
    OUTLIER,
    Crossing,
    Floats32,
    learned,
    normal,
    not_learned,
    part_of_the_way,
    share_probabilities,
)
from orchestrator.transition.types import LEVEL, Floats, Point

SLOPES = np.geomspace(2.5, 80.0, 9)
LAPSES = np.array([0.005, 0.03, 0.06])
FLOORS = np.array([0.05, 0.11, 0.17, 0.23, 0.30])
"""Accuracies of runs that did not learn. The grid adds the floor of the target's best constant answer."""
HIGHEST_FLOOR = 0.7
"""Highest floor of the grid. Targets above it get no estimate (:data:`orchestrator.transition.types.NEAR_LEVEL`)."""
KINDS = np.array([0.4, 0.35, 0.25])
"""Prior probabilities of the kinds of curve: all-or-nothing, shares, graded."""
LUCK = np.array([0.0, 0.1, 0.3, 0.6])
"""Share of runs that learn at any size on a flat curve. Each is too small for the task to count as learned."""
FLAT = np.array([0.05, 0.01, 0.01, 0.01])
"""Prior probabilities of the flat curves."""
BELOW_MARGIN, ABOVE_MARGIN = 0.92, 1.25
"""Maximum distances of the midpoint below and above the candidate sizes, in ln size."""
MIDPOINT_STEP = 0.05
MAX_MIDPOINTS = 160
BETWEEN = 0.45
"""Scatter of runs on a graded curve, relative to s (1 - s) times the rise, where s is the share of the rise reached."""
SIZE_EFFECT = 0.1
"""Standard deviation of the shift that all runs of a size share, in ln size."""
REACH = 3.0
"""Maximum shift of a size, in standard deviations."""
TEMPER = 0.82
"""Exponent of the likelihoods. Below 1, it preserves the intervals' coverage if the true curve is not a logistic."""
ROUNDING = 2.0**12
"""Log likelihoods are rounded to 1/ROUNDING nats, so that their sums are exact in any order of the runs."""
FAINTEST = np.float32(-80.0)
"""Minimum log likelihood relative to the best, at the limit of single precision."""


def curves_for(sizes: Iterable[int], floor: float) -> Curves:
    """Return the cached curves for candidate ``sizes`` and the ``floor`` of a constant answer, rounded to 0.01."""
    candidates = list(sizes)
    return _curves(min(candidates), max(candidates), round(min(max(floor, 0.01), HIGHEST_FLOOR), 2))


@lru_cache(maxsize=16)
def _curves(smallest: int, largest: int, floor: float) -> Curves:
    return Curves(smallest, largest, floor)


def _rounded(log_D: Floats32) -> Floats32:
    log_D *= ROUNDING
    np.rint(log_D, out=log_D)
    log_D /= ROUNDING
    return log_D


class Curves:
    """A grid of curves. Arrays over its cells have one axis, which ends with the R x F flat curves."""

    def __init__(self, smallest: int, largest: int, floor: float) -> None:
        self.smallest, self.largest = smallest, largest
        start, stop = math.log(smallest) - BELOW_MARGIN, math.log(largest) + ABOVE_MARGIN
        count = min(MAX_MIDPOINTS, math.ceil((stop - start) / MIDPOINT_STEP) + 1)
        self.midpoints = np.linspace(start, stop, count)
        spread = FLOORS if floor <= FLOORS[-1] else np.linspace(FLOORS[0], floor, len(FLOORS))
        self.floors = np.unique(np.append(spread, floor))
        self.shape = (len(KINDS), count, len(SLOPES), len(LAPSES), len(self.floors), len(ASYMPTOTES))
        self.cells = math.prod(self.shape)
        self.all_cells = self.cells + len(LUCK) * len(self.floors)
        self._share: dict[float, Floats] = {}

    @cached_property
    def log_prior(self) -> Floats:
        """Log prior probability of each cell, uniform within each kind of curve and each luck of the flat curves."""
        kind = KINDS * (1 - FLAT.sum()) / (self.cells / len(KINDS))
        flat = np.repeat(FLAT, len(self.floors)) / len(self.floors)
        prior: Floats = np.log(np.concatenate([np.repeat(kind, self.cells // len(KINDS)), flat]))
        return prior

    @cached_property
    def tops(self) -> Floats:
        """Asymptote of the mean accuracy, ``(1 - lapse) * asymptote + lapse * floor``: L x F x A."""
        tops: Floats = (1 - LAPSES)[:, None, None] * ASYMPTOTES + LAPSES[:, None, None] * self.floors[:, None]
        return tops

    @cached_property
    def _effect(self) -> Floats:
        """Probability of each shift of a size in steps of the midpoints. The middle entry is no shift."""
        step = float(self.midpoints[1] - self.midpoints[0])
        most = math.ceil(REACH * SIZE_EFFECT / step)
        weights = np.exp(-0.5 * (np.arange(-most, most + 1) * step / SIZE_EFFECT) ** 2)
        effect: Floats = weights / weights.sum()
        return effect

    def share(self, size: float) -> Floats:
        """Return the height of each logistic at a size, in (0, 1): M x K."""
        if size not in self._share:
            self._share[size] = expit(SLOPES * (math.log(size) - self.midpoints[:, None]))
        return self._share[size]

    def log_likelihood(self, size: float, accuracy: float) -> Floats32:
        """Return the tempered log likelihood of a run's accuracy in each cell, without a shift of the size."""
        not_learned_F = not_learned(accuracy, self.floors)
        density = np.empty(self.all_cells, np.float32)
        kinds = density[: self.cells].reshape(self.shape)
        self._all_or_nothing(size, accuracy, not_learned_F, out=kinds[0])
        self._shares(size, accuracy, not_learned_F, out=kinds[1])
        self._graded(size, accuracy, not_learned_F, out=kinds[2])
        near_top = float(learned(accuracy).mean())
        density[self.cells :] = (LUCK[:, None] * near_top + (1 - LUCK[:, None]) * not_learned_F + OUTLIER).ravel()
        np.log(density, out=density)
        density *= TEMPER
        return _rounded(density)

    def averaged(self, log_D: Floats32) -> Floats32:
        """Return the log likelihood of all runs of one size, averaged over the shifts of the size."""
        from scipy.ndimage import correlate1d  # Takes .3 s to import.

        averaged = log_D.copy()
        kinds = averaged[: self.cells].reshape(len(KINDS), len(self.midpoints), -1)
        # Relative to the best midpoint of each kind, slope and so on, likelihoods do not underflow near it.
        best = kinds.max(axis=1, keepdims=True)
        kinds -= best
        np.exp(np.maximum(kinds, FAINTEST, out=kinds), out=kinds)
        kinds[:] = correlate1d(kinds, self._effect, axis=1, mode="nearest")
        np.log(kinds, out=kinds)
        kinds += best
        return _rounded(averaged)

    # Small arrays are broadcast over floors and asymptotes first, so that numpy's inner loops have 24 cells, not 4.

    def _all_or_nothing(self, size: float, accuracy: float, not_learned_F: Floats32, out: Floats32) -> None:
        learned_A = (learned(accuracy) + OUTLIER).astype(np.float32)
        learned_MKL = (self.share(size)[..., None] * (1 - LAPSES)).astype(np.float32)
        np.multiply(learned_MKL[..., None, None], learned_A - not_learned_F[:, None], out=out)
        out += np.repeat(not_learned_F + np.float32(OUTLIER), len(ASYMPTOTES)).reshape(-1, len(ASYMPTOTES))

    def _shares(self, size: float, accuracy: float, not_learned_F: Floats32, out: Floats32) -> None:
        density_SFA = np.concatenate(
            [
                np.broadcast_to(not_learned_F[:, None], (1, len(self.floors), len(ASYMPTOTES))),
                part_of_the_way(accuracy, self.floors),
                np.broadcast_to(learned(accuracy), (1, len(self.floors), len(ASYMPTOTES))),
            ]
        ).astype(np.float32)
        steps_MKS = _steps_at(self, size)
        density_MKFA = (steps_MKS @ density_SFA.reshape(len(density_SFA), -1)).reshape(
            *steps_MKS.shape[:2], len(self.floors), len(ASYMPTOTES)
        )
        self._lapsing(density_MKFA, not_learned_F, out)

    def _graded(self, size: float, accuracy: float, not_learned_F: Floats32, out: Floats32) -> None:
        risen_MKFA, deviation_MKFA = _graded_at(self, size)
        above_F = (accuracy - self.floors).astype(np.float32)
        missed_MKFA = np.repeat(above_F, len(ASYMPTOTES)).reshape(-1, len(ASYMPTOTES)) - risen_MKFA
        near_MKFA = normal(missed_MKFA, np.float32(0), deviation_MKFA) * np.float32(1 - OUTLIER)
        self._lapsing(near_MKFA, not_learned_F, out)

    def _lapsing(self, density_MKFA: Floats32, not_learned_F: Floats32, out: Floats32) -> None:
        lapses_L = LAPSES.astype(np.float32)
        np.multiply(density_MKFA[:, :, None], 1 - lapses_L[:, None, None], out=out)
        lapsed_LF = lapses_L[:, None] * not_learned_F + np.float32(OUTLIER)
        out += np.repeat(lapsed_LF, len(ASYMPTOTES), axis=1).reshape(*lapsed_LF.shape, -1)

    def _crossing(self, level_LFA: Floats) -> Crossing:
        """Return where the mean accuracy of each curve reaches a level: M x K x L x F x A, flat."""
        share_LFA = (level_LFA - self.floors[:, None]) / (self.tops - self.floors[:, None])
        # A floor near the level leaves no rise to cross it, so the crossing is set low on the curve.
        offset_LFA = logit(np.clip(share_LFA, 0.02, 0.98))
        place = self.midpoints[:, None, None, None, None] + offset_LFA / SLOPES[:, None, None, None]
        return Crossing(place.ravel())

    def log_likelihood_of(self, points: Iterable[Point]) -> Floats:
        """Return the log likelihood of runs, in any order, in each cell."""
        # In a large sweep many runs have equal accuracies, at the floor or at 1.
        runs_at: dict[int, Counter[float]] = {}
        for point in points:
            runs_at.setdefault(point.size, Counter())[point.accuracy] += 1
        total = np.zeros(self.all_cells)
        for size, runs_with in runs_at.items():
            at_size = np.zeros(self.all_cells, np.float32)
            for accuracy, runs in runs_with.items():
                at_size += runs * self.log_likelihood(size, accuracy)
            total += self.averaged(at_size)
        return total

    @cached_property
    def relative(self) -> Crossing:
        """Where each curve reaches :data:`LEVEL` of its own asymptote."""
        return self._crossing(LEVEL * self.tops)

    @cached_property
    def absolute(self) -> Crossing:
        """Where each curve reaches an accuracy of :data:`LEVEL`."""
        return self._crossing(np.full_like(self.tops, LEVEL))


@lru_cache(maxsize=64)
def _graded_at(curves: Curves, size: float) -> tuple[Floats32, Floats32]:
    """Return the rise above the floor on each graded curve and the scatter of runs: M x K x F x A. Cached for searches
    with dozens of sizes and many runs at each."""
    share_MK11 = curves.share(size)[..., None, None].astype(np.float32)
    rise_FA = (ASYMPTOTES - curves.floors[:, None]).astype(np.float32)
    ends_MK11 = np.float32(NEAR_FLOOR) + np.float32(NEAR_TOP - NEAR_FLOOR) * share_MK11
    between_MKFA = np.float32(BETWEEN) * share_MK11 * (1 - share_MK11) * rise_FA
    return rise_FA * share_MK11, ends_MK11 + between_MKFA


@lru_cache(maxsize=64)
def _steps_at(curves: Curves, size: float) -> Floats32:
    """Return the probability of each step of the share that a run of a size learns: M x K x S."""
    return share_probabilities(curves.share(size))
