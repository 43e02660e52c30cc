"""Choice of a sweep's runs: ``search:`` of a search space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, model_serializer, model_validator

from orchestrator.errors import unknown
from orchestrator.search.base import AUTO
from orchestrator.search.registry import METHODS, settings_type
from orchestrator.space.validation import STRICT, InvalidDataError, Mistake, parse

DEFAULT_METHOD = "bayes"


class Search(BaseModel):
    """Which searcher chooses the runs: ``method`` (:data:`DEFAULT_METHOD` where it is left out), and beside it that
    method's own settings.

    ``settings`` holds all of them, defaults included: keyword arguments of ``orchestrator.search.make_searcher``.
    """

    model_config = STRICT | {"frozen": True}

    method: str
    settings: dict[str, Any]

    @model_validator(mode="before")
    @classmethod
    def _from_flat(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        method = data.get("method", DEFAULT_METHOD)
        if not isinstance(method, str):
            raise InvalidDataError(
                [Mistake(("method",), f"must be text; got {method!r}; allowed: {', '.join(METHODS)}")]
            )
        if method not in METHODS:
            raise InvalidDataError([Mistake(("method",), str(unknown("search method", method, METHODS)))])
        own = {key: value for key, value in data.items() if key != "method"}
        return {"method": method, "settings": asdict(parse(settings_type(method), own))}

    @model_serializer
    def _flat(self) -> dict[str, Any]:
        return {"method": self.method, **self.settings}

    def with_stack(self, runs: int) -> Search:
        """The same with up to ``runs`` seeds asked for together, where that is ``auto``."""
        if self.settings["stack"] != AUTO:
            return self
        return self.model_copy(update={"settings": {**self.settings, "stack": runs}})
