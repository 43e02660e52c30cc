"""Grid of learning curves, and the likelihood of runs on each curve.

Mean accuracy rises from a floor to an asymptote along a logistic in ln size. Single runs scatter in one of three ways.
*All-or-nothing*: a run learned (accuracy near the asymptote) or did not (near the floor), with a probability that
follows the logistic. *Shares*: a run learns a share of the task with a beta distribution around the logistic, mostly
close to 0 or 1. *Graded*: the accuracy of every run follows the logistic itself. At every size a fraction of runs, the
*lapse*, fails to learn. A flat curve has no transition: either no run learns at any size, or the same small fraction
learns at every size.

Each size is slightly easier or harder than the logistic predicts: all runs of a size share a shift in ln size, over
which their likelihood is averaged. Axes: kind (3), M midpoint, K slope, L lapse, F floor, A asymptote, R share of runs
that learn on a flat curve.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, expit, logit, ndtr

from orchestrator.transition.types import LEVEL, Floats, Point

Floats32 = NDArray[np.float32]

ASYMPTOTES = np.array([0.90, 0.93, 0.96, 0.99])
NEAR_FLOOR, NEAR_TOP = 0.06, 0.02
"""Standard deviations of accuracy for runs that did not learn, and for runs that did. The former is larger because
small tasks have small test sets."""
PARTLY, PARTLY_BELOW = 0.1, 0.75
"""Of the runs that did not learn, the share whose accuracy rose anyway, and the highest accuracy that they reach.
They do not count as learned, so they do not raise the mean accuracy of a curve."""
MISTAKEN, SHORTFALL = 0.05, (0.05, 0.06)
"""Among runs that learned: the share with mistakes, and the mean and deviation of their distance from the asymptote."""
OUTLIER = 0.03
"""Density of an accuracy that no curve explains."""
CONCENTRATION = 2.0
"""Parameter c of the distribution of the shares that runs learn, Beta(c s, c (1 - s)) around the curve's share s."""
SHARES = 8
"""Number of equal steps of the share. Accuracy has a distribution at 0, at 1, and around each step in between."""
BLUR = 0.03
"""Standard deviation of the accuracy of a run around its share of the rise."""
TABLE = 513
"""Number of points on the curve, evenly spaced in the logit, at which the beta distribution is tabulated."""
LOGITS = 12.0
"""Largest logit of the table."""
BINS = 4096
"""Number of bins of a crossing for quantiles, each about 0.002 in ln size."""

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


class Crossing:
    """Crossing of each curve with a level, in ln size, in :data:`BINS` equal bins."""

    def __init__(self, place: Floats) -> None:
        self.start, stop = float(place.min()), float(place.max()) + 1e-9
        self.width = (stop - self.start) / BINS
        self.bin: NDArray[np.intp] = ((place - self.start) / self.width).astype(np.intp)

    def masses(self, weights: Floats) -> Floats:
        return np.bincount(self.bin, weights=weights, minlength=BINS).astype(np.float64)


def _rounded(log_D: Floats32) -> Floats32:
    rounded_D: Floats32 = np.rint(log_D * ROUNDING) / ROUNDING
    return rounded_D


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
        share: Floats = expit(SLOPES * (math.log(size) - self.midpoints[:, None]))
        return share

    def log_likelihood(self, size: float, accuracy: float) -> Floats32:
        """Return the tempered log likelihood of a run's accuracy in each cell, without a shift of the size."""
        not_learned_F = not_learned(accuracy, self.floors)
        near_top = float(learned(accuracy).mean())
        flat_RF = LUCK[:, None] * near_top + (1 - LUCK[:, None]) * not_learned_F + OUTLIER
        kinds = (
            self._all_or_nothing(size, accuracy, not_learned_F),
            self._lapsing(self._shares(size, accuracy, not_learned_F), not_learned_F),
            self._lapsing(self._graded(size, accuracy), not_learned_F),
        )
        density = np.concatenate([*(kind.ravel() for kind in kinds), flat_RF.ravel().astype(np.float32)])
        return _rounded(np.log(density) * TEMPER)

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

    def _all_or_nothing(self, size: float, accuracy: float, not_learned_F: Floats32) -> Floats32:
        learned_A = (learned(accuracy) + OUTLIER).astype(np.float32)
        learned_MKL = (self.share(size)[..., None] * (1 - LAPSES)).astype(np.float32)
        rise_MKLFA: Floats32 = learned_MKL[..., None, None] * (learned_A - not_learned_F[:, None])
        return rise_MKLFA + _over_asymptotes(not_learned_F + np.float32(OUTLIER))

    def _shares(self, size: float, accuracy: float, not_learned_F: Floats32) -> Floats32:
        nothing_FA = _over_asymptotes(not_learned_F)
        all_FA = np.broadcast_to(learned(accuracy), nothing_FA.shape)
        density_SFA = np.concatenate([[nothing_FA], part_of_the_way(accuracy, self.floors), [all_FA]])
        steps_MKS = _steps_at(self, size)
        density_MKC = steps_MKS @ density_SFA.astype(np.float32).reshape(len(density_SFA), -1)
        density_MKFA: Floats32 = density_MKC.reshape(*steps_MKS.shape[:2], *nothing_FA.shape)
        return density_MKFA

    def _graded(self, size: float, accuracy: float) -> Floats32:
        risen_MKFA, deviation_MKFA = _graded_at(self, size)
        missed_MKFA = _over_asymptotes((accuracy - self.floors).astype(np.float32)) - risen_MKFA
        near_MKFA: Floats32 = normal(missed_MKFA, np.float32(0), deviation_MKFA) * np.float32(1 - OUTLIER)
        return near_MKFA

    def _lapsing(self, density_MKFA: Floats32, not_learned_F: Floats32) -> Floats32:
        lapses_L = LAPSES.astype(np.float32)
        lapsed_LFA = _over_asymptotes(lapses_L[:, None] * not_learned_F + np.float32(OUTLIER))
        return density_MKFA[:, :, None] * (1 - lapses_L[:, None, None]) + lapsed_LFA

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


