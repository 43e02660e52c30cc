"""Evidence that a mix needs fewer, or more, parameters than its baseline: runs in pairs in, an e-value out.

A *block* is one run of a mix and one of its baseline, asked for together, with one seed and so with the same data.
Complete, it is a *pair*. The hypothesis to refute: at every size, for every seed, both learn with the same
probability. Nothing is assumed about how that probability depends on size.

For an alternative (p, q) with p > q and m = (p + q) / 2, a pair at one size multiplies the evidence that the mix
learns more often by

    p^y (1-p)^(1-y) / (m^y (1-m)^(1-y)) * q^z (1-q)^(1-z) / (m^z (1-m)^(1-z)),

y and z being 1 where the mix and the baseline learned (Turner, Ly and Grünwald 2024, JSPI 230). Its mean is at most 1
wherever the mix learns no more often than the baseline. Several fixed alternatives are averaged; half of all weight has
what the pairs before this one predict for it. The product over pairs starts at 1/2 for each direction, and passes 20 in
either with probability 1/20 at most (Ville), however often one looks and whenever one stops.

This rests on four rules, which searchers keep and ``tests/search/test_validity.py`` simulates:

1. Pairs count in the order in which their blocks were asked for, up to the first block that is not complete. Runs that
   learn end early, so what came back first is no fair sample.
2. What is asked for next in a comparison depends on the outcomes of its own earlier blocks alone. Mixes share the
   baseline's runs; a run known from elsewhere is never looked at when a block that contains it is placed.
3. Both runs of a block are trained, whatever the first one did.
4. A failed run has no outcome. Whether it failed may depend on how it trained (or a person stopped it), so it counts
   in each direction as the outcome that says least for that direction. A diverged run did not learn.

A pair may also have the mix at a smaller size than the baseline. It then says nothing about equal sizes, but counts
against "the baseline needs at most r times the parameters" for every r up to the ratio of the two, under one
assumption: a larger model of the same mix does not learn less often. Those hypotheses are nested, so they are refuted
one after the other without a correction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from orchestrator.transition.chances import Chances

Floats = NDArray[np.float64]

ERROR = 0.05
"""Probability of a decision where nothing differs."""
LEARNED = 0.8
"""A run learned if it scores this share of what can be scored above the best constant answer."""
ALTERNATIVES = ((0.95, 0.05), (0.8, 0.2), (0.9, 0.5), (0.5, 0.1))
"""Fixed alternatives: how often the better side learns, and the other."""
PREDICTED = 0.5
"""Weight of the alternative that earlier pairs predict."""
NEAREST = 0.03
"""Predictions keep this distance from 0 and 1, so that one surprise costs no more than a factor of some 16."""
LARGEST = 700.0
"""Largest logarithm of an evidence that is written out as a number."""


class Direction(StrEnum):
    """What a mix needs, compared with its baseline."""

    FEWER = "fewer"
    MORE = "more"


@dataclass(frozen=True)
class Block:
    """Two runs asked for together, as one piece of evidence."""

    mix: str
    baseline: str
    mix_size: int
    baseline_size: int
    seed: int

    @property
    def runs(self) -> tuple[Run, Run]:
        """The run of the mix and that of the baseline."""
        return (self.mix, self.mix_size, self.seed), (self.baseline, self.baseline_size, self.seed)


Run = tuple[str, int, int]
"""A run's mix, size and seed."""


@dataclass(frozen=True)
class Pair:
    """A complete block: its sizes, and whether each of the two runs learned (None: it failed)."""

    mix_size: int
    baseline_size: int
    seed: int
    mix_learned: bool | None
    baseline_learned: bool | None


@dataclass(frozen=True)
class Tally:
    """The runs of the counted pairs at one size: how many of the mix and of the baseline learned, of those tried."""

    size: int
    mix_learned: int
    mix_tried: int
    baseline_learned: int
    baseline_tried: int


