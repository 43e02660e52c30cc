"""Synthetic mixes with known transitions, against which searchers are graded.

Distribution: ln transition uniform inside the sizes, slope log-uniform in 3..60 (in ln size), asymptote 0.9-1, floor
0.05-0.3, lapses up to 5%; a quarter is graded and the rest all-or-nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from scipy.optimize import brentq

from orchestrator.forecast.simulation import World
from orchestrator.search.base import Problem
from orchestrator.transition.types import LEVEL, Point


class TruthKind(StrEnum):
    """Kind of a truth, named after its peculiarity."""

    MATCHED = "matched"
    """A logistic curve, as every estimator assumes."""
    MISSPECIFIED = "misspecified"
    """A Gompertz curve, with each size a little easier or harder than the curve."""
    SCATTERED = "scattered"
    """Like small real tasks: some runs learn in part, some that learn still make mistakes, and the test set is
    small."""
    GOMPERTZ = "gompertz"
    """A Gompertz curve. A run's progress is beta distributed and scored on a small test set."""
    SHOULDER = "shoulder"
    """Two steps of half the rise each, the second at a size about 65% larger."""


OTHER_SHAPES = tuple(kind for kind in TruthKind if kind is not TruthKind.MATCHED)
JITTER = 0.08
"""Standard deviation, in ln size, of the difficulty of a size on a misspecified truth."""
SCATTER_FLOOR, SCATTER_TOP = 0.03, 0.012
"""Standard deviations of the accuracy of runs that did not learn, and of runs that did."""
PARTLY, PART = (0.1, 0.5), 0.8
"""Scattered truths: range of the share of unlearned runs that end between floor and asymptote, and their maximum
progress as a share of the way."""
MISTAKEN, MISTAKES = 0.25, 0.05
"""Scattered truths: share of learned runs that still make mistakes, and the mean of their mistakes."""
TEST_EXAMPLES = 64
GOMPERTZ_LEVEL = -math.log(math.log(2))
"""Shift of a Gompertz curve to pass 0.5 at its midpoint."""
CONCENTRATIONS = (1.0, 10.0)
"""Gompertz truths: range of the sum of both parameters of the beta distribution, drawn log-uniformly."""
STEPS_APART = 0.5
"""Distance between the steps of a shoulder, in ln size."""
STEEPEST = 60.0
SHOULDER_SLOPE = 8.0
"""Minimum slope of a shoulder's steps. Below it they merge."""


