"""Evidence that a mix learns more often than its baseline, or less often: e-values from pairs of runs.

A *block* is one run of a mix and one of its baseline, requested together with one seed and so with the same data. A
complete block is a *pair*. The null hypothesis is that both learn with the same probability at every size and seed.
Nothing is assumed about how this probability depends on size.

For an alternative (p, q) with p > q and m = (p + q) / 2, a pair at one size multiplies the evidence that the mix
learns more often by

    p^y (1-p)^(1-y) / (m^y (1-m)^(1-y)) * q^z (1-q)^(1-z) / (m^z (1-m)^(1-z)),

where y and z are 1 if the mix and the baseline learned (Turner, Ly and Grünwald 2024, JSPI 230). The mean of this
factor is at most 1 if the mix learns no more often than the baseline. The evidence averages several fixed alternatives
and, with half of the weight, the alternative that earlier pairs predict. The product over pairs starts at 1/2 for each
direction. If the mixes are equally good, it exceeds 20 in either direction with probability at most 1/20 (Ville's
inequality), however often one looks and whenever one stops.

An earlier analysis may have used some of the same runs, and the sizes or the bar may have been chosen after seeing
them. After k earlier analyses of some of the same runs, the product starts at 1 / (2 (k + 1)), so
that this analysis decides wrongly with at most 1 / (k + 1) of the usual probability
(:mod:`orchestrator.home.earlier_looks`).

A direction is decided over all sizes together: at some of the sizes tried, one side learns more often. Where that is,
the *parts* say (:class:`Part`): the sizes tried, in up to three ranges, each with the evidence of its own pairs.

This requires four rules, which searchers follow and ``tests/search/test_validity.py`` simulates:

1. Pairs count in the order in which their blocks were requested, up to the first incomplete block. Runs that learn end
   early, so the first runs to finish are a biased sample.
   Once a comparison is decided, its open blocks may stay incomplete: the pairs before them made the decision, and later
   pairs cannot take it back. Their runs may be stopped at any time, except those that other comparisons wait for.
2. The next block of a comparison depends only on the outcomes of the comparison's earlier blocks. Mixes share the
   baseline's runs, so a run's outcome may be known from another comparison. It must not influence the choice of a block
   that contains this run.
3. Until the comparison is decided, both runs of a block are trained, whatever the first one shows.
4. A failed run has no outcome. A run may fail because of how its training went, so for each direction it counts as the
   outcome that is worse for that direction. A diverged run did not learn.

The mix may also have the smaller model in a pair. Such a pair says nothing about equal sizes. It is evidence
against "the baseline needs at most r times the mix's parameters" for every r up to the ratio of the two models'
parameters. This assumes that a larger model of the same mix does not learn less often. The hypotheses are nested, so
they are refuted in turn without a correction.
"""

from __future__ import annotations

import copy
import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from orchestrator.transition.surrogate import Surrogate
from orchestrator.transition.types import Floats

ERROR = 0.05
"""Largest probability of a decision if both mixes are equally good."""
LEARNED = 0.8
"""Share of the possible score above the best constant answer that a run must reach to count as learned."""
ALTERNATIVES = ((0.95, 0.05), (0.8, 0.2), (0.9, 0.5), (0.5, 0.1))
"""Fixed alternatives: the probabilities that the better side and the other side learn."""
PREDICTED = 0.5
"""Weight of the alternative that earlier pairs predict."""
NEAREST = 0.03
"""Minimum distance of predictions from 0 and 1, so that one surprise costs at most a factor of about 16."""
LARGEST = 700.0
"""Largest log evidence that is converted to a number."""
PARTS = 3
"""Number of ranges of sizes, with equally many sizes each, for which evidence is also reported separately."""
MOST_ODDS = 1e6
"""Odds above this are printed as ``over 1,000,000:1``."""


class Direction(StrEnum):
    """Which side of a comparison the evidence favors.

    ``FEWER``: the mix learns more often than its baseline, as it does if it needs fewer parameters. ``MORE``: the
    baseline learns more often.
    """

    FEWER = "fewer"
    MORE = "more"

    @property
    def opposite(self) -> Direction:
        return Direction.MORE if self is Direction.FEWER else Direction.FEWER