class Counts(Protocol):
    """Parameters of a model, all of them and those of its core."""

    @property
    def total(self) -> float: ...
    @property
    def core(self) -> float: ...


@dataclass(frozen=True)
class Comparison:
    """What the pairs of a mix and its baseline show.

    Attributes:
        decided: The direction whose evidence reached ``threshold`` after any of the counted pairs; never taken back.
        evidence: The e-value after the last counted pair, of pairs at equal sizes, in the ``leaning`` direction.
        highest: The largest it has been so far.
        threshold: The evidence that decides, 1 / error.
        leaning: The direction with more evidence, or None while both have the same.
        at_least: Once decided, the largest factor that is certified: the baseline needs at least so many times the
            mix's parameters (or the mix so many times the baseline's, if it needs more). At least 1.
        at_least_core: The same factor in parameters of the core.
        pairs: How many pairs are counted.
        tallies: What was learned at each size, ascending.
        bar: Accuracy from which on a run counts as learned, in the mean over runs.
    """

    decided: Direction | None
    evidence: float
    highest: float
    threshold: float
    leaning: Direction | None
    at_least: float | None
    at_least_core: float | None
    pairs: int
    tallies: tuple[Tally, ...]
    bar: float


def bar(floor: float, learned: float = LEARNED) -> float:
    """Return the accuracy from which on a run counts as learned; ``floor`` is that of the best constant answer."""
    return floor + learned * (1 - floor)


def counted(blocks: Iterable[Block], learned: Mapping[Run, bool | None]) -> list[Pair]:
    """Return the pairs of one comparison that count: its blocks in the order asked, up to the first incomplete one.

    Args:
        blocks: The blocks of one mix and its baseline.
        learned: Whether each run that ended learned, None if it failed.
    """
    pairs = []
    for block in blocks:
        mix, baseline = block.runs
        if mix not in learned or baseline not in learned:
            break
        pairs.append(Pair(block.mix_size, block.baseline_size, block.seed, learned[mix], learned[baseline]))
    return pairs


