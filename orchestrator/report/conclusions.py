"""Conclusions that a report may draw from the pairs of a mix and its baseline.

The evidence of pairs refutes "both learn equally often at every size". It does not show that the favored side needs
fewer parameters: if the learning curves cross, each side is ahead at some sizes. So there are two conclusions:

* *more often* (or less often): at the sizes named, one side was learned more often.
* *parameters*: one side needs fewer parameters. This conclusion has four more conditions. The transitions of both mixes
  are known, or known to be outside the tested sizes. Their intervals do not overlap. No part of the sizes tried favors
  the other side (:data:`CONTRARY`). Larger models do not learn less often.

``tests/bench/curves.py`` measures how often the second conclusion is drawn although the curves cross.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.transition.comparison import Comparison, Part, Tallies, Tally
from orchestrator.transition.evidence import Direction
from orchestrator.transition.trend import is_rarer_with_size
from orchestrator.transition.types import Transition, Verdict

CONTRARY = 3.0
"""Evidence above which a part of the sizes tried favors the other side."""


FEWEST_RUNS = 3
"""Minimum number of runs from which a side counts as learned."""


class Obstacle(StrEnum):
    """Why a decided comparison is not about parameters."""

    CONTRARY = "contrary"
    """At other sizes, the other side is ahead."""
    RARER = "rarer"
    """Larger models of one side learn less often."""
    UNPLACED = "unplaced"
    """A transition is not known."""
    OVERLAP = "overlap"
    """The intervals of the transitions overlap."""


@dataclass(frozen=True)
class Conclusion:
    """The result of a decided comparison.

    Attributes:
        direction: The side that the evidence favors, seen from the mix.
        place: The pairs at the sizes for which the conclusion holds.
        contrary: The pairs at the sizes that favor the other side, None if there are no such sizes.
        obstacle: Why the conclusion is only about learning more often, None if it is about parameters.
    """

    direction: Direction
    place: Tallies
    contrary: Tallies | None = None
    obstacle: Obstacle | None = None

    @property
    def is_about_parameters(self) -> bool:
        """True if one side needs fewer parameters, not only learns more often at some sizes."""
        return self.obstacle is None


def conclusion_of(answer: Answer, mix: MixAnswer) -> Conclusion | None:
    """Return the result of comparing a mix with its baseline, or None if it is undecided or was not made."""
    comparison = mix.comparison
    if comparison is None or comparison.decided is None:
        return None
    direction = comparison.decided
    contrary = [part for part in comparison.parts if part.evidence(direction.opposite) > CONTRARY]
    return Conclusion(
        direction,
        _together(_favorable(comparison, direction)),
        _together(contrary) if contrary else None,
        _obstacle(answer, mix, direction, bool(contrary)),
    )


def unplaced(answer: Answer, mix: MixAnswer, direction: Direction) -> tuple[MixAnswer, ...]:
    """Return the mix, its baseline or both, if their transitions are not known well enough to compare them.

    The transition of the side that the evidence favors must be at or below the tested sizes. The transition of the
    other side must be at or above them.
    """
    sides = (mix, answer.baseline_of(mix))
    smaller, larger = sides if direction is Direction.MIX_AHEAD else sides[::-1]
    known = {smaller.mix: (Verdict.FOUND, Verdict.BELOW), larger.mix: (Verdict.FOUND, Verdict.ABOVE)}
    return tuple(side for side in sides[::-1] if side.target.transition.verdict not in known[side.mix])


def learned_by_half(mix: MixAnswer) -> bool:
    """Return whether at least half of a mix's runs learned the target at some size and all larger ones together.

    One lucky run of two at a size does not count, nor do fewer than :data:`FEWEST_RUNS`.
    """
    for size in [share.size for share in mix.shares]:
        above = [share for share in mix.shares if share.size >= size]
        tried = sum(share.tried for share in above)
        if tried >= FEWEST_RUNS and 2 * sum(share.learned for share in above) >= tried:
            return True
    return False


def _favorable(comparison: Comparison, direction: Direction) -> Sequence[Part]:
    """Return the parts from the first to the last with evidence for a direction, or all parts if none has any."""
    parts = comparison.parts
    indices = [index for index, part in enumerate(parts) if part.evidence(direction) > 1]
    return parts[indices[0] : indices[-1] + 1] if indices else parts


def _together(parts: Sequence[Part]) -> Tallies:
    tallies = [part.tallies for part in parts]
    mix, baseline = (_sum([getattr(tally, side) for tally in tallies]) for side in ("mix", "baseline"))
    return Tallies(sum(tally.pairs for tally in tallies), mix, baseline)


def _sum(tallies: Sequence[Tally]) -> Tally:
    sizes = sorted({size for tally in tallies for size in tally.sizes})
    return Tally(sum(tally.learned for tally in tallies), sum(tally.tried for tally in tallies), tuple(sizes))


def _obstacle(answer: Answer, mix: MixAnswer, direction: Direction, is_contrary: bool) -> Obstacle | None:
    """Return why a decided comparison is not about parameters, or None if it is."""
    if is_contrary:
        return Obstacle.CONTRARY
    sides = (mix, answer.baseline_of(mix))
    if any(is_rarer_with_size(side.shares) for side in sides):
        return Obstacle.RARER
    if unplaced(answer, mix, direction):
        return Obstacle.UNPLACED
    smaller, larger = (side.target.transition for side in (sides if direction is Direction.MIX_AHEAD else sides[::-1]))
    return None if _are_apart(smaller, larger) else Obstacle.OVERLAP


def _are_apart(smaller: Transition, larger: Transition) -> bool:
    """Return True if the intervals of two transitions do not overlap."""
    high = smaller.relative.high
    low = larger.relative.low
    return high is not None and low is not None and high <= low
