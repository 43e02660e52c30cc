"""Runs probes on a run that finished: on its worker as it ends, or later on what is kept of it."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from orchestrator.home.run_files import ARRAYS, WEIGHTS, ProbeResult, Storage, write_result
from trainables.base import Family, RunConfig
from trainables.probes.base import Probe, Probed

Arrays = Mapping[str, NDArray[Any]]


class LackingError(ValueError):
    """A run lacks what a probe needs."""


def run_probe(
    probe: Probe, family: Family, config: RunConfig, arrays: Arrays, weights: Arrays, cache: Path
) -> tuple[ProbeResult, Arrays]:
    """A probe's result on a finished run, with its arrays. An exception of the probe is the result's error: a mistake
    in a probe never costs the run.

    ``arrays`` and ``weights`` are the run's, empty where it left none; ``cache`` is the node's directory of training
    data.
    """
    found, error = Probed(), ""
    try:
        found = _found(probe, family, config, arrays, weights, cache)
    except LackingError as lacking:
        error = str(lacking)
    except Exception:  # noqa: BLE001 - a probe is anybody's code; its error is written down and shown
        error = traceback.format_exc()
    numbers = {name: float(value) for name, value in found.numbers.items()}
    return ProbeResult(probe.name, probe.version, numbers, error), found.arrays


def probe_kept_run(
    probe: Probe, family: Family, config: RunConfig, runs: Storage, key: str, cache: Path
) -> ProbeResult:
    """Run a probe on a run that is kept, and keep its result there."""
    directory, arrays, weights = runs.get(key), dict[str, NDArray[Any]](), dict[str, NDArray[Any]]()
    if (directory / ARRAYS).is_file():
        with np.load(directory / ARRAYS, allow_pickle=False) as kept:
            arrays = {name: kept[name] for name in kept.files}
    if probe.needs_model and (directory / WEIGHTS).is_file():
        weights = load_file(directory / WEIGHTS)
    result, found = run_probe(probe, family, config, arrays, weights, cache)
    write_result(runs, key, result, found)
    return result


def _found(probe: Probe, family: Family, config: RunConfig, arrays: Arrays, weights: Arrays, cache: Path) -> Probed:
    if missing := sorted(set(probe.needs_arrays) - arrays.keys()):
        kept = f"its family keeps {', '.join(sorted(arrays))}" if arrays else "its family keeps none"
        raise LackingError(f"the probe {probe.name!r} needs the array {missing[0]!r} of a run; {kept}")
    if probe.needs_model and not weights:
        raise LackingError(f"the probe {probe.name!r} needs the model, and this run left no weights")
    model = family.load(config, weights) if probe.needs_model else None
    data = family.data(config, cache) if probe.needs_data else None
    found = probe.run(family, config, model, arrays, data)
    if not isinstance(found, Probed):
        raise TypeError(f"the probe {probe.name!r} gave {type(found).__name__}, not Probed")
    return found
