"""Grid of learning curves, and the likelihood of runs on each curve.

Mean accuracy rises from a floor to an asymptote along a logistic in ln size. Single runs scatter in one of three ways.
*All-or-nothing*: a run learned (accuracy near the asymptote) or did not (near the floor), with a probability that
follows the logistic. *Shares*: a run learns a share of the task with a beta distribution around the logistic, mostly
close to 0 or 1. *Graded*: the accuracy of every run follows the logistic itself. At every size a fraction of runs, the
*lapse*, fails to learn. A flat curve has no transition: either no run learns at any size, or the same small fraction
learns at every size.

Each size is slightly easier or harder than the logistic predicts: all runs of a size share a shift in ln size, over
which their likelihood is averaged.

There are two grids (grids.py). The curves of the first reach about .9. The curves of the second level off below it,
because runs reach less or because many runs never learn. The probability of a curve before any run has ended is in
prior.py, and the densities of single runs are in scatter.py. The posterior over this grid is in estimate.py. Axes: kind
(3), M midpoint, K slope, L lapse, F floor, A asymptote, R share of runs that learn on a flat curve.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import cached_property, lru_cache

import numpy as np

from orchestrator.transition import prior
from orchestrator.transition.grids import BINS, LEVELLING, RISING, Crossing, CurveGrid
from orchestrator.transition.prior import KINDS, LUCK
from orchestrator.transition.scatter import (
    BETWEEN,
    LOGITS,
    NEAR_FLOOR,
    NO_CURVE,
    OUTLIER,
    SETTLED,
    SHARES,
    TABLE,
    Floats32,
    not_learned,
    part_of_the_way,
    share_table,
)
from orchestrator.transition.types import LEVEL, Floats, Point

FLOORS = np.array([0.05, 0.11, 0.17, 0.23, 0.30])
"""Accuracies of runs that did not learn. The grid adds the floor of the target's best constant answer."""
HIGHEST_FLOOR = 0.7
"""Highest floor of the grid. Targets above it get no estimate (:data:`orchestrator.transition.types.NEAR_LEVEL`)."""
MAX_MIDPOINTS = 160
"""Maximum number of midpoints. A wider range of sizes has them further apart."""
BELOW_MARGIN = 0.92
"""Maximum distance of a midpoint below the smallest candidate size, in ln size."""
ABOVE_MARGIN = 1.25
"""Maximum distance of a midpoint above the largest candidate size, in ln size."""
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


def _round(log_D: Floats32) -> None:
    """Round log likelihoods in place."""
    log_D *= ROUNDING
    np.rint(log_D, out=log_D)
    log_D /= ROUNDING


