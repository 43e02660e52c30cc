"""The posterior of a transition: every learning curve on a grid, weighed by the runs seen.

Mean accuracy rises from a floor to an asymptote along a logistic in ln size. How single runs scatter about it makes
three kinds of curve. *All-or-nothing*: a run learned (accuracy near the asymptote) or did not (near the floor), with a
probability that follows the logistic. *Halves*: each of two halves of the task is learned or not, with that
probability, and a run with one of them may end anywhere in between. *Graded*: every run's accuracy follows the
logistic itself. Of runs that did not learn some got part of the way, of those that did some still make mistakes. A
share of runs, the lapse, fails at any size. Flat curves, without a transition, say that no size learns, or that the
same few runs are lucky at every size.
Axes: kind (3), M midpoint, K slope, L lapse, F floor, A asymptote, R luck.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from orchestrator.transition.types import LEVEL, Density, Point

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]

SLOPES = np.geomspace(2.5, 80.0, 9)
LAPSES = np.array([0.005, 0.03, 0.06])
FLOORS = np.array([0.05, 0.11, 0.17, 0.23, 0.30])
"""Accuracies of runs that did not learn; the target's constant-answer floor joins them."""
ASYMPTOTES = np.array([0.90, 0.93, 0.96, 0.99])
KINDS = np.array([0.5, 0.25, 0.25])
"""Prior probabilities of the kinds of curve: all-or-nothing, halves, graded."""
LUCK = np.array([0.0, 0.1, 0.3, 0.6])
"""Share of runs that learn on a flat curve, whatever their size: too few at each of these to call the task learned."""
FLAT = np.array([0.05, 0.01, 0.01, 0.01])
"""Prior probabilities of the flat curves."""
BELOW_MARGIN, ABOVE_MARGIN = 0.92, 1.25
"""How far the midpoint may lie outside the candidate sizes, in ln size."""
MIDPOINT_STEP = 0.05
MAX_MIDPOINTS = 160
NEAR_FLOOR, NEAR_TOP = 0.06, 0.02
"""Standard deviations of the accuracy of runs that did not learn, and of those that did. The former is a share of a
test set, which a small task leaves few expressions for."""
BETWEEN = 0.45
"""Runs on a graded curve scatter by this times s (1 - s) of its rise, where it has risen by the share s."""
PARTLY, PARTLY_BELOW = 0.1, 0.75
"""Share of the runs that did not learn which got part of the way: anywhere between floor and this accuracy. They are
not counted as learned, so they add nothing to the mean accuracy of a curve."""
MISTAKEN, SHORTFALL = 0.05, (0.05, 0.06)
"""Share of the runs that learned which still make mistakes, and mean and deviation of how far they stay below."""
OUTLIER = 0.03
"""Density of an accuracy that nothing explains."""
TEMPER = 0.82
"""Likelihoods are taken to this power: intervals then cover also when the curve is no logistic."""
ROUNDING = 2.0**12
"""Log likelihoods are rounded to 1/ROUNDING nats: sums are then exact, whatever the order of the runs."""
BINS = 4096
"""Bins of a crossing in which quantiles are found: about 0.002 of ln size each."""
DENSITY_BINS = 96
SPLIT = 100
"""From this many different runs on (70 ms of work) a second core helps to weigh them."""


def _normal(value: Any, mean: Any, deviation: Any) -> Any:
    scaled = (value - mean) / deviation
    return np.exp(-0.5 * (scaled * scaled)) / (deviation * math.sqrt(2 * math.pi))


def _learned(accuracy: float) -> Floats:
    """Density of the accuracy of a run that learned; A."""
    mean, deviation = SHORTFALL
    mistaken_A = _normal(accuracy, ASYMPTOTES - mean, deviation)
    density_A: Floats = (1 - MISTAKEN) * _normal(accuracy, ASYMPTOTES, NEAR_TOP) + MISTAKEN * mistaken_A
    return density_A


def curves_for(sizes: Iterable[int], floor: float) -> Curves:
    """The curves to consider for candidate ``sizes`` and a constant-answer ``floor`` (rounded to 0.01). Cached."""
    candidates = list(sizes)
    return _curves(min(candidates), max(candidates), round(min(max(floor, 0.01), 0.7), 2))


