"""What a worker leaves of a run that ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from orchestrator.store.records import ARRAYS
from orchestrator.store.remains import OUTCOME, WEIGHTS, write_origin
from orchestrator.store.storage import Storage
from trainables.base import Outcome


def leave_run(
    runs: Storage,
    key: str,
    outcome: Outcome,
    weights: Mapping[str, NDArray[Any]],
    arrays: Mapping[str, NDArray[Any]],
    sweep_id: str,
) -> None:
    """Put a finished run into the storage under its key, whole and at once; where one is there, that one holds.
    ``sweep_id`` is the sweep it was trained for."""
    with runs.put(key) as directory:
        if arrays:
            given: dict[str, Any] = dict(arrays)
            np.savez(directory / ARRAYS, **given)
        if weights:
            save_file(dict(weights), directory / WEIGHTS)
        write_origin(directory, sweep_id)
        (directory / OUTCOME).write_text(json.dumps(outcome.to_json()), encoding="utf-8")