RunId = tuple[str, int, int]
"""Mix, size and seed of a run."""


@dataclass(frozen=True)
class Block:
    """Two runs requested together as one piece of evidence."""

    mix: str
    baseline: str
    mix_size: int
    baseline_size: int
    seed: int

    @property
    def runs(self) -> tuple[RunId, RunId]:
        """The mix's run and the baseline's run."""
        return (self.mix, self.mix_size, self.seed), (self.baseline, self.baseline_size, self.seed)


@dataclass(frozen=True)
class Pair:
    """A complete block: its sizes, and whether each run learned (None if it failed)."""

    mix_size: int
    baseline_size: int
    seed: int
    mix_learned: bool | None
    baseline_learned: bool | None


@dataclass(frozen=True)
class Tally:
    """Counts of one mix over some pairs: runs that learned, runs that did not fail, and their sizes, ascending."""

    learned: int
    tried: int
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.learned} of {self.tried}"


@dataclass(frozen=True)
class Tallies:
    """A number of ``pairs``, and their runs by side."""

    pairs: int
    mix: Tally
    baseline: Tally


@dataclass(frozen=True)
class Part:
    """The pairs of equal size in one range of the sizes tried, and what they alone say.

    ``fewer`` and ``more`` are the e-values of the two directions from these pairs. They start at 1/2, and the borders
    of the ranges depend on the sizes that the search chose, so they describe where a decision comes from but decide
    nothing.
    """

    tallies: Tallies
    fewer: float
    more: float

    def evidence(self, direction: Direction) -> float:
        """Return the e-value of a direction."""
        return self.fewer if direction is Direction.FEWER else self.more

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the pairs, ascending."""
        return tuple(sorted({*self.tallies.mix.sizes, *self.tallies.baseline.sizes}))


class Counts(Protocol):
    """Parameters of a model: total, and in its core."""

    @property
    def total(self) -> float: ...
    @property
    def core(self) -> float: ...


@dataclass(frozen=True)
class Comparison:
    """Evidence from ``pairs`` counted pairs of a mix and its baseline."""

    decided: Direction | None
    """Direction whose evidence reached ``threshold`` (1 / error) after any of the counted pairs; never revoked."""
    evidence: float
    """Larger e-value of the two directions after the last counted pair, from pairs of equal sizes."""
    leans: Direction
    highest: float
    """Largest e-value so far."""
    threshold: float
    at_least: float | None
    """Largest certified factor once decided, at least 1: the baseline needs at least this many times the mix's
    parameters, or the mix this many times the baseline's."""
    at_least_core: float | None
    pairs: int
    equal: Tallies
    """The pairs of equal sizes, which decide the direction."""
    certifying: Tallies
    """The pairs that certify :attr:`at_least`, none if it is 1 or None."""
    looks: int = 0
    """Earlier analyses of some of the same runs. All odds are divided by this number plus one."""
    parts: tuple[Part, ...] = ()
    """The pairs of equal sizes by range of sizes, ascending; fewer than :data:`PARTS` if fewer sizes were tried."""
    path: tuple[float, ...] = ()
    """E-value of the direction ``leans`` before the first pair of equal sizes and after each. The last is
    :attr:`evidence`."""


def bar(floor: float, learned: float = LEARNED) -> float:
    """Return the accuracy from which a run counts as learned. ``floor`` is the accuracy of the best constant answer."""
    return floor + learned * (1 - floor)


def has_learned(accuracy: float, floor: float, settled: bool | None = None, learned: float = LEARNED) -> bool:
    """Return whether a run learned: as it was ``settled`` when the run ended early, else by its final accuracy."""
    return accuracy >= bar(floor, learned) if settled is None else settled


def pair_of(block: Block, learned: Mapping[RunId, bool | None]) -> Pair | None:
    """Return the pair of a block, or None if one of its runs has not ended."""
    mix, baseline = block.runs
    if mix not in learned or baseline not in learned:
        return None
    return Pair(block.mix_size, block.baseline_size, block.seed, learned[mix], learned[baseline])


