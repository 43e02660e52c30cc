"""One mix as the statistical searcher sees it: its evidence, and the belief that follows from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from orchestrator.search.base import Problem
from orchestrator.search.belief import Belief
from orchestrator.search.evidence import Known, points_of, requests
from orchestrator.transition.curves import Evidence, curves_for
from orchestrator.transition.fit import fit
from orchestrator.transition.plateau import levelling, plateau
from orchestrator.transition.transition import learned_sizes
from orchestrator.transition.types import LEVEL, PLATEAU, SCATTER, Point

FLOOR_STEP = 0.05
"""The constant-answer floor is rounded to this when choosing runs, so that a new seed rarely changes the grid."""


@dataclass(frozen=True)
class MixView:
    """One mix: what is ``known`` of it, as evidence, and the belief that follows from it. ``ended`` counts its finished
    runs, failed ones too; ``untried`` the runs of the problem that have not ended. ``plateau`` is the level at which
    accuracy settles where that is too low to count as learned, else None. ``levelling``: whether it seems to settle so,
    as far as sizes were tested."""

    mix: str
    known: list[Known]
    points: tuple[Point, ...]
    ended: int
    untried: int
    evidence: Evidence
    belief: Belief
    plateau: float | None
    levelling: bool

    @property
    def level(self) -> float:
        """The accuracy from which on a run counts as learned."""
        return LEVEL * self.belief.top

    @cached_property
    def learned(self) -> dict[int, bool]:
        """For each size tested, ascending, whether it learned in the mean."""
        return learned_sizes(self.points, self.level)

    @cached_property
    def bracket(self) -> tuple[int | None, int | None]:
        """The largest size tested that failed below the median and the smallest that learned above it."""
        under = [size for size, good in self.learned.items() if not good and math.log(size) <= self.belief.median]
        over = [size for size, good in self.learned.items() if good and math.log(size) >= self.belief.median]
        return max(under, default=None), min(over, default=None)

    def __str__(self) -> str:
        # How well it is known, not where it lies: that is the verdict's to say, in one place and in one way.
        factor = float(np.exp(self.belief.width))
        return f"known to a factor of {factor:.2g}" if math.isfinite(factor) else "one side still open"


def view_of(problem: Problem, known: list[Known], mix: str, kept: MixView | None) -> MixView:
    """Evidence and belief about a mix from its results. ``kept``, the view of the last call, is reused as far as it
    still holds: at every decision all mixes are looked at, of which one at most has changed."""
    if kept is not None and kept.known == known:
        return kept
    seen = tuple(points_of(known))
    ended = sum(request.is_evidence for request, _ in known)
    results = dict(known)
    cells = (run for size in problem.sizes for run in requests(problem, mix, size))
    untried = sum(run not in results for run in cells)
    floor = float(np.mean([point.floor for point in seen])) if seen else 0.0
    curves = curves_for(problem.sizes, FLOOR_STEP * round(floor / FLOOR_STEP))
    new, evidence = list(seen), Evidence.none(curves)
    if kept is not None and kept.evidence.curves is curves and set(kept.points) <= set(seen):
        # Log likelihoods are rounded so that sums are exact: adding to one is the same as starting afresh.
        told = set(kept.points)
        new, evidence = [point for point in seen if point not in told], kept.evidence
    evidence = evidence.plus(new)
    belief = Belief(curves, evidence.total, problem.sizes)
    return MixView(mix, known, seen, ended, untried, evidence, belief, *_levels(seen, problem.sizes))


def _levels(seen: Sequence[Point], sizes: Sequence[int]) -> tuple[float | None, bool]:
    """Where accuracy levels off, and whether it seems to: see :class:`MixView`."""
    last = [point.accuracy for point in seen if point.size == seen[-1].size]
    if not last or float(np.mean(last)) >= PLATEAU - SCATTER:
        return None, False
    fitted = fit(seen)
    return plateau(fitted, seen, sizes), levelling(fitted, seen)
