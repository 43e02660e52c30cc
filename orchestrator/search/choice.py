"""Which run of a mix should be next: the one with most information about its transition for its cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.search.belief import Belief, Fantasy
from orchestrator.search.costs import CostModel, stack_cost

TELLING = 0.25
"""Sizes with less than this share of the largest gain in information are not considered, however cheap."""
LIKELY_ABOVE, NEARLY = 0.4, 0.7
"""From the first probability of "above" on, the largest size is taken if it has the second share of the best gain."""


@dataclass(frozen=True)
class Choice:
    """What to run next: how many ``runs`` at which ``size``, the information expected of them (``gain``, nats), and
    that divided by cost ** thrift (``score``)."""

    size: int
    runs: int
    gain: float
    score: float


def best_choice(
    belief: Belief, pending: Sequence[Fantasy], free: Sequence[int], costs: CostModel, most: int, thrift: float
) -> Choice | None:
    """The best of the sizes in ``free`` and of stacks of up to ``most`` runs; None where no size is free.

    Where a single run gives nearly all the information, as it does far from the transition, a stack is not worth its
    overhead.
    """
    free_C = np.array([size in free for size in belief.sizes])
    if not free_C.any():
        return None
    counts = sorted({*(2**power for power in range(most.bit_length()) if 2**power <= most), most})
    choices = [_best_size(belief, pending, free_C, costs, runs, thrift) for runs in counts]
    return max(choices, key=lambda choice: choice.score)


def _best_size(
    belief: Belief, pending: Sequence[Fantasy], free_C: NDArray[np.bool_], costs: CostModel, runs: int, thrift: float
) -> Choice:
    gain_C = belief.gains(pending, runs)
    score_C = gain_C / np.array([stack_cost(runs) * costs.cost(size) for size in belief.sizes]) ** thrift
    telling_C = free_C & (gain_C >= TELLING * gain_C[free_C].max())
    place = int(np.argmax(np.where(telling_C, score_C, -np.inf)))
    last = len(belief.sizes) - 1
    if belief.above >= LIKELY_ABOVE and telling_C[last] and gain_C[last] >= NEARLY * gain_C[place]:
        # Needed anyway before "above" is declared.
        place = last
    return Choice(belief.sizes[place], runs, float(gain_C[place]), float(score_C[place]))