def counted(blocks: Iterable[Block], learned: Mapping[RunId, bool | None]) -> list[Pair]:
    """Return the counted pairs of one mix and its baseline: their blocks in order of request, up to the first
    incomplete one. ``learned`` is True or False for runs that ended, and None for failed ones."""
    pairs = [pair_of(block, learned) for block in blocks]
    first_open = pairs.index(None) if None in pairs else len(pairs)
    return [pair for pair in pairs[:first_open] if pair]


class Growth:
    """How much each counted pair of one comparison adds to the log evidence, kept while pairs come in.

    ``rows`` has the growth of each direction: a list over pairs of one number per alternative. The last alternative is
    the prediction from the earlier pairs. ``path`` has the log evidence of each direction from pairs of equal sizes,
    before the first of them and after each.
    """

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self.rows: dict[Direction, list[list[float]]] = {direction: [] for direction in Direction}
        self.is_equal: list[bool] = []
        """Whether each pair has equal sizes."""
        self._sums = {direction: _start() for direction in Direction}
        self.path = {direction: [float(np.logaddexp.reduce(_start()))] for direction in Direction}
        self._highest = {direction: list(path) for direction, path in self.path.items()}
        """Highest log evidence so far, in the places of ``path``."""
        self._mix = self._baseline = Surrogate(1.0)
        self._fewest: dict[tuple[float, int], int] = {}
        """Results of :meth:`fewest_more` since the last pair, by its arguments."""

    def add(self, pair: Pair) -> None:
        """Count the next pair, in the order of request."""
        if not self.pairs:
            # Centered on the first sizes, which were chosen before any outcome. Later sizes depend on outcomes.
            around = math.sqrt(pair.mix_size * pair.baseline_size)
            self._mix, self._baseline = Surrogate(around), Surrogate(around)
        predicted = self._mix.predict(pair.mix_size), self._baseline.predict(pair.baseline_size)
        p, q = (min(max(chance, NEAREST), 1 - NEAREST) for chance in predicted)
        self.rows[Direction.FEWER].append(_pair_growth(p, q, pair.mix_learned, pair.baseline_learned))
        self.rows[Direction.MORE].append(_pair_growth(q, p, pair.baseline_learned, pair.mix_learned))
        self._mix.add(pair.mix_size, pair.mix_learned)
        self._baseline.add(pair.baseline_size, pair.baseline_learned)
        self._fewest = {}
        self.pairs.append(pair)
        self.is_equal.append(pair.mix_size == pair.baseline_size)
        for direction in Direction if self.is_equal[-1] else ():
            self._sums[direction] = self._sums[direction] + self.rows[direction][-1]
            self.path[direction].append(float(np.logaddexp.reduce(self._sums[direction])))
            self._highest[direction].append(max(self._highest[direction][-1], self.path[direction][-1]))

    def branch(self) -> Growth:
        """Return an independent copy."""
        other = copy.copy(self)
        other.pairs, other.is_equal = list(self.pairs), list(self.is_equal)
        other.rows = {direction: list(rows) for direction, rows in self.rows.items()}
        other.path = {direction: list(path) for direction, path in self.path.items()}
        other._highest = {direction: list(highest) for direction, highest in self._highest.items()}
        other._sums = dict(self._sums)
        other._mix, other._baseline = self._mix.branch(), self._baseline.branch()
        other._fewest = dict(self._fewest)
        return other

    def of(self, direction: Direction) -> Floats:
        """Return the growth of one direction: pairs x alternatives."""
        return np.array(self.rows[direction], dtype=np.float64).reshape(-1, len(ALTERNATIVES) + 1)

    def paths(self, looks: int = 0) -> dict[Direction, Floats]:
        """Return the log evidence of each direction from pairs of equal sizes, before the first of them and after
        each."""
        return {direction: np.array(path) - math.log(looks + 1) for direction, path in self.path.items()}

    def decision(self, error: float, looks: int = 0) -> Direction | None:
        """Return the direction whose evidence reached 1 / ``error`` first, or None."""
        needed, price = -math.log(error), math.log(looks + 1)
        first = {
            direction: bisect_left(highest, needed, key=lambda value: value - price)
            for direction, highest in self._highest.items()
        }
        soonest = min(first, key=lambda direction: first[direction])
        return soonest if first[soonest] < len(self._highest[soonest]) else None

    def fewest_more(self, error: float, looks: int = 0) -> int:
        """Return the fewest further pairs of equal sizes after which a direction can be decided, if all agree: 0 if one
        is decided."""
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
        ratios = np.array([_ratio(pair, decided, count) for pair in self.pairs])
        return _certified_factor(self.of(decided), ratios, -math.log(error), looks)