class Curves:
    """A grid of curves. Arrays over its cells have one axis, which ends with the R x F flat curves."""

    def __init__(self, smallest: int, largest: int, floor: float, grid: CurveGrid = RISING) -> None:
        self.smallest = smallest
        self.largest = largest
        self.floor = floor
        self.grid = grid
        start = math.log(smallest) - BELOW_MARGIN
        stop = math.log(largest) + ABOVE_MARGIN
        count = min(MAX_MIDPOINTS, math.ceil((stop - start) / grid.step) + 1)
        self.midpoints = np.linspace(start, stop, count)
        spread = FLOORS if floor <= FLOORS[-1] else np.linspace(FLOORS[0], floor, len(FLOORS))
        self.floors = np.unique(np.append(spread, floor))
        axes = (grid.slopes, grid.lapses, self.floors, grid.asymptotes)
        self.shape = (len(KINDS), count, *map(len, axes))
        self.cells = math.prod(self.shape)
        self.all_cells = self.cells + len(LUCK) * len(self.floors)

    @cached_property
    def log_prior(self) -> Floats:
        """Log prior probability of each cell."""
        return prior.of_rising(self.cells, len(self.floors))

    @cached_property
    def tops(self) -> Floats:
        """Asymptote of the mean accuracy, ``(1 - lapse) * asymptote + lapse * floor``: L x F x A."""
        lapses_L11 = self.grid.lapses[:, None, None]
        tops: Floats = (1 - lapses_L11) * self.grid.asymptotes + lapses_L11 * self.floors[:, None]
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
        from scipy.special import expit  # Takes .3 s to import, which commands that do not estimate save.

        share: Floats = expit(self.grid.slopes * (math.log(size) - self.midpoints[:, None]))
        return share

    def log_likelihood_if_settled(self, size: float, is_learned: bool) -> Floats32:
        """Return the tempered log likelihood that a run learned, or did not, in each cell.

        Nothing else is known about a run that ended early because its outcome was settled: its accuracy at the end is
        unknown. A run learns if it would cover :data:`SETTLED` of the way from the floor to a perfect accuracy.
        """
        from scipy.special import ndtr

        lapses_L11 = self.grid.lapses[:, None, None]
        steps_MKS = _steps_at(self, size)
        can_learn_FA = self.grid.asymptotes >= self.floors[:, None] + SETTLED * (1 - self.floors[:, None])
        last = math.ceil(SETTLED * SHARES - 0.5)  # The first step of the share that reaches it.
        risen_MKFA, deviation_MKFA = _graded_at(self, size)
        above_MKFA = (risen_MKFA - SETTLED * (1 - self.floors[:, None])) / deviation_MKFA
        chances = (
            self.share(size)[:, :, None, None] * can_learn_FA,
            steps_MKS[..., last:].sum(axis=-1)[:, :, None, None] * can_learn_FA,
            ndtr(above_MKFA),
        )
        kinds = [((1 - lapses_L11) * chance_MKFA[:, :, None]).ravel() for chance_MKFA in chances]
        chance = np.concatenate([*kinds, np.repeat(LUCK, len(self.floors))])
        density = (chance if is_learned else 1 - chance) + NO_CURVE
        log_D: Floats32 = (np.log(density) * TEMPER).astype(np.float32)
        _round(log_D)
        return log_D

    def average(self, log_D: Floats32) -> None:
        """Average the log likelihood of all runs of one size over the shifts of the size, in place."""
        from scipy.ndimage import correlate1d  # Takes .3 s to import.

        kinds = log_D[: self.cells].reshape(len(KINDS), len(self.midpoints), -1)
        # Relative to the best midpoint of each kind, slope and so on, likelihoods do not underflow near it.
        best = kinds.max(axis=1, keepdims=True)
        kinds -= best
        np.exp(np.maximum(kinds, FAINTEST, out=kinds), out=kinds)
        kinds[:] = correlate1d(kinds, self._effect, axis=1, mode="nearest")
        np.log(kinds, out=kinds)
        kinds += best
        _round(log_D)

    def _crossing(self, level_LFA: Floats, other: Crossing | None = None) -> Crossing:
        """Return where the mean accuracy of each curve reaches a level: M x K x L x F x A, flat."""
        from scipy.special import logit

        share_LFA = (level_LFA - self.floors[:, None]) / (self.tops - self.floors[:, None])
        # A floor near the level leaves no rise to cross it, so the crossing is set low on the curve.
        offset_LFA = logit(np.clip(share_LFA, 0.02, 0.98))
        place = self.midpoints[:, None, None, None, None] + offset_LFA / self.grid.slopes[:, None, None, None]
        return Crossing(place.ravel(), other)

    def log_likelihood_of(self, points: Iterable[Point]) -> Floats:
        """Return the log likelihood of runs, in any order, in each cell."""
        # In a large sweep many runs have equal accuracies, at the floor or at 1.
        runs_at: dict[int, Counter[float]] = {}
        settled_at: dict[int, Counter[bool]] = {}
        for point in points:
            runs_at.setdefault(point.size, Counter())
            if point.settled is None:
                runs_at[point.size][point.accuracy] += 1
            else:
                settled_at.setdefault(point.size, Counter())[point.settled] += 1
        total_D = np.zeros(self.all_cells)
        at_size_D = np.empty(self.all_cells, np.float32)
        workspace = Workspace(self)
        for size, runs_with in runs_at.items():
            at_size_D[:] = 0
            own = RunsOfSize(self, size, workspace)
            for accuracy, runs in runs_with.items():
                own.add(at_size_D, accuracy, runs)
            for is_learned, runs in settled_at.get(size, Counter()).items():
                at_size_D += runs * self.log_likelihood_if_settled(size, is_learned)
            self.average(at_size_D)
            total_D += at_size_D
        return total_D

    @cached_property
    def relative(self) -> Crossing:
        """Where each curve reaches :data:`LEVEL` of its own asymptote."""
        return self._crossing(LEVEL * self.tops)

    @cached_property
    def absolute(self) -> Crossing:
        """Where each curve reaches an accuracy of :data:`LEVEL`."""
        return self._crossing(np.full_like(self.tops, LEVEL))


