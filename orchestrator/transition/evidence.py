"""Evidence that a mix learns more often than its baseline, or less often: e-values from pairs of runs.

A *block* is a run of a mix and a run of its baseline, requested together with one seed. Both therefore have the same
data. A complete block is a *pair*. The null hypothesis is that both learn with the same probability at every size and
seed. Nothing is assumed about how this probability depends on size.

For an alternative (p, q) with p > q and m = (p + q) / 2, a pair at one size multiplies the evidence that the mix
learns more often by

    p^y (1-p)^(1-y) / (m^y (1-m)^(1-y)) * q^z (1-q)^(1-z) / (m^z (1-m)^(1-z)),

where y and z are 1 if the mix and the baseline learned (Turner, Ly and Grünwald 2024, JSPI 230). The mean of this
factor is at most 1 if the mix learns no more often than the baseline. The evidence averages several fixed alternatives
and, with half of the weight, the alternative that earlier pairs predict. The product over pairs starts at 1/2 for each
direction. If the mixes are equally good, it exceeds 20 in either direction with probability at most 1/20 (Ville's
inequality), however often one looks and whenever one stops.

An earlier analysis may have used some of the same runs, and the sizes or the bar may have been chosen after seeing
them. After k earlier analyses, the product therefore starts at 1 / (2 (k + 1)). This analysis then decides wrongly
with at most 1 / (k + 1) of the usual probability (:mod:`orchestrator.history.earlier_looks`).

A decision covers all sizes together: it says that one side learns more often at some of the sizes tried, but not at
which. For that, *parts* (:class:`~orchestrator.transition.comparison.Part`) divide the sizes tried into up to three
ranges, and each part has the evidence of its own pairs.

This requires four rules, which searchers follow and ``tests/search/test_validity.py`` simulates:

1. Pairs count in the order in which their blocks were requested, up to the first incomplete block. Runs that learn end
   early, so the first runs to finish are a biased sample.
   Once a comparison is decided, its open blocks may stay incomplete: the pairs before them made the decision, and later
   pairs cannot take it back. Their runs may be stopped at any time, except those that other comparisons wait for.
2. The next block of a comparison depends only on the outcomes of the comparison's earlier blocks. Mixes share the
   baseline's runs, so a run's outcome may be known from another comparison. It must not influence the choice of a block
   that contains this run.
3. Until the comparison is decided, both runs of a block are trained, regardless of the first outcome.
4. A failed run has no outcome. A run may fail because of how its training went, so for each direction it counts as the
   outcome that is worse for that direction. A diverged run did not learn.

The mix may also have the smaller model in a pair. Such a pair says nothing about equal sizes. It is evidence
against "the baseline needs at most r times the mix's parameters" for every r up to the ratio of the two models'
parameters. This assumes that a larger model of the same mix does not learn less often. The hypotheses are nested, so
they are refuted in turn without a correction.

This module defines blocks and pairs. ``e_value.py`` computes the factor of each pair and when the product decides, and
``comparison.py`` the comparison that reports show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

ERROR = 0.05
"""Largest probability of a decision if both mixes are equally good."""
LEARNED = 0.8
"""Share of the possible score above the best constant answer that a run must reach to count as learned."""


class Direction(StrEnum):
    """Which side of a comparison the evidence favors.

    ``MIX_AHEAD``: the mix learns more often than its baseline. ``BASELINE_AHEAD``: the baseline learns more often. The
    values are those of stored answers. They do not say that a side needs fewer parameters.
    """

    MIX_AHEAD = "fewer"
    BASELINE_AHEAD = "more"

    @property
    def opposite(self) -> Direction:
        """The other direction."""
        return Direction.BASELINE_AHEAD if self is Direction.MIX_AHEAD else Direction.MIX_AHEAD


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


def least_accuracy(floor: float, learned: float = LEARNED) -> float:
    """Return the accuracy from which a run counts as learned. ``floor`` is the accuracy of the best constant answer."""
    return floor + learned * (1 - floor)


def has_learned(accuracy: float, floor: float, settled: bool | None = None, learned: float = LEARNED) -> bool:
    """Return whether a run learned. If it ended early, ``settled`` decides, otherwise its final accuracy."""
    return accuracy >= least_accuracy(floor, learned) if settled is None else settled


def pair_of(block: Block, learned: Mapping[RunId, bool | None]) -> Pair | None:
    """Return the pair of a block, or None if one of its runs has not ended."""
    mix, baseline = block.runs
    if mix not in learned or baseline not in learned:
        return None
    return Pair(block.mix_size, block.baseline_size, block.seed, learned[mix], learned[baseline])


def counted_pairs(blocks: Iterable[Block], learned: Mapping[RunId, bool | None]) -> list[Pair]:
    """Return the counted pairs of one mix and its baseline: the blocks before the first incomplete block.

    Args:
        blocks: All blocks of the comparison, in the order of request.
        learned: Whether each run that ended learned, None if it failed.
    """
    pairs = [pair_of(block, learned) for block in blocks]
    first_open = pairs.index(None) if None in pairs else len(pairs)
    return [pair for pair in pairs[:first_open] if pair]
