"""The e-value of each direction: the factor by which each pair multiplies it, and when it is large enough to decide.

The method is described in :mod:`orchestrator.transition.evidence`. Here, factors are logarithms, because products over
hundreds of pairs overflow.
"""

from __future__ import annotations

import copy
import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable

import numpy as np

from orchestrator.transition.evidence import Direction, Pair
from orchestrator.transition.surrogate import Surrogate
from orchestrator.transition.types import Floats

ALTERNATIVES = ((0.95, 0.05), (0.8, 0.2), (0.9, 0.5), (0.5, 0.1))
"""Fixed alternatives: the probabilities that the better side and the other side learn."""
PREDICTED = 0.5
"""Weight of the alternative that earlier pairs predict."""
NEAREST = 0.03
"""Minimum distance of predictions from 0 and 1, so that one surprise costs at most a factor of about 16."""
MOST_FACTOR_PAIRS = 5_000_000
"""Maximum product of the pairs of a comparison and the factors that are tested. `verify` takes 9 s for 31,375 pairs."""
FEWEST_FACTORS = 100
"""Number of factors that are tested in any comparison."""


class Growth:
    """How much each counted pair of one comparison adds to the log evidence.

    Attributes:
        pairs: The counted pairs, in the order of request.
        rows: Growth of each direction: for each pair, a number per alternative. The last alternative is the prediction
            from the earlier pairs.
        path: Log evidence of each direction from pairs of equal sizes, before the first of these pairs and after each.
    """

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self.rows: dict[Direction, list[list[float]]] = {direction: [] for direction in Direction}
        self.is_equal: list[bool] = []
        """Whether each pair has equal sizes."""
        self._sums = {direction: _start() for direction in Direction}
        """Log evidence of each direction by alternative, from pairs of equal sizes."""
        self.path = {direction: [float(np.logaddexp.reduce(_start()))] for direction in Direction}
        self._highest = {direction: list(path) for direction, path in self.path.items()}
        """Highest log evidence up to each entry of ``path``."""
        self._mix = self._baseline = Surrogate(1.0)
        self._fewest: dict[tuple[float, int], int] = {}
        """Cached results of :meth:`fewest_more` since the last pair, by its arguments."""

    def add(self, pair: Pair) -> None:
        """Count the next pair, in the order of request."""
        if not self.pairs:
            # Centered on the first sizes, which were chosen before any outcome. Later sizes depend on outcomes.
            around = math.sqrt(pair.mix_size * pair.baseline_size)
            self._mix = Surrogate(around)
            self._baseline = Surrogate(around)
        # Predict before the posteriors see this pair: a bet must be placed before the outcome.
        predicted = (self._mix.predict(pair.mix_size), self._baseline.predict(pair.baseline_size))
        p, q = (min(max(chance, NEAREST), 1 - NEAREST) for chance in predicted)
        self.rows[Direction.MIX_AHEAD].append(_pair_growth(p, q, pair.mix_learned, pair.baseline_learned))
        self.rows[Direction.BASELINE_AHEAD].append(_pair_growth(q, p, pair.baseline_learned, pair.mix_learned))
        self._mix.add(pair.mix_size, pair.mix_learned)
        self._baseline.add(pair.baseline_size, pair.baseline_learned)
        self._fewest = {}
        self.pairs.append(pair)
        self.is_equal.append(pair.mix_size == pair.baseline_size)
        # Only pairs at equal sizes decide. A pair of unequal sizes can only certify a factor.
        for direction in Direction if self.is_equal[-1] else ():
            self._sums[direction] = self._sums[direction] + self.rows[direction][-1]
            self.path[direction].append(float(np.logaddexp.reduce(self._sums[direction])))
            self._highest[direction].append(max(self._highest[direction][-1], self.path[direction][-1]))

    def branch(self) -> Growth:
        """Return an independent copy."""
        other = copy.copy(self)
        other.pairs = list(self.pairs)
        other.is_equal = list(self.is_equal)
        other.rows = {direction: list(rows) for direction, rows in self.rows.items()}
        other.path = {direction: list(path) for direction, path in self.path.items()}
        other._highest = {direction: list(highest) for direction, highest in self._highest.items()}
        other._sums = dict(self._sums)
        other._mix = self._mix.branch()
        other._baseline = self._baseline.branch()
        other._fewest = dict(self._fewest)
        return other

    def of(self, direction: Direction) -> Floats:
        """Return the growth of one direction: pairs x alternatives."""
        return np.array(self.rows[direction], dtype=np.float64).reshape(-1, len(ALTERNATIVES) + 1)

    def paths(self, looks: int = 0) -> dict[Direction, Floats]:
        """Return the log evidence of each direction from pairs of equal sizes, before the first of these pairs and
        after each. It is lowered for ``looks`` earlier analyses."""
        return {direction: np.array(path) - math.log(looks + 1) for direction, path in self.path.items()}

    def decision(self, error: float, looks: int = 0) -> Direction | None:
        """Return the direction whose evidence reached 1 / ``error`` first, or None if neither did."""
        needed = -math.log(error)
        price = math.log(looks + 1)
        first = {
            direction: bisect_left(highest, needed, key=lambda value: value - price)
            for direction, highest in self._highest.items()
        }
        soonest = min(first, key=lambda direction: first[direction])
        return soonest if first[soonest] < len(self._highest[soonest]) else None

    def fewest_more(self, error: float, looks: int = 0) -> int:
        """Return the smallest number of further pairs of equal sizes that could decide, if all of them agreed. It is 0
        after a decision."""
        if (error, looks) not in self._fewest:
            self._fewest[error, looks] = self._find_fewest_more(error, looks)
        return self._fewest[error, looks]

    def _find_fewest_more(self, error: float, looks: int) -> int:
        if self.decision(error, looks) is not None:
            return 0
        sums = np.array(list(self._sums.values()))
        needed = math.log(looks + 1) - math.log(error)
        return next(
            n for n in itertools.count(1) if np.logaddexp.reduce(sums + n * MOST_GROWTH, axis=1).max() >= needed
        )

    def at_least(self, count: Callable[[float], float], decided: Direction, error: float, looks: int = 0) -> float:
        """Return the largest certified factor in favor of ``decided``, at least 1. ``count`` rises with the size."""
        ratios = np.array([ratio_of(pair, decided, count) for pair in self.pairs])
        return _certified_factor(self.of(decided), ratios, -math.log(error), looks)


