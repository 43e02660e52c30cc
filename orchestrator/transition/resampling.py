"""How much a transition owes to the seeds that happened to be drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from orchestrator.transition.curves import curves_for
from orchestrator.transition.kinds import Floats
from orchestrator.transition.posterior import Posterior
from orchestrator.transition.types import Point


def resampled(points: Sequence[Point], sizes: Sequence[int], count: int, rng: np.random.Generator) -> Floats:
    """The posterior median of the transition for ``count`` bootstrap samples of the seeds within each size.

    Beyond the sizes, or infinite, where a sample never learns it. ``points`` are the runs of one mix, at least one.
    """
    ordered = sorted(points)
    curves = curves_for([*sizes, *(point.size for point in ordered)], float(np.mean([run.floor for run in ordered])))
    # A run drawn twice counts twice: each run's likelihood is worked out once.
    likelihood_PD = np.stack([curves.log_likelihood(point.size, point.accuracy) for point in ordered])
    cells = [np.flatnonzero([point.size == size for point in ordered]) for size in sorted({p.size for p in ordered})]
    medians = []
    for _ in range(count):
        total_D = np.zeros(curves.all_cells)
        for places in cells:
            times = np.bincount(rng.choice(len(places), len(places)), minlength=len(places)).astype(np.float32)
            total_D += curves.averaged(times @ likelihood_PD[places])
        (median,) = Posterior(curves, total_D).quantiles(curves.relative, (0.5,))
        medians.append(math.exp(median))
    return np.array(medians)