class Workspace:
    """Arrays for the densities of one run. The next run reuses them.

    New arrays of this size would take as long as the arithmetic, because the system clears their memory.

    Attributes:
        all_D: Density in each cell.
        kinds: Views of ``all_D`` for the kinds of curve, M x K x L x F x A each.
        flat_RF: View of ``all_D`` for flat curves.
    """

    def __init__(self, curves: Curves) -> None:
        _, midpoints, slopes, _, floors, asymptotes = curves.shape
        self.all_D = np.empty(curves.all_cells, np.float32)
        self.kinds = self.all_D[: curves.cells].reshape(curves.shape)
        self.flat_RF = self.all_D[curves.cells :].reshape(len(LUCK), floors)
        self.unlapsed_MKFA = np.empty((midpoints, slopes, floors, asymptotes), np.float32)


class RunsOfSize:
    """Adds up the log likelihoods of runs of one size. Values that these runs share are computed once."""

    # Small arrays are broadcast over floors and asymptotes first, so that numpy's inner loops have 24 cells, not 4.

    def __init__(self, curves: Curves, size: float, workspace: Workspace) -> None:
        self._curves = curves
        self._grid = curves.grid
        self._workspace = workspace
        share_MK1 = curves.share(size)[..., None]
        self._learned_MKL11 = (share_MK1 * (1 - self._grid.lapses)).astype(np.float32)[..., None, None]
        self._steps_MKS = _steps_at(curves, size)
        self._risen_MKFA, self._deviation_MKFA = _graded_at(curves, size)
        self._area_MKFA = self._deviation_MKFA * math.sqrt(2 * math.pi)
        self._lapses_L = self._grid.lapses.astype(np.float32)

    def add(self, total_D: Floats32, accuracy: float, runs: int) -> None:
        """Add ``runs`` times the tempered log likelihood of a run's accuracy in each cell to ``total_D``, without a
        shift of the size."""
        not_learned_F = not_learned(accuracy, self._curves.floors)
        learned_A = self._grid.learned(accuracy)
        log_D = self._workspace.all_D
        flat_RF = LUCK[:, None] * float(learned_A.mean()) + (1 - LUCK[:, None]) * not_learned_F + OUTLIER
        self._workspace.flat_RF[:] = flat_RF
        all_or_nothing, shares, graded = self._workspace.kinds
        self._all_or_nothing(all_or_nothing, learned_A, not_learned_F)
        self._shares(shares, accuracy, learned_A, not_learned_F)
        self._graded(graded, accuracy, not_learned_F)
        np.log(log_D, out=log_D)
        log_D *= TEMPER
        _round(log_D)
        if runs > 1:
            log_D *= runs
        total_D += log_D

    def _all_or_nothing(self, out_MKLFA: Floats32, learned_A: Floats, not_learned_F: Floats32) -> None:
        # Runs that learned have outliers of their own, so a sum is 1 + OUTLIER times the chance that a run learned. The
        # coverage of intervals was measured with that; without it, estimates differ in their third digit.
        rise_FA = (learned_A + OUTLIER).astype(np.float32) - not_learned_F[:, None]
        np.multiply(self._learned_MKL11, rise_FA, out=out_MKLFA)
        out_MKLFA += self._grid.over_asymptotes(not_learned_F + np.float32(OUTLIER))

    def _shares(self, out_MKLFA: Floats32, accuracy: float, learned_A: Floats, not_learned_F: Floats32) -> None:
        nothing_FA = self._grid.over_asymptotes(not_learned_F)
        all_FA = np.broadcast_to(learned_A, nothing_FA.shape)
        partly_SFA = part_of_the_way(accuracy, self._curves.floors, self._grid.asymptotes)
        density_SFA = np.concatenate([[nothing_FA], partly_SFA, [all_FA]]).astype(np.float32)
        density_MKFA = self._workspace.unlapsed_MKFA
        flat_MKC = density_MKFA.reshape(*density_MKFA.shape[:2], -1)
        np.matmul(self._steps_MKS, density_SFA.reshape(len(density_SFA), -1), out=flat_MKC)
        self._lapse(out_MKLFA, density_MKFA, not_learned_F)

    def _graded(self, out_MKLFA: Floats32, accuracy: float, not_learned_F: Floats32) -> None:
        # The density of a normal distribution, as in normal(), written in place.
        density_MKFA = self._workspace.unlapsed_MKFA
        above_FA = self._grid.over_asymptotes((accuracy - self._curves.floors).astype(np.float32))
        np.subtract(above_FA, self._risen_MKFA, out=density_MKFA)
        density_MKFA /= self._deviation_MKFA
        density_MKFA *= density_MKFA
        density_MKFA *= -0.5
        np.exp(density_MKFA, out=density_MKFA)
        density_MKFA /= self._area_MKFA
        density_MKFA *= np.float32(1 - OUTLIER)
        self._lapse(out_MKLFA, density_MKFA, not_learned_F)

    def _lapse(self, out_MKLFA: Floats32, density_MKFA: Floats32, not_learned_F: Floats32) -> None:
        """Write the density of the accuracy of a run that may lapse, given the density if it does not."""
        lapsed_LFA = self._grid.over_asymptotes(self._lapses_L[:, None] * not_learned_F + np.float32(OUTLIER))
        np.multiply(density_MKFA[:, :, None], 1 - self._lapses_L[:, None, None], out=out_MKLFA)
        out_MKLFA += lapsed_LFA


