"""Compares a mix with its baseline: what the counted pairs decide, the factor that they certify, and at which sizes.

The method is described in :mod:`orchestrator.transition.evidence`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from orchestrator.transition.e_value import Growth, growth_of, log_evidence, ratio_of
from orchestrator.transition.evidence import ERROR, Direction, Pair

LARGEST_LOG_EVIDENCE = 700.0
"""Largest log evidence that is converted to a number."""
MOST_RANGES = 3
"""Maximum number of ranges of sizes for which evidence is also reported separately. Each has equally many sizes."""
MOST_ODDS = 1e6
"""Odds above this are printed as ``over 1,000,000:1``."""


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
    """The pairs of equal size in one range of the sizes tried, and their evidence alone.

    ``mix_ahead`` and ``baseline_ahead`` are the e-values of the two directions from these pairs. They start at 1/2.
    They describe where a decision comes from but decide nothing, because the borders of the ranges depend on the sizes
    that the search chose.
    """

    tallies: Tallies
    mix_ahead: float
    baseline_ahead: float

    def evidence(self, direction: Direction) -> float:
        """Return the e-value of a direction."""
        return self.mix_ahead if direction is Direction.MIX_AHEAD else self.baseline_ahead

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
    """Direction whose evidence reached ``threshold`` (1 / error) after any of the counted pairs. It is never
    revoked."""
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
    """The pairs that certify :attr:`at_least`. There are none if it is 1 or None."""
    looks: int = 0
    """Earlier analyses of some of the same runs. All odds are divided by this number plus one."""
    parts: tuple[Part, ...] = ()
    """The pairs of equal sizes by range of sizes, ascending. There are :data:`MOST_RANGES` ranges, or one per size if
    fewer sizes were tried."""
    path: tuple[float, ...] = ()
    """E-value of the direction ``leans`` before the first pair of equal sizes and after each. The last entry is
    :attr:`evidence`."""


def compare(
    pairs: Sequence[Pair], parameters: Callable[[float], Counts], error: float = ERROR, looks: int = 0
) -> Comparison:
    """Return the evidence from the counted pairs of a mix and its baseline, in order of request.

    ``parameters`` of a model rise with its size. ``error`` is the probability of a decision if the mixes are equally
    good: with 0.05, evidence of 20 decides. ``looks`` is the number of earlier analyses of some of the
    runs.
    """
    growth = growth_of(pairs)
    equal = np.array(growth.is_equal, dtype=bool)
    paths = growth.paths(looks)
    decided = growth.decision(error, looks)
    leans = max(Direction, key=lambda direction: float(paths[direction][-1]))

    def certified(count: Callable[[float], float]) -> float | None:
        return None if decided is None else growth.at_least(count, decided, error, looks)

    at_least = certified(lambda size: parameters(size).total)
    path = tuple(math.exp(min(float(log_value), LARGEST_LOG_EVIDENCE)) for log_value in paths[leans])
    return Comparison(
        decided=decided,
        evidence=path[-1],
        leans=leans,
        highest=math.exp(min(max(float(path.max()) for path in paths.values()), LARGEST_LOG_EVIDENCE)),
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
    """Return which pairs certify a factor: the models of these pairs differ by at least that factor. Return none if it
    is 1."""
    if decided is None or at_least is None or at_least == 1:
        return np.zeros(len(pairs), dtype=bool)
    return np.array([ratio_of(pair, decided, lambda size: parameters(size).total) >= at_least for pair in pairs])


def _parts(pairs: Sequence[Pair], equal: NDArray[np.bool_], growth: Growth) -> Iterator[Part]:
    """Yield the evidence of the pairs of ``equal`` sizes by range of sizes."""
    size_of = np.array([pair.mix_size for pair in pairs])
    sizes = np.unique(size_of[equal]) if pairs else size_of
    for sizes_of_part in np.array_split(sizes, min(MOST_RANGES, len(sizes))) if len(sizes) else ():
        chosen = equal & np.isin(size_of, sizes_of_part)
        value = {
            direction: math.exp(min(float(log_evidence(growth.of(direction)[chosen])[-1]), LARGEST_LOG_EVIDENCE))
            for direction in Direction
        }
        yield Part(_tallies(pairs, chosen), value[Direction.MIX_AHEAD], value[Direction.BASELINE_AHEAD])


def _tallies(pairs: Sequence[Pair], chosen: NDArray[np.bool_]) -> Tallies:
    """Return the counts of both sides over the chosen pairs."""
    chosen_pairs = [pair for pair, is_chosen in zip(pairs, chosen, strict=True) if is_chosen]
    mix = _tally((pair.mix_size, pair.mix_learned) for pair in chosen_pairs)
    baseline = _tally((pair.baseline_size, pair.baseline_learned) for pair in chosen_pairs)
    return Tallies(len(chosen_pairs), mix, baseline)


def _tally(runs: Iterable[tuple[int, bool | None]]) -> Tally:
    """Return the counts over runs, each with its size and whether it learned, None if it failed."""
    ended = [(size, learned) for size, learned in runs if learned is not None]
    return Tally(sum(learned for _, learned in ended), len(ended), tuple(sorted({size for size, _ in ended})))


def odds(evidence: float) -> str:
    """Return evidence as odds: ``47:1`` or ``1:3``. They are rounded down, so that undecided comparisons look
    undecided."""
    if evidence > MOST_ODDS:
        return f"over {MOST_ODDS:,.0f}:1"
    if evidence >= 1:
        return f"{math.floor(evidence):,}:1" if evidence >= 10 else f"{rounded_down(evidence).removesuffix('.0')}:1"
    against = min(1 / evidence, MOST_ODDS) if evidence > 0 else MOST_ODDS
    return f"1:{against:,.0f}" if against >= 10 else f"1:{against:.2g}"


def rounded_down(bound: float) -> str:
    """Round down a lower bound of at least 1: below 10 to one decimal (``1.9``), from 10 on to an integer."""
    return f"{math.floor(bound)}" if bound >= 10 else f"{math.floor(10 * bound) / 10:.1f}"