class Evidence:
    """The evidence of one comparison, pair by pair."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self._growth: dict[Direction, list[Floats]] = {direction: [] for direction in Direction}
        self._chances: tuple[Chances, Chances] | None = None

    def add(self, pair: Pair) -> None:
        """Count the next pair."""
        if self._chances is None:
            # Around the first size, which was chosen before any outcome: a grid that later sizes widened would not be.
            around = math.sqrt(pair.mix_size * pair.baseline_size)
            self._chances = Chances(around), Chances(around)
        mix, baseline = self._chances
        expected = mix.predict(pair.mix_size), baseline.predict(pair.baseline_size)
        p, q = (min(max(chance, NEAREST), 1 - NEAREST) for chance in expected)
        for direction in Direction:
            better, other = (p, q) if direction is Direction.FEWER else (q, p)
            outcomes = (pair.mix_learned, pair.baseline_learned)
            high, low = outcomes if direction is Direction.FEWER else outcomes[::-1]
            # Where the prediction is that both are alike, or the other way round, the pair is a bet on nothing.
            predicted = _log_growth(better, other, high, low) if better > other else 0.0
            fixed = [_log_growth(*alternative, high, low) for alternative in ALTERNATIVES]
            self._growth[direction].append(np.array([*fixed, predicted]))
        self.pairs.append(pair)
        if pair.mix_learned is not None:
            mix.add(pair.mix_size, pair.mix_learned)
        if pair.baseline_learned is not None:
            baseline.add(pair.baseline_size, pair.baseline_learned)

    def log_path(self, direction: Direction, counts: Sequence[bool]) -> Floats:
        """Return the log evidence for a direction before the first pair and after each, from the pairs that count."""
        start = np.log([*[(1 - PREDICTED) / len(ALTERNATIVES)] * len(ALTERNATIVES), PREDICTED]) - math.log(2)
        steps = [start, *(growth * count for growth, count in zip(self._growth[direction], counts, strict=True))]
        path: Floats = np.logaddexp.reduce(np.cumsum(steps, axis=0), axis=1)
        return path

    def compare(self, parameters: Callable[[float], Counts], error: float = ERROR, bar: float = LEARNED) -> Comparison:
        """Return what the pairs show; see :func:`compare`."""
        needed = -math.log(error)
        equal = [pair.mix_size == pair.baseline_size for pair in self.pairs]
        paths = {direction: self.log_path(direction, equal) for direction in Direction}
        first = {direction: int(np.argmax(path >= needed)) for direction, path in paths.items() if path.max() >= needed}
        decided = min(first, key=lambda direction: first[direction]) if first else None
        now = {direction: float(path[-1]) for direction, path in paths.items()}
        ahead = max(now, key=lambda direction: now[direction])
        return Comparison(
            decided=decided,
            evidence=math.exp(min(now[ahead], LARGEST)),
            highest=math.exp(min(max(float(path.max()) for path in paths.values()), LARGEST)),
            threshold=1 / error,
            leaning=ahead if len(set(now.values())) > 1 else None,
            at_least=self._certified(decided, lambda size: parameters(size).total, needed),
            at_least_core=self._certified(decided, lambda size: parameters(size).core, needed),
            pairs=len(self.pairs),
            tallies=_tallies(self.pairs),
            bar=bar,
        )

    def _certified(
        self, decided: Direction | None, parameters: Callable[[float], float], needed: float
    ) -> float | None:
        """The largest factor whose hypothesis, and those of all smaller ones, were refuted."""
        if decided is None:
            return None
        sign = 1 if decided is Direction.FEWER else -1
        ratios = [(parameters(pair.baseline_size) / parameters(pair.mix_size)) ** sign for pair in self.pairs]
        certified = 1.0
        for factor in sorted({ratio for ratio in ratios if ratio > 1}):
            if self.log_path(decided, [ratio >= factor for ratio in ratios]).max() < needed:
                break
            certified = factor
        return certified


def compare(
    pairs: Sequence[Pair], parameters: Callable[[float], Counts], error: float = ERROR, bar: float = LEARNED
) -> Comparison:
    """Return what the pairs of a mix and its baseline show.

    Args:
        pairs: The counted pairs, in the order in which their blocks were asked for.
        parameters: Parameters of a model of a size; they rise with size.
        error: Probability of a decision where nothing differs, 0.05: evidence of 20 decides.
        bar: Accuracy from which on a run counted as learned.
    """
    evidence = Evidence()
    for pair in pairs:
        evidence.add(pair)
    return evidence.compare(parameters, error, bar)


def _log_growth(p: float, q: float, better: bool | None, other: bool | None) -> float:
    """The log factor by which a pair multiplies the evidence that ``better`` learns with p and ``other`` with q."""
    middle = (p + q) / 2
    return _log_ratio(p, middle, better) + _log_ratio(q, middle, other)


def _log_ratio(chance: float, middle: float, learned: bool | None) -> float:
    if learned is None:
        return min(_log_ratio(chance, middle, True), _log_ratio(chance, middle, False))
    return math.log(chance / middle) if learned else math.log((1 - chance) / (1 - middle))


def _tallies(pairs: Sequence[Pair]) -> tuple[Tally, ...]:
    mix = [(pair.mix_size, pair.mix_learned) for pair in pairs if pair.mix_learned is not None]
    baseline = [(pair.baseline_size, pair.baseline_learned) for pair in pairs if pair.baseline_learned is not None]

    def at(runs: list[tuple[int, bool]], size: int) -> tuple[int, int]:
        return sum(learned for run, learned in runs if run == size), sum(run == size for run, _ in runs)

    return tuple(
        Tally(size, *at(mix, size), *at(baseline, size)) for size in sorted({size for size, _ in [*mix, *baseline]})
    )
