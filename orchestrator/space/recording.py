"""Optional parts of the record of a sweep: ``record:`` of a search space."""

from __future__ import annotations

from pydantic import BaseModel

from orchestrator.system.strict import STRICT


class Recording(BaseModel):
    """Parts of the record that take much space, so a search space must ask for them. They do not change results."""

    model_config = STRICT

    weights: bool = False
    """Copy the weights of every run into the record (``weights.safetensors``). Python's ``sweep.weights`` and
    ``sweep.model`` do not need this: they read the weights from the home."""