def growth_of(pairs: Iterable[Pair]) -> Growth:
    """Return the growth of the evidence from pairs in the order of request."""
    growth = Growth()
    for pair in pairs:
        growth.add(pair)
    return growth


def log_growth(pairs: Iterable[Pair]) -> dict[Direction, Floats]:
    """Return how much each pair adds to the log evidence of each direction: pairs x alternatives (:class:`Growth`)."""
    growth = growth_of(pairs)
    return {direction: growth.of(direction) for direction in Direction}


def log_evidence(growth: Floats, looks: int = 0) -> Floats:
    """Return the log evidence of one direction before the first pair and after each, given the growth by each pair and
    the number of earlier analyses of their runs."""
    path: Floats = np.logaddexp.reduce(np.cumsum([_start(), *growth], axis=0), axis=1) - math.log(looks + 1)
    return path


def _start() -> Floats:
    """Return the log evidence of one direction before the first pair, by alternative."""
    weights = [*[(1 - PREDICTED) / len(ALTERNATIVES)] * len(ALTERNATIVES), PREDICTED]
    start: Floats = np.log(weights) - math.log(2)
    return start


def compare(
    pairs: Sequence[Pair], parameters: Callable[[float], Counts], error: float = ERROR, looks: int = 0
) -> Comparison:
    """Return the evidence from the counted pairs of a mix and its baseline, in order of request.

    ``parameters`` of a model rise with its size. ``error`` is the probability of a decision if the mixes are equally
    good: with 0.05, evidence of 20 decides. ``looks`` are earlier analyses of some of the runs.
    """
    growth = growth_of(pairs)
    equal = np.array(growth.is_equal, dtype=bool)
    paths = growth.paths(looks)
    decided = growth.decision(error, looks)
    leans = max(Direction, key=lambda direction: float(paths[direction][-1]))

    def certified(count: Callable[[float], float]) -> float | None:
        return None if decided is None else growth.at_least(count, decided, error, looks)

    at_least = certified(lambda size: parameters(size).total)
    path = tuple(math.exp(min(float(log_value), LARGEST)) for log_value in paths[leans])
    return Comparison(
        decided=decided,
        evidence=path[-1],
        leans=leans,
        highest=math.exp(min(max(float(path.max()) for path in paths.values()), LARGEST)),
        threshold=1 / error,
        at_least=at_least,
        at_least_core=certified(lambda size: parameters(size).core),
        pairs=len(pairs),
        equal=_tallies(pairs, equal),
        certifying=_tallies(pairs, _certifying(pairs, decided, at_least, parameters)),
        looks=looks,
        parts=tuple(_parts(pairs, equal, growth)),
        path=path,
    )


def _certifying(
    pairs: Sequence[Pair], decided: Direction | None, at_least: float | None, parameters: Callable[[float], Counts]
) -> NDArray[np.bool_]:
    """Return which pairs certify a factor: those whose models differ by at least that factor, none if it is 1."""
    if decided is None or at_least is None or at_least == 1:
        return np.zeros(len(pairs), dtype=bool)
    return np.array([_ratio(pair, decided, lambda size: parameters(size).total) >= at_least for pair in pairs])


