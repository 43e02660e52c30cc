"""How a sweep chooses its runs: ``search:`` and ``sizes:`` of a search space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from pydantic import BaseModel, Field, model_serializer, model_validator

from orchestrator.errors import unknown
from orchestrator.search.base import AUTO
from orchestrator.search.registry import METHODS
from orchestrator.space.mistakes import STRICT, InvalidDataError, Mistake, parse

DEFAULT_METHOD = "pairs"
FORMER = {"bayes": "pairs"}
"""Methods of earlier versions, and their replacements."""


class Search(BaseModel):
    """The searcher of a sweep. ``settings`` are keyword arguments of ``METHODS[method]``."""

    model_config = STRICT

    method: str
    settings: dict[str, Any]

    @model_validator(mode="before")
    @classmethod
    def _from_flat(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        own = dict(data)
        method = str(own.pop("method", DEFAULT_METHOD))
        if method in FORMER:
            why = f"existed only in earlier versions; write method: {FORMER[method]}, with its own settings"
            raise InvalidDataError(Mistake(("method",), f"{method!r} {why}"))
        if method not in METHODS:
            raise InvalidDataError(Mistake(("method",), str(unknown("search method", method, METHODS))))
        return {"method": method, "settings": asdict(parse(METHODS[method].Settings, own))}

    @model_serializer
    def _flat(self) -> dict[str, Any]:
        return {"method": self.method, **self.settings}

    def with_stack(self, runs: int) -> Search:
        """Return the search with up to ``runs`` seeds at a time, if that setting is ``auto``."""
        if self.settings["stack"] != AUTO:
            return self
        return self.model_copy(update={"settings": {**self.settings, "stack": runs}})


MOST_SIZES = 1_000
"""Maximum number of sizes: 1,000 sizes from 1 to a million are 1.4% apart."""


class SizeRange(BaseModel):
    """``{from: 8, to: 256, count: 16, multiple_of: 4}``: ``count`` sizes from ``from`` to ``to``, both included.

    Sizes are log-spaced and rounded to the nearest multiple. Duplicates are dropped, so there may be fewer sizes.
    """

    model_config = STRICT

    smallest: int = Field(alias="from", ge=1)
    largest: int = Field(alias="to", ge=1)
    count: int = Field(ge=2, le=MOST_SIZES)
    multiple_of: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _ends(self) -> SizeRange:
        if self.largest <= self.smallest:
            raise ValueError(f"'to' ({self.largest}) must be larger than 'from' ({self.smallest})")
        for end in (self.smallest, self.largest):
            if end % self.multiple_of:
                raise ValueError(f"the ends of a range must be multiples of {self.multiple_of}; {end} is not")
        return self

    def sizes(self) -> tuple[int, ...]:
        """Return the sizes, ascending and distinct."""
        steps = np.geomspace(self.smallest, self.largest, self.count) / self.multiple_of
        return tuple(sorted({round(float(step)) * self.multiple_of for step in steps}))
