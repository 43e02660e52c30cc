"""Probes on runs that finished: on the worker as a run ends, or later on the runs that a sweep keeps."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from orchestrator.home.files import scratch
from orchestrator.home.run_files import ARRAYS, WEIGHTS, ProbeResult, Storage, is_due, write_result
from orchestrator.home.sweeps import RunRecord
from orchestrator.space.spec import SweepSpec
from trainables.base import Family, RunConfig, Status
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


@dataclass
class Probings:
    """Results of a probe over the runs of a sweep: counts by kind, and every error with its run's key."""

    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    @property
    def words(self) -> str:
        """``3 probed, 1 there already``."""
        return ", ".join(f"{count} {word}" for word, count in self.counts.items()) or "there is no run yet"


def probe_runs(probe: Probe, spec: SweepSpec, runs: Iterable[RunRecord], *, again: bool = False) -> Probings:
    """Run a probe on every finished run of a sweep that lacks it, with ``again`` on those that have it, too."""
    family, data = spec.make_family(), scratch(spec.resources.scratch)
    found = Probings()
    for run in runs:
        if run.outcome.status is not Status.FINISHED:
            found.counts["not finished"] += 1
        elif not again and not is_due(probe, run.directory):
            found.counts["there already"] += 1
        else:
            result = probe_kept_run(probe, family, run.config, run.runs, run.key, data)
            found.counts["failed" if result.error else "probed"] += 1
            found.errors += [f"{run.key}: {result.reason}"] if result.error else []
    return found


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
