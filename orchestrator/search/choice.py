"""Where the next run of a mix should go: the most information about its transition for the cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.search.belief import Belief, Fantasy
from orchestrator.search.costs import CostModel

TELLING = 0.25
"""Sizes that say less than this share of the most telling one are not considered, however cheap."""
LIKELY_ABOVE, NEARLY = 0.4, 0.7
"""From this probability of "above" on, the largest size stands in for one that says hardly more than it."""


@dataclass(frozen=True)
class Choice:
    """A size to run next: what the runs there are expected to say (nats), and that per cost ** thrift."""

    size: int
    gain: float
    score: float


def best_choice(
    belief: Belief, pending: Sequence[Fantasy], free: Sequence[int], costs: CostModel, runs: int, thrift: float
) -> Choice | None:
    """The best of the sizes in ``free`` for ``runs`` more runs beside those pending; None where none is free."""
    free_C = np.isin(belief.sizes, free)
    if not free_C.any():
        return None
    gain_C = belief.gains(pending, runs)
    score_C = gain_C / np.array([costs.cost(size) for size in belief.sizes]) ** thrift
    telling_C = free_C & (gain_C >= TELLING * gain_C[free_C].max())
    place = int(np.argmax(np.where(telling_C, score_C, -np.inf)))
    last = len(belief.sizes) - 1
    if belief.above >= LIKELY_ABOVE and telling_C[last] and gain_C[last] >= NEARLY * gain_C[place]:
        # Needed anyway before "above" is declared.
        place = last
    return Choice(belief.sizes[place], float(gain_C[place]), float(score_C[place]))
