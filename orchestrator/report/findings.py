"""The findings of a sweep as plain values, one per comparison. words/findings.py turns them into sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.transition.evidence import Comparison, Tally
from orchestrator.transition.types import SizeShare, Verdict

RARER = 0.01
"""Probability below which fewer learned runs at larger sizes count as a trend."""


class Kind(Enum):
    """The kind of a finding."""

    NO_RUNS = auto()
    """No run has ended."""
    ALL_FAILED = auto()
    NOTHING_LEARNED = auto()
    DECIDED = auto()
    """A mix needs fewer or more parameters than its baseline."""
    OPEN = auto()
    """No difference between a mix and its baseline has been shown yet."""
    NO_PAIRS = auto()
    """A mix and its baseline were not trained in pairs, so nothing is decided."""
    TRANSITION = auto()
    """The transition of a mix without a baseline."""


@dataclass(frozen=True)
class Finding:
    """A finding. ``kind`` determines which other fields are set.

    Attributes:
        mix: The mix it is about, or None if it is about all of them.
        comparison: The result of the pairs of ``mix`` and ``baseline``, for ``DECIDED`` and ``OPEN``.
        is_rarer: True if larger models of either mix learn less often. Then a decided comparison shows which mix is
            learned more often, but nothing about parameters.
    """

    kind: Kind
    mix: MixAnswer | None = None
    baseline: MixAnswer | None = None
    comparison: Comparison | None = None
    is_rarer: bool = False


@dataclass(frozen=True)
class Side:
    """Runs of one mix in the counted pairs: the number learned, the number tried, and their sizes."""

    learned: int
    tried: int
    sizes: tuple[int, ...]


def findings(answer: Answer) -> tuple[Finding, ...]:
    """Return the findings of an answer: one per comparison, or one about all mixes."""
    if not any(mix.runs for mix in answer.mixes):
        return (Finding(Kind.ALL_FAILED if any(mix.failed for mix in answer.mixes) else Kind.NO_RUNS),)
    if nothing_learned(answer):
        return (Finding(Kind.NOTHING_LEARNED),)
    compared = [mix for mix in answer.mixes if mix.is_compared]
    return tuple(finding_of(answer, mix) for mix in compared or answer.mixes)


def finding_of(answer: Answer, mix: MixAnswer) -> Finding:
    """Return the finding about one mix."""
    if not mix.is_compared:
        return Finding(Kind.TRANSITION, mix)
    baseline = answer.mix(answer.baseline_of(mix))
    if mix.comparison is None:
        return Finding(Kind.NO_PAIRS, mix, baseline)
    is_rarer = any(is_rarer_with_size(other.shares) for other in (mix, baseline))
    kind = Kind.OPEN if mix.comparison.decided is None else Kind.DECIDED
    return Finding(kind, mix, baseline, mix.comparison, is_rarer)


def nothing_learned(answer: Answer) -> bool:
    """Return whether every mix has runs and none of them learned."""
    other = (Verdict.FOUND, Verdict.BELOW, Verdict.NEAR_FLOOR)
    return all(mix.runs and not mix.learned and mix.target.transition.verdict not in other for mix in answer.mixes)


def sides(tallies: Sequence[Tally]) -> tuple[Side, Side]:
    """Return the counted runs of the mix, then those of its baseline."""
    mix = [(tally.size, tally.mix_learned, tally.mix_tried) for tally in tallies if tally.mix_tried]
    baseline = [(tally.size, tally.baseline_learned, tally.baseline_tried) for tally in tallies if tally.baseline_tried]
    one, other = (
        Side(sum(learned for _, learned, _ in runs), sum(tried for *_, tried in runs), tuple(size for size, *_ in runs))
        for runs in (mix, baseline)
    )
    return one, other


def is_rarer_with_size(shares: Sequence[SizeShare]) -> bool:
    """Return whether learning becomes rarer with size, beyond chance.

    Starting at the smallest size with a learned run, try every split into smaller and larger sizes. The smallest p of
    Fisher's one-sided exact test decides.
    """
    first = next((place for place, share in enumerate(shares) if share.learned), len(shares))
    risen = shares[first:]
    if len(risen) < 2 or all(share.learned == share.tried for share in risen):
        return False
    from scipy.stats import hypergeom  # Takes .8 s to import.

    tried, learned = sum(share.tried for share in risen), sum(share.learned for share in risen)
    smaller_tried = smaller_learned = 0
    for share in risen[:-1]:
        smaller_tried += share.tried
        smaller_learned += share.learned
        if hypergeom.sf(smaller_learned - 1, tried, learned, smaller_tried) <= RARER:
            return True
    return False
