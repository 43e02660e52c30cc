"""What the record of a sweep has on request: ``record:`` of a search space."""

from __future__ import annotations

from pydantic import BaseModel

from orchestrator.system.strict import STRICT


class Recording(BaseModel):
    """Parts of the record that take much space, so that a search space asks for them. They do not change results."""

    model_config = STRICT

    weights: bool = False
    """Copy the weights of every run into the record (``weights.safetensors``). Python's ``sweep.weights`` and
    ``sweep.model`` read them from the home, and do not need this."""