class LevellingCurves(Curves):
    """The grid of curves that level off, for the sizes and floor of a grid of curves that rise."""

    def __init__(self, rising: Curves) -> None:
        super().__init__(rising.smallest, rising.largest, rising.floor, LEVELLING)
        self._rising = rising

    @cached_property
    def log_prior(self) -> Floats:
        """Log prior probability of each cell, given that the curve levels off."""
        log_prior = prior.of_levelling(self.shape, self.grid, self.tops, self.floors)
        return np.append(log_prior, np.full(self.all_cells - self.cells, -np.inf))

    @cached_property
    def relative(self) -> Crossing:
        """Where each curve reaches :data:`LEVEL` of its own asymptote, in the bins of the rising curves."""
        return self._crossing(LEVEL * self.tops, self._rising.relative)

    @cached_property
    def absolute(self) -> Crossing:
        """Where each curve reaches an accuracy of :data:`LEVEL`, in the bins of the rising curves. Curves with a lower
        plateau never reach it: they are in the last bin, beyond all sizes."""
        crossing = self._crossing(np.full_like(self.tops, LEVEL), self._rising.absolute)
        never = np.broadcast_to(self.tops <= LEVEL, self.shape[1:]).ravel()
        crossing.bin[never] = BINS - 1
        return crossing


def curves_for(sizes: Iterable[int], floor: float) -> Curves:
    """Return the cached curves for candidate ``sizes`` and the ``floor`` of a constant answer, rounded to 0.01."""
    candidates = list(sizes)
    return _cached(min(candidates), max(candidates), round(min(max(floor, 0.01), HIGHEST_FLOOR), 2))


_cached = lru_cache(maxsize=16)(Curves)
levelling_off = lru_cache(maxsize=16)(LevellingCurves)
"""Returns the cached curves that level off, given the curves that rise."""


@lru_cache(maxsize=64)
def _graded_at(curves: Curves, size: float) -> tuple[Floats32, Floats32]:
    """Return the rise above the floor on each graded curve and the scatter of runs: M x K x F x A."""
    share_MK11 = curves.share(size)[..., None, None].astype(np.float32)
    rise_FA = (curves.grid.asymptotes - curves.floors[:, None]).astype(np.float32)
    ends_MK1A = np.float32(NEAR_FLOOR) + (curves.grid.near_top - NEAR_FLOOR).astype(np.float32) * share_MK11
    between_MKFA = np.float32(BETWEEN) * share_MK11 * (1 - share_MK11) * rise_FA
    return rise_FA * share_MK11, ends_MK1A + between_MKFA


@lru_cache(maxsize=64)
def _steps_at(curves: Curves, size: float) -> Floats32:
    """Return the probability of each step of the share that a run of a size learns: M x K x S."""
    from scipy.special import expit, logit

    logits, steps = share_table()
    share = np.clip(curves.share(size), expit(-LOGITS), expit(LOGITS))
    at = (logit(share) - logits[0]) / (logits[1] - logits[0])
    below = np.minimum(at.astype(np.intp), TABLE - 2)
    weight = (at - below)[..., None]
    probabilities: Floats = steps[below] * (1 - weight) + steps[below + 1] * weight
    return probabilities.astype(np.float32)
