"""Ranges of sizes: ``sizes: {from: 8, to: 256, count: 16}`` of a search space."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, Field, model_validator

from orchestrator.system.strict import STRICT

MOST_SIZES = 1_000
"""Maximum number of sizes: 1,000 sizes from 1 to a million are 1.4% apart."""
LARGEST_SEED = 2**63 + 100_000
"""Largest seed of a run: seeds begin at 2**63 - 1 at most."""
LARGEST_SIZE = 10**15
"""Maximum size. Floats represent all whole numbers up to it exactly."""


class SizeRange(BaseModel):
    """``{from: 8, to: 256, count: 16, multiple_of: 4}``: ``count`` sizes from ``from`` to ``to``, both included.

    Sizes are log-spaced and rounded to the nearest multiple. Duplicates are dropped, so there may be fewer sizes.
    """

    model_config = STRICT

    smallest: int = Field(alias="from", ge=1)
    largest: int = Field(alias="to", ge=1, le=LARGEST_SIZE)
    count: int = Field(ge=2, le=MOST_SIZES)
    multiple_of: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _ends(self) -> SizeRange:
        if self.largest <= self.smallest:
            raise ValueError(f"'to' ({self.largest}) must be larger than 'from' ({self.smallest})")
        # Rounding to multiples must not move the ends.
        for end in (self.smallest, self.largest):
            if end % self.multiple_of:
                raise ValueError(f"the ends of a range must be multiples of {self.multiple_of}; {end} is not")
        return self

    def sizes(self) -> tuple[int, ...]:
        """Return the sizes, ascending and distinct."""
        steps = np.geomspace(self.smallest, self.largest, self.count) / self.multiple_of
        return tuple(sorted({round(float(step)) * self.multiple_of for step in steps}))
