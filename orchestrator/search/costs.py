"""What a run costs: a power law in size, fitted to the costs of the runs that ended. And what a stack of runs costs,
relative to a single one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from orchestrator.search.base import Results

MAX_EXPONENT = 3.0
"""No training cost rises faster with width than this (quadratic work, and memory traffic besides)."""

UNMEASURED_EXPONENT = 0.0
"""The exponent until runs of two sizes have ended: without a measurement all sizes count as equally expensive."""

STACK_OVERHEAD = 0.2
"""What each further run of a stack adds to the cost of the first: four cost 1.6 times one."""


def stack_cost(runs: int) -> float:
    """What a stack of so many runs costs, in single runs of its size."""
    return 1 + STACK_OVERHEAD * (runs - 1)


@dataclass(frozen=True)
class CostModel:
    """``scale * size ** exponent``, in the unit of the observed costs."""

    scale: float
    exponent: float

    def cost(self, size: float) -> float:
        return self.scale * math.exp(self.exponent * math.log(size))


def cost_model(results: Results) -> CostModel:
    """Least squares in ln size and ln cost over all runs with a known cost, the exponent kept in 0..3.

    From a single size, or none, the exponent is :data:`UNMEASURED_EXPONENT`.
    """
    known = [
        (request.size, seen.cost)
        for request, seen in results.items()
        if seen is not None and seen.cost > 0 and request.is_evidence
    ]
    if not known:
        return CostModel(1.0, UNMEASURED_EXPONENT)
    size_R, cost_R = np.array(known, dtype=float).T
    in_order = np.lexsort((cost_R, size_R))  # So that a sum is the same whichever result came first.
    x, y = np.log(size_R[in_order]), np.log(cost_R[in_order])
    spread = float(((x - x.mean()) ** 2).sum())
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 0 else UNMEASURED_EXPONENT
    exponent = min(max(slope, 0.0), MAX_EXPONENT)
    return CostModel(math.exp(float(y.mean()) - exponent * float(x.mean())), exponent)