def curves_for(sizes: Iterable[int], floor: float) -> Curves:
    """Return the cached curves for candidate ``sizes`` and the ``floor`` of a constant answer, rounded to 0.01."""
    candidates = list(sizes)
    return _cached(min(candidates), max(candidates), round(min(max(floor, 0.01), HIGHEST_FLOOR), 2))


_cached = lru_cache(maxsize=16)(Curves)


def _over_asymptotes(values: Floats32) -> Floats32:
    return np.repeat(values[..., None], len(ASYMPTOTES), axis=-1)


@lru_cache(maxsize=64)
def _graded_at(curves: Curves, size: float) -> tuple[Floats32, Floats32]:
    """Return the rise above the floor on each graded curve and the scatter of runs: M x K x F x A."""
    share_MK11 = curves.share(size)[..., None, None].astype(np.float32)
    rise_FA = (ASYMPTOTES - curves.floors[:, None]).astype(np.float32)
    ends_MK11 = np.float32(NEAR_FLOOR) + np.float32(NEAR_TOP - NEAR_FLOOR) * share_MK11
    between_MKFA = np.float32(BETWEEN) * share_MK11 * (1 - share_MK11) * rise_FA
    return rise_FA * share_MK11, ends_MK11 + between_MKFA


def normal(value: Any, mean: Any, deviation: Any) -> Any:
    """Return the density of a normal distribution."""
    scaled = (value - mean) / deviation
    return np.exp(-0.5 * (scaled * scaled)) / (deviation * math.sqrt(2 * math.pi))


def learned(accuracy: float) -> Floats:
    """Return the density of the accuracy of a run that learned: A."""
    mean, deviation = SHORTFALL
    mistaken_A = normal(accuracy, ASYMPTOTES - mean, deviation)
    density_A: Floats = (1 - MISTAKEN) * normal(accuracy, ASYMPTOTES, NEAR_TOP) + MISTAKEN * mistaken_A
    return density_A


def not_learned(accuracy: float, floors: Floats) -> Floats32:
    """Return the density of the accuracy of a run that did not learn: F."""
    partly_F = ((floors < accuracy) & (accuracy < PARTLY_BELOW)) / (PARTLY_BELOW - floors)
    density_F: Floats = (1 - PARTLY) * normal(accuracy, floors, NEAR_FLOOR) + PARTLY * partly_F
    return density_F.astype(np.float32)


def part_of_the_way(accuracy: float, floors: Floats) -> Floats:
    """Return the density of the accuracy of a run around each step of the share except 0 and 1: S - 2 x F x A."""
    edges_S = (np.arange(SHARES) + 0.5) / SHARES
    rise_FA = ASYMPTOTES - floors[:, None]
    below_SFA = ndtr((accuracy - floors[:, None] - edges_S[:, None, None] * rise_FA) / BLUR)
    density_SFA: Floats = (below_SFA[:-1] - below_SFA[1:]) * SHARES / rise_FA
    return density_SFA


@lru_cache(maxsize=1)
def _table() -> tuple[Floats, Floats]:
    """Return logits of points on the curve, and the probability of each step of the share there: 513 and 513 x S."""
    places = np.linspace(-LOGITS, LOGITS, TABLE)
    at = expit(places)[:, None]
    edges_S = (np.arange(SHARES) + 0.5) / SHARES
    below = betainc(CONCENTRATION * at, CONCENTRATION * (1 - at), edges_S)
    steps = np.diff(np.concatenate([np.zeros_like(at), below, np.ones_like(at)], axis=1), axis=1)
    return places, steps


@lru_cache(maxsize=64)
def _steps_at(curves: Curves, size: float) -> Floats32:
    """Return the probability of each step of the share that a run of a size learns: M x K x S."""
    places, steps = _table()
    share = np.clip(curves.share(size), expit(-LOGITS), expit(LOGITS))
    at = (logit(share) - places[0]) / (places[1] - places[0])
    below = np.minimum(at.astype(np.intp), TABLE - 2)
    weight = (at - below)[..., None]
    probabilities: Floats = steps[below] * (1 - weight) + steps[below + 1] * weight
    return probabilities.astype(np.float32)
