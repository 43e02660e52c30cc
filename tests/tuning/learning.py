"""A made-up law of learning in which speed and reliability pull a learning rate in different directions.

Runs at a higher rate learn sooner. How many seeds learn at all depends on the size and on how far the rate is from the
one that is most reliable: the size that most seeds learn at is smallest there. A rate so low that a run needs more than
its steps is learned by none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from orchestrator.tuning.objective import TuningRun

STEPS = 3000
LEVEL = 0.8
"""The share of runs that learn at a transition."""
NOISE = 0.17
"""In ln size: half of a sweep's usual 90 % interval (11.1 [9.71, 13.2] is ln(13.2 / 11.1))."""
WRITTEN, LOW, HIGH = math.log(2e-3), math.log(5e-4), math.log(2e-2)
"""ln of the rate as written and of the range that is searched."""
SPREAD = 0.2
"""Standard deviation of ln(steps to learn) from seed to seed."""


@dataclass(frozen=True)
class Law:
    """One made-up task. ``reliable`` is ln of the most reliable rate, ``middle`` ln of the size half of the runs learn
    at with it, ``slope`` how steeply their share rises in ln size, ``toll`` what being off by a factor e costs in ln
    size, ``steps`` what learning takes with the rate as written, falling with ``haste`` in ln rate."""

    reliable: float
    middle: float
    slope: float
    toll: float
    steps: float
    haste: float

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Law:
        return cls(
            reliable=WRITTEN + rng.uniform(-1.2, 1.2),
            middle=math.log(9) + rng.uniform(-0.2, 0.2),
            slope=rng.uniform(5, 15),
            toll=rng.uniform(0.05, 0.5),
            steps=rng.uniform(1800, 2600),
            haste=rng.uniform(0.2, 0.9),
        )

    def reliability(self, size: float, rate: float) -> float:
        off = rate - self.reliable
        middle = self.middle + self.toll * off**2 * (1 if off > 0 else 0.5)
        return 1 / (1 + math.exp(-self.slope * (math.log(size) - middle)))

    def typical(self, size: float, rate: float) -> float:
        """Median steps to learn, of runs that do."""
        return self.steps * math.exp(-self.haste * (rate - WRITTEN) - 0.3 * math.log(size / 11))

    def share(self, size: float, rate: float) -> float:
        """The share of seeds that learn within their steps."""
        height = math.log(STEPS / self.typical(size, rate)) / SPREAD
        return self.reliability(size, rate) * (1 + math.erf(height / math.sqrt(2))) / 2

    def transition(self, rate: float) -> float:
        """ln of the smallest size, up to 64, that :data:`LEVEL` of the seeds learn."""
        low, high = math.log(2), math.log(64)
        while high - low > 1e-3:
            middle = (low + high) / 2
            low, high = (low, middle) if self.share(math.exp(middle), rate) >= LEVEL else (middle, high)
        return high

    def run(self, size: int, seed: int, rate: float, rng: np.random.Generator) -> TuningRun:
        steps = self.typical(size, rate) * math.exp(SPREAD * rng.normal())
        learns = rng.random() < self.reliability(size, rate) and steps <= STEPS
        return TuningRun(size, seed, steps if learns else None, 0.9 if learns else 0.3, STEPS)
