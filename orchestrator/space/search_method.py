"""``search:`` of a search space: the name of a searcher and its settings, such as those in search/pairs.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, model_serializer, model_validator

from orchestrator.search.registry import METHODS
from orchestrator.space.parsing import InvalidDataError, Mistake, parse
from orchestrator.system.did_you_mean import unknown
from orchestrator.system.strict import STRICT

DEFAULT_METHOD = "pairs"
"""Method of a search space that does not specify one."""
FORMER_METHODS = {"bayes": "pairs"}
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
        if method in FORMER_METHODS:
            why = f"existed only in earlier versions; write method: {FORMER_METHODS[method]}, with its own settings"
            raise InvalidDataError(Mistake(("method",), f"{method!r} {why}"))
        if method not in METHODS:
            raise InvalidDataError(Mistake(("method",), str(unknown("search method", method, METHODS))))
        return {"method": method, "settings": asdict(parse(METHODS[method].Settings, own))}

    @model_serializer
    def _flat(self) -> dict[str, Any]:
        return {"method": self.method, **self.settings}

    def with_stack(self, runs: int) -> Search:
        """Return the search with up to ``runs`` seeds at a time. A ``stack`` other than ``auto`` does not change."""
        if self.settings["stack"] != "auto":
            return self
        return self.model_copy(update={"settings": {**self.settings, "stack": runs}})
