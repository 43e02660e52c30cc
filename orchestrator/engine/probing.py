"""Runs probes on a run that finished: on its worker right after its end, or later from the weights it left."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from orchestrator.store.probed import ProbeResult, write_result
from orchestrator.store.records import ARRAYS
from orchestrator.store.remains import WEIGHTS
from orchestrator.store.storage import Storage
from trainables.base import Family, RunConfig
from trainables.probes.base import Probe, Probed


class LackingError(ValueError):
    """A run did not leave what a probe needs."""


def run_probe(probe: Probe, family: Family, config: RunConfig, runs: Storage, key: str, cache: Path) -> ProbeResult:
    """Look at the finished run that ``runs`` keeps under this key, and leave there what was found; whatever the probe
    raises is left as its error, so that a mistake in it never costs the run.

    ``cache`` is the node's directory of training data.
    """
    found, error = Probed(), ""
    try:
        found = _found(probe, family, config, runs.get(key), cache)
    except LackingError as lacking:
        error = str(lacking)
    except Exception:  # noqa: BLE001 - a probe is anybody's code; its error is written down and shown
        error = traceback.format_exc()
    numbers = {name: float(value) for name, value in found.numbers.items()}
    result = ProbeResult(probe.name, probe.version, numbers, error)
    write_result(runs, key, result, found.arrays)
    return result


def _found(probe: Probe, family: Family, config: RunConfig, directory: Path, cache: Path) -> Probed:
    arrays = _arrays(directory)
    if missing := sorted(set(probe.needs_arrays) - arrays.keys()):
        kept = f"its family keeps {', '.join(sorted(arrays))}" if arrays else "its family keeps none"
        raise LackingError(f"the probe {probe.name!r} needs the array {missing[0]!r} of a run; {kept}")
    model = family.load(config, _weights(probe, directory)) if probe.needs_model else None
    data = family.data(config, cache) if probe.needs_data else None
    found = probe.run(family, config, model, arrays, data)
    if not isinstance(found, Probed):
        raise TypeError(f"the probe {probe.name!r} gave {type(found).__name__}, not Probed")
    return found


def _arrays(directory: Path) -> dict[str, NDArray[Any]]:
    """What the family kept of the run."""
    if not (directory / ARRAYS).is_file():
        return {}
    with np.load(directory / ARRAYS, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _weights(probe: Probe, directory: Path) -> Mapping[str, NDArray[Any]]:
    if not (directory / WEIGHTS).is_file():
        raise LackingError(f"the probe {probe.name!r} needs the model, and this run left no weights")
    weights: Mapping[str, NDArray[Any]] = load_file(directory / WEIGHTS)
    return weights