def _ratio(pair: Pair, decided: Direction, count: Callable[[float], float]) -> float:
    """Return how many times larger the model of the side that is behind is."""
    ratio = count(pair.baseline_size) / count(pair.mix_size)
    return 1 / ratio if decided is Direction.MORE else ratio


def _parts(pairs: Sequence[Pair], equal: NDArray[np.bool_], growth: Growth) -> Iterator[Part]:
    """Yield the evidence of the pairs of ``equal`` sizes by range of sizes."""
    size_of = np.array([pair.mix_size for pair in pairs])
    sizes = np.unique(size_of[equal]) if pairs else size_of
    for own in np.array_split(sizes, min(PARTS, len(sizes))) if len(sizes) else ():
        chosen = equal & np.isin(size_of, own)
        value = {
            direction: math.exp(min(float(log_evidence(growth.of(direction)[chosen])[-1]), LARGEST))
            for direction in Direction
        }
        yield Part(_tallies(pairs, chosen), value[Direction.FEWER], value[Direction.MORE])


def _certified_factor(growth: Floats, ratios: Floats, needed: float, looks: int) -> float:
    """Return the largest factor whose hypothesis is refuted along with the hypotheses of all smaller factors."""
    certified = 1.0
    for factor in np.unique(ratios[ratios > 1]):
        if log_evidence(growth[ratios >= factor], looks).max() < needed:
            break
        certified = float(factor)
    return certified


def _pair_growth(p: float, q: float, better: bool | None, other: bool | None) -> list[float]:
    """Return the growth of the log evidence for ``better``, by alternative; p and q are the predicted chances."""
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
    if learned is None:
        return min(_log_ratio(chance, middle, True), _log_ratio(chance, middle, False))
    return math.log(chance / middle) if learned else math.log((1 - chance) / (1 - middle))


MOST_GROWTH = _most_growth()
"""Largest growth of the log evidence by one pair, by alternative."""


def _tallies(pairs: Sequence[Pair], chosen: NDArray[np.bool_]) -> Tallies:
    own = [pair for pair, is_chosen in zip(pairs, chosen, strict=True) if is_chosen]
    mix = _tally((pair.mix_size, pair.mix_learned) for pair in own)
    return Tallies(len(own), mix, _tally((pair.baseline_size, pair.baseline_learned) for pair in own))


def _tally(runs: Iterable[tuple[int, bool | None]]) -> Tally:
    ended = [(size, learned) for size, learned in runs if learned is not None]
    return Tally(sum(learned for _, learned in ended), len(ended), tuple(sorted({size for size, _ in ended})))


def odds(evidence: float) -> str:
    """Return evidence as odds, ``47:1`` or ``1:3``, rounded down so that undecided comparisons look undecided."""
    if evidence > MOST_ODDS:
        return f"over {MOST_ODDS:,.0f}:1"
    if evidence >= 1:
        return f"{math.floor(evidence):,}:1" if evidence >= 10 else f"{rounded_down(evidence).removesuffix('.0')}:1"
    against = min(1 / evidence, MOST_ODDS) if evidence > 0 else MOST_ODDS
    return f"1:{against:,.0f}" if against >= 10 else f"1:{against:.2g}"


def rounded_down(bound: float) -> str:
    """Return a lower bound of at least 1 rounded down: to one decimal (``1.9``), from 10 on to an integer."""
    return f"{math.floor(bound)}" if bound >= 10 else f"{math.floor(10 * bound) / 10:.1f}"


def e_bh(evidence: Sequence[float], share: float) -> tuple[int, ...]:
    """Return the indices of the e-values that e-BH (Wang and Ramdas 2022, JRSS B 84, 822) rejects, largest first.

    At most ``share`` of the rejected hypotheses are expected to be true, however they depend on each other. Of K
    e-values, e-BH rejects the k largest, for the largest k such that all of them are at least K / (share k).
    """
    order = sorted(range(len(evidence)), key=lambda index: -evidence[index])
    counts = [k for k, index in enumerate(order, start=1) if evidence[index] * share * k >= len(evidence)]
    return tuple(order[: max(counts, default=0)])