def growth_of(pairs: Iterable[Pair]) -> Growth:
    """Return the growth of the evidence from pairs in the order of request."""
    growth = Growth()
    for pair in pairs:
        growth.add(pair)
    return growth


def log_evidence(growth: Floats, looks: int = 0) -> Floats:
    """Return the log evidence of one direction before the first pair and after each.

    Args:
        growth: Growth by each pair: pairs x alternatives.
        looks: Number of earlier analyses of the pairs' runs.
    """
    path: Floats = np.logaddexp.reduce(np.cumsum([_start(), *growth], axis=0), axis=1) - math.log(looks + 1)
    return path


def _start() -> Floats:
    """Return the log evidence of one direction before the first pair, by alternative."""
    weights = [*[(1 - PREDICTED) / len(ALTERNATIVES)] * len(ALTERNATIVES), PREDICTED]
    start: Floats = np.log(weights) - math.log(2)
    return start


def ratio_of(pair: Pair, decided: Direction, count: Callable[[float], float]) -> float:
    """Return how many times larger the model of the side that is behind is."""
    ratio = count(pair.baseline_size) / count(pair.mix_size)
    return 1 / ratio if decided is Direction.BASELINE_AHEAD else ratio


def _certified_factor(growth: Floats, ratios: Floats, needed: float, looks: int) -> float:
    """Return the largest factor that is certified. The hypotheses of all smaller factors must be refuted, too."""
    certified = 1.0
    # The hypothesis "at most r times the parameters" contains those of all smaller r. Test them in ascending order and
    # stop at the first that survives: then no correction for several tests is needed. Another user's sweep may have
    # 30,000 pairs, each with a ratio of its own. Not to test the largest of them is safe.
    most = max(FEWEST_FACTORS, MOST_FACTOR_PAIRS // max(len(ratios), 1))
    for factor in np.unique(ratios[ratios > 1])[:most]:
        if log_evidence(growth[ratios >= factor], looks).max() < needed:
            break
        certified = float(factor)
    return certified


def _pair_growth(p: float, q: float, better: bool | None, other: bool | None) -> list[float]:
    """Return the growth of the log evidence that the first run's side learns more often, by alternative.

    Args:
        p: Predicted chance that the first side learns.
        q: Predicted chance that the other side learns.
        better: Whether the first side's run learned, None if it failed.
        other: Whether the other side's run learned, None if it failed.
    """
    # Bet nothing if the predicted chances are equal or in the opposite order.
    return [
        _log_ratio(chance, (chance + lower) / 2, better) + _log_ratio(lower, (chance + lower) / 2, other)
        if chance > lower
        else 0.0
        for chance, lower in (*ALTERNATIVES, (p, q))
    ]


def _most_growth() -> Floats:
    """Return the largest growth by alternative: the better run learns and the other does not, as was predicted."""
    return np.array(_pair_growth(1 - NEAREST, NEAREST, True, False))


def _log_ratio(chance: float, middle: float, learned: bool | None) -> float:
    """Return the log of the ratio of two chances of an outcome."""
    if learned is None:  # A failed run counts as the worse outcome for this direction (rule 4).
        return min(_log_ratio(chance, middle, True), _log_ratio(chance, middle, False))
    return math.log(chance / middle) if learned else math.log((1 - chance) / (1 - middle))


MOST_GROWTH = _most_growth()
"""Largest growth of the log evidence by one pair, by alternative."""