@lru_cache(maxsize=16)
def _curves(smallest: int, largest: int, floor: float) -> Curves:
    return Curves(smallest, largest, floor)


class Curves:
    """The grid of curves and what each predicts. Arrays over cells have one axis, the flat curves' R x F cells last."""

    def __init__(self, smallest: int, largest: int, floor: float) -> None:
        self.smallest, self.largest, self.floor = smallest, largest, floor
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
        """Log prior probability of each cell: uniform but for the kind of curve and the flat ones."""
        kind = KINDS * (1 - FLAT.sum()) / (self.cells / len(KINDS))
        flat = np.repeat(FLAT, len(self.floors)) / len(self.floors)
        prior: Floats = np.log(np.concatenate([np.repeat(kind, self.cells // len(KINDS)), flat]))
        return prior

    @cached_property
    def tops(self) -> Floats:
        """Asymptote of the mean accuracy, ``(1 - lapse) * A + lapse * f``; L x F x A."""
        tops: Floats = (1 - LAPSES)[:, None, None] * ASYMPTOTES + LAPSES[:, None, None] * self.floors[:, None]
        return tops

    def share(self, size: float) -> Floats:
        """Where ``size`` lies on each logistic, in (0, 1); M x K."""
        if size not in self._share:
            self._share[size] = expit(SLOPES * (math.log(size) - self.midpoints[:, None]))
        return self._share[size]

    def log_likelihood(self, size: float, accuracy: float) -> Floats32:
        """Tempered log likelihood of one run's accuracy in each cell."""
        not_learned_F = self._not_learned(accuracy)
        density = np.empty(self.all_cells, np.float32)
        kinds = density[: self.cells].reshape(self.shape)
        self._all_or_nothing(size, accuracy, not_learned_F, out=kinds[0])
        self._halves(size, accuracy, not_learned_F, out=kinds[1])
        self._graded(size, accuracy, not_learned_F, out=kinds[2])
        near_top = float(_learned(accuracy).mean())
        density[self.cells :] = (LUCK[:, None] * near_top + (1 - LUCK[:, None]) * not_learned_F + OUTLIER).ravel()
        np.log(density, out=density)
        density *= TEMPER * ROUNDING
        np.rint(density, out=density)
        density /= ROUNDING
        return density

    def _not_learned(self, accuracy: float) -> Floats32:
        """Density of the accuracy of a run that did not learn; F."""
        partly_F = ((self.floors < accuracy) & (accuracy < PARTLY_BELOW)) / (PARTLY_BELOW - self.floors)
        density_F: Floats = (1 - PARTLY) * _normal(accuracy, self.floors, NEAR_FLOOR) + PARTLY * partly_F
        return density_F.astype(np.float32)

    # Small arrays are spread over floors and asymptotes first: numpy then runs along 24 cells at a time, not along 4.

    def _all_or_nothing(self, size: float, accuracy: float, not_learned_F: Floats32, out: Floats32) -> None:
        learned_A = (_learned(accuracy) + OUTLIER).astype(np.float32)
        learned_MKL = (self.share(size)[..., None] * (1 - LAPSES)).astype(np.float32)
        np.multiply(learned_MKL[..., None, None], learned_A - not_learned_F[:, None], out=out)
        out += np.repeat(not_learned_F + np.float32(OUTLIER), len(ASYMPTOTES)).reshape(-1, len(ASYMPTOTES))

    def _halves(self, size: float, accuracy: float, not_learned_F: Floats32, out: Floats32) -> None:
        # Relative to a run that learned neither half: probabilities sum to 1, lapses are such runs too.
        within_FA = (self.floors[:, None] < accuracy) & (accuracy < ASYMPTOTES)
        between_FA = (within_FA / (ASYMPTOTES - self.floors[:, None]) - not_learned_F[:, None]).astype(np.float32)
        learned_FA = _learned(accuracy).astype(np.float32) - not_learned_F[:, None]
        share_MK = self.share(size)
        both_MKL = (share_MK[..., None] ** 2 * (1 - LAPSES)).astype(np.float32)
        either_MKL = ((2 * share_MK * (1 - share_MK))[..., None] * (1 - LAPSES)).astype(np.float32)
        np.multiply(both_MKL[..., None, None], learned_FA, out=out)
        out += either_MKL[..., None, None] * between_FA
        out += np.repeat(not_learned_F + np.float32(OUTLIER), len(ASYMPTOTES)).reshape(-1, len(ASYMPTOTES))

    def _graded(self, size: float, accuracy: float, not_learned_F: Floats32, out: Floats32) -> None:
        risen_MKFA, deviation_MKFA = _graded_at(self, size)
        above_F = (accuracy - self.floors).astype(np.float32)
        missed_MKFA = np.repeat(above_F, len(ASYMPTOTES)).reshape(-1, len(ASYMPTOTES)) - risen_MKFA
        near_MKFA = _normal(missed_MKFA, np.float32(0), deviation_MKFA) * np.float32(1 - OUTLIER)
        lapses_L = LAPSES.astype(np.float32)
        np.multiply(near_MKFA[:, :, None], 1 - lapses_L[:, None, None], out=out)
        lapsed_LF = lapses_L[:, None] * not_learned_F + np.float32(OUTLIER)
        out += np.repeat(lapsed_LF, len(ASYMPTOTES), axis=1).reshape(*lapsed_LF.shape, -1)

    def crossing(self, level: float | None) -> Floats:
        """Where each cell's mean accuracy reaches ``level``, or :data:`LEVEL` of its own asymptote (None), in ln size.

        One value a curve, M x K x L x F x A, flat.
        """
        top_LFA = self.tops
        reached = LEVEL * top_LFA if level is None else np.full_like(top_LFA, level)
        share_LFA = (reached - self.floors[:, None]) / (top_LFA - self.floors[:, None])
        # A floor near the level leaves nothing to rise: the crossing is then taken low on the curve.
        offset_LFA = logit(np.clip(share_LFA, 0.02, 0.98))
        place = self.midpoints[:, None, None, None, None] + offset_LFA / SLOPES[:, None, None, None]
        flat: Floats = place.ravel()
        return flat

    @cached_property
    def relative(self) -> Crossing:
        """Where each curve reaches :data:`LEVEL` of its own asymptote."""
        return Crossing(self.crossing(None))

    @cached_property
    def absolute(self) -> Crossing:
        """Where each curve reaches the accuracy :data:`LEVEL`."""
        return Crossing(self.crossing(LEVEL))

    def posterior(self, points: Iterable[Point]) -> Posterior:
        """The posterior given these runs, in any order."""
        # Accuracies are shares of a test set, so that many runs of a large sweep say the same: at the floor, at 1.
        counted = list(Counter((point.size, point.accuracy) for point in points).items())
        if len(counted) < SPLIT:
            return Posterior(self, self._sum(counted))
        # numpy lets go of Python's lock, and sums are exact: halves give what the whole would.
        with ThreadPoolExecutor(max_workers=1) as beside:
            other_half = beside.submit(self._sum, counted[1::2])
            return Posterior(self, self._sum(counted[::2]) + other_half.result())

    def _sum(self, counted: Iterable[tuple[tuple[float, float], int]]) -> Floats:
        """The log likelihood of so many runs of each (size, accuracy)."""
        total = np.zeros(self.all_cells)
        for (size, accuracy), runs in counted:
            seen = self.log_likelihood(size, accuracy).astype(np.float64)
            seen *= runs
            total += seen
        return total


@lru_cache(maxsize=64)
def _graded_at(curves: Curves, size: float) -> tuple[Floats32, Floats32]:
    """How far accuracy has risen above the floor on each graded curve, and how far runs scatter; M x K x F x A. Cached:
    a search has dozens of sizes, each with many runs."""
    share_MK11 = curves.share(size)[..., None, None].astype(np.float32)
    rise_FA = (ASYMPTOTES - curves.floors[:, None]).astype(np.float32)
    ends_MK11 = np.float32(NEAR_FLOOR) + np.float32(NEAR_TOP - NEAR_FLOOR) * share_MK11
    between_MKFA = np.float32(BETWEEN) * share_MK11 * (1 - share_MK11) * rise_FA
    return rise_FA * share_MK11, ends_MK11 + between_MKFA


class Crossing:
    """Where curves (kinds taken together) cross a level, sorted into :data:`BINS` equal bins of ln size."""

    def __init__(self, place: Floats) -> None:
        self.start, stop = float(place.min()), float(place.max()) + 1e-9
        self.width = (stop - self.start) / BINS
        self.bin: NDArray[np.intp] = ((place - self.start) / self.width).astype(np.intp)

    def masses(self, weights: Floats) -> Floats:
        """The weight in each bin."""
        mass: Floats = np.bincount(self.bin, weights=weights, minlength=BINS).astype(np.float64)
        return mass


class Posterior:
    """Weights over :class:`Curves`, kinds taken together, from a summed log likelihood."""

    def __init__(self, curves: Curves, log_likelihood: Floats) -> None:
        self.curves = curves
        unnormalised = curves.log_prior + log_likelihood
        weights = np.exp((unnormalised - unnormalised.max()).astype(np.float32)).astype(np.float64)
        total = float(weights.sum())
        self.weights: Floats = weights[: curves.cells].reshape(len(KINDS), -1).sum(axis=0) / total
        self.flat: Floats = weights[curves.cells :].reshape(len(LUCK), -1).sum(axis=1) / total
        self._masses: dict[int, Floats] = {}

    def _cumulative(self, crossing: Crossing) -> Floats:
        if id(crossing) not in self._masses:
            self._masses[id(crossing)] = np.cumsum(crossing.masses(self.weights))
        return self._masses[id(crossing)]

    def quantiles(self, crossing: Crossing, probabilities: Iterable[float]) -> list[float]:
        """Quantiles of the crossing, in ln size; infinite where flat curves hold that much."""
        cumulative = self._cumulative(crossing)
        wanted = np.asarray(list(probabilities))
        index = np.searchsorted(cumulative, np.minimum(wanted, cumulative[-1]))
        places = crossing.start + (index + 0.5) * crossing.width
        return [float(value) for value in np.where(wanted > cumulative[-1], np.inf, places)]

    def probability_above(self, size: float) -> float:
        """Probability that the relative transition is larger than ``size``, flat curves included."""
        return 1 - self.probability_below(size)

    def probability_below(self, size: float) -> float:
        """Probability that the relative transition is smaller than ``size``."""
        crossing = self.curves.relative
        edges = crossing.start + crossing.width * np.arange(1, BINS + 1)
        return float(np.interp(math.log(size), edges, self._cumulative(crossing), left=0.0))

    @cached_property
    def _curves(self) -> Floats:
        """Weights with their axes: M x K x L x F x A."""
        return self.weights.reshape(self.curves.shape[1:])

    @cached_property
    def marginal(self) -> Floats:
        """Weights over M x K x L: all that decides whether a run learns. Sums to 1 less the flat curves."""
        total: Floats = self._curves.sum(axis=(3, 4))
        return total

    @cached_property
    def _levels(self) -> Floats:
        """Weights over L x F x A, given that the task is learned. Sums to 1."""
        weights: Floats = self._curves.sum(axis=(0, 1))
        return weights / max(float(weights.sum()), 1e-300)

    def mean_top(self) -> float:
        """Posterior mean of the asymptote of mean accuracy, lapses included, given that the task is learned."""
        return float((self._levels * self.curves.tops).sum())

    def mean_floor(self) -> float:
        """Posterior mean of the floor, given that the task is learned."""
        return float((self._levels.sum(axis=(0, 2)) * self.curves.floors).sum())

    def density(self, crossing: Crossing) -> Density:
        """The crossing's distribution over :data:`DENSITY_BINS` equal bins of ln size, the range of midpoints."""
        edges = np.linspace(self.curves.midpoints[0], self.curves.midpoints[-1], DENSITY_BINS + 1)
        places = crossing.start + (np.arange(BINS) + 0.5) * crossing.width
        index = np.clip(np.searchsorted(edges, places, side="right") - 1, 0, DENSITY_BINS)
        mass = np.bincount(index, weights=crossing.masses(self.weights), minlength=DENSITY_BINS + 1)
        centres = np.exp((edges[1:] + edges[:-1]) / 2)
        return Density(
            tuple(float(size) for size in centres),
            tuple(float(part) for part in mass[:-1]),
            float(mass[-1]) + float(self.flat.sum()),
        )