@dataclass(frozen=True)
class Truth:
    """A mix whose learning curve over sizes is known. ``key`` seeds all randomness."""

    kind: TruthKind
    midpoint: float
    slope: float
    floor: float
    asymptote: float
    lapse: float
    graded: bool
    key: int
    partly: float = 0.0
    """Share of the unlearned runs that learn in part, on a scattered truth."""
    mistaken: float = 0.0
    """Share of the learned runs that still make mistakes, on a scattered truth."""
    concentration: float = math.inf
    """Concentration of the progress of runs about the curve, on a Gompertz truth."""

    @property
    def transition(self) -> float:
        """Size at which the mean accuracy is :data:`LEVEL` of its asymptote."""
        return math.exp(self.midpoint + self._offset)

    @property
    def _offset(self) -> float:
        bottom = self.floor + self.partly * PART / 2 * (self.asymptote - self.floor)
        top = (1 - self.lapse) * (self.asymptote - self.mistaken * MISTAKES) + self.lapse * bottom
        share = (LEVEL * top - bottom) / (top - bottom)
        if self.kind in (TruthKind.MISSPECIFIED, TruthKind.GOMPERTZ):
            return (-math.log(-math.log(share)) - GOMPERTZ_LEVEL) / self.slope
        if self.kind is TruthKind.SHOULDER:
            far = STEPS_APART + abs(math.log(share / (1 - share))) / self.slope
            return float(brentq(lambda apart: self._curve(apart) - share, -far, far))
        return math.log(share / (1 - share)) / self.slope

    def _curve(self, apart: float) -> float:
        """Return the learning curve at this distance from the midpoint, in ln size; 0.5 at 0."""
        if self.kind is TruthKind.SHOULDER:
            return (_logistic(self.slope, apart + STEPS_APART / 2) + _logistic(self.slope, apart - STEPS_APART / 2)) / 2
        if self.kind in (TruthKind.MISSPECIFIED, TruthKind.GOMPERTZ):
            return _gompertz(self.slope * apart)
        return _logistic(self.slope, apart)

    def share(self, size: int) -> float:
        """Return the learning curve at a size, between 0 and 1, before lapses."""
        x = math.log(size)
        if self.kind is TruthKind.MISSPECIFIED:
            x += float(np.random.default_rng([self.key, size]).normal(0, JITTER))
        return self._curve(x - self.midpoint)

    def run(self, size: int, seed: int, cost_exponent: float) -> Point:
        """Return what a run shows, the same for the same (truth, size, seed). Its cost is ``size **
        cost_exponent``."""
        rng = np.random.default_rng([self.key, size, seed + 1])
        share = self.share(size)
        lapsed, drawn, noise = rng.random(), rng.random(), rng.normal()
        if self.kind is TruthKind.SCATTERED:
            accuracy = self._scattered(lapsed >= self.lapse and drawn < share, rng)
        elif self.kind is TruthKind.GOMPERTZ:
            accuracy = self._beta_binomial(0.0 if lapsed < self.lapse else share, rng)
        elif lapsed < self.lapse or (not self.graded and drawn >= share):
            accuracy = self.floor + SCATTER_FLOOR * noise
        else:
            rise = self.asymptote - self.floor
            mean = self.floor + rise * (share if self.graded else 1.0)
            accuracy = mean + (SCATTER_TOP + 0.4 * share * (1 - share) * rise * self.graded) * noise
        return Point(size, seed, min(max(accuracy, 0.0), 1.0), self.floor, cost=float(size) ** cost_exponent)

    def _scattered(self, learned: bool, rng: np.random.Generator) -> float:
        """Return the accuracy of a run of a scattered truth, on a small test set."""
        odd, far = rng.random(), rng.random()
        if learned:
            expected = self.asymptote - (rng.exponential(MISTAKES) if odd < self.mistaken else 0.0)
        else:
            expected = self.floor + (far * PART * (self.asymptote - self.floor) if odd < self.partly else 0.0)
        return float(rng.binomial(TEST_EXAMPLES, max(expected, 0.0))) / TEST_EXAMPLES

    def _beta_binomial(self, share: float, rng: np.random.Generator) -> float:
        """Return the accuracy of a run with random progress about ``share``, on a small test set."""
        inside = min(max(share, 1e-6), 1 - 1e-6)
        got = rng.beta(self.concentration * inside, self.concentration * (1 - inside))
        return float(rng.binomial(TEST_EXAMPLES, self.floor + got * (self.asymptote - self.floor))) / TEST_EXAMPLES


def _logistic(slope: float, apart: float) -> float:
    return 1 / (1 + math.exp(-min(max(slope * apart, -500.0), 500.0)))


def _gompertz(scaled: float) -> float:
    """Return a Gompertz curve that passes 0.5 at 0."""
    return math.exp(-math.exp(-min(max(scaled + GOMPERTZ_LEVEL, -5.0), 500.0)))


def draw(kind: TruthKind, problem: Problem, rng: np.random.Generator, key: int) -> Truth:
    """Draw a truth of a kind, with its transition inside the problem's sizes."""
    smallest, largest = math.log(problem.sizes[0]), math.log(problem.sizes[-1])
    truth = Truth(
        kind,
        midpoint=0.0,
        slope=math.exp(rng.uniform(math.log(3), math.log(STEEPEST))),
        floor=rng.uniform(0.05, 0.30),
        asymptote=rng.uniform(0.9, 1.0),
        lapse=rng.uniform(0.0, 0.05),
        graded=bool(rng.random() < 0.25),
        key=key,
    )
    if kind is TruthKind.SCATTERED:
        truth = replace(truth, graded=False, partly=rng.uniform(*PARTLY), mistaken=MISTAKEN)
    if kind is TruthKind.GOMPERTZ:
        least, most = (math.log(item) for item in CONCENTRATIONS)
        truth = replace(truth, graded=False, concentration=math.exp(rng.uniform(least, most)))
    if kind is TruthKind.SHOULDER:
        truth = replace(truth, slope=math.exp(rng.uniform(math.log(SHOULDER_SLOPE), math.log(STEEPEST))))
    # The margin has the same proportion as that of 10..200 within 8..256, in ln size.
    margin = 0.07 * (largest - smallest)
    return replace(truth, midpoint=rng.uniform(smallest + margin, largest - margin) - truth._offset)


def truths_world(truths: Mapping[str, Truth], cost_exponent: float) -> World:
    """Return a world of synthetic mixes, by name."""
    return lambda request: truths[request.mix].run(request.size, request.seed, cost_exponent)
