"""Probes on finished runs, either on the worker when a run ends or later on a sweep's stored runs."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from orchestrator.home.run_files import (
    ARRAYS,
    DAMAGED_ARRAYS,
    WEIGHTS,
    ProbeResult,
    is_due,
    open_arrays,
    write_result,
)
from orchestrator.home.sweeps import RunRecord
from orchestrator.space.spec import SweepSpec
from orchestrator.system.environment import scratch
from orchestrator.system.files import is_file
from orchestrator.system.machine_errors import is_damage
from trainables.base import Family, RunConfig, Status
from trainables.probes.base import Probe

Arrays = Mapping[str, NDArray[Any]]


def run_probe(
    probe: Probe, family: Family, config: RunConfig, arrays: Arrays, weights: Arrays, cache: Path
) -> tuple[ProbeResult, Arrays]:
    """Return a probe's result on a finished run, and its arrays. An exception in the probe only fails the result.

    Args:
        arrays: Arrays of the run, empty if it has none.
        weights: Weights of the run, empty if it has none.
        cache: Directory of training data on this node.
    """
    numbers: dict[str, float] = {}
    made: Arrays = {}
    error = _lacking(probe, arrays, weights)
    if not error:
        try:
            model = family.load(config, weights) if probe.needs_model else None
            data = family.data(config, cache) if probe.needs_data else None
            probed = probe.run(family, config, model, arrays, data)
            numbers, made = {name: float(value) for name, value in probed.numbers.items()}, probed.arrays
        except Exception:  # noqa: BLE001 - a probe may raise anything; the result has the error
            error = traceback.format_exc()
    return ProbeResult(probe.name, probe.version, numbers, error), made


def probe_stored_run(probe: Probe, family: Family, config: RunConfig, directory: Path, cache: Path) -> ProbeResult:
    """Run a probe on a stored run and add the result to the run's directory."""
    arrays, weights = dict[str, NDArray[Any]](), dict[str, NDArray[Any]]()
    try:
        if is_file(directory / ARRAYS):
            with open_arrays(directory / ARRAYS) as stored:
                arrays = {name: stored[name] for name in stored.files}
        if probe.needs_model and is_file(directory / WEIGHTS):
            weights = load_file(directory / WEIGHTS)
    except (*DAMAGED_ARRAYS, SafetensorError) as error:
        if not is_damage(error):
            raise
        result = ProbeResult(probe.name, probe.version, error=f"its files are damaged: {type(error).__name__}: {error}")
        write_result(directory, result, {})
        return result
    result, made = run_probe(probe, family, config, arrays, weights, cache)
    write_result(directory, result, made)
    return result


@dataclass
class Probings:
    """Results of a probe over the runs of a sweep: counts by kind, and all errors with the run's key."""

    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    @property
    def words(self) -> str:
        """Counts as text, such as ``3 probed, 1 already done``."""
        return ", ".join(f"{count} {word}" for word, count in self.counts.items()) or "no runs yet"


def probe_runs(probe: Probe, spec: SweepSpec, runs: Iterable[RunRecord], *, again: bool = False) -> Probings:
    """Run a probe on the finished runs of a sweep that lack its result or, with ``again``, on all finished runs."""
    # Not the directory in the specification, which somebody else may have written.
    family = spec.make_family()
    cache = scratch(None)
    probings = Probings()
    for run in runs:
        if run.outcome.status is not Status.FINISHED:
            probings.counts["not finished"] += 1
        elif not again and not is_due(probe, run.directory):
            probings.counts["already done"] += 1
        else:
            result = probe_stored_run(probe, family, run.config, run.directory, cache)
            probings.counts["failed" if result.error else "probed"] += 1
            probings.errors += [f"{run.key}: {result.reason}"] if result.error else []
    return probings


def _lacking(probe: Probe, arrays: Arrays, weights: Arrays) -> str:
    """Return a message with what a run lacks for a probe, an array or the model, or "" if it lacks nothing."""
    if missing := sorted(set(probe.needs_arrays) - arrays.keys()):
        available = f"its family keeps {', '.join(sorted(arrays))}" if arrays else "its family keeps no arrays"
        return f"the probe {probe.name!r} needs the array {missing[0]!r} of a run; {available}"
    if probe.needs_model and not weights:
        return f"the probe {probe.name!r} needs the model, but this run left no weights"
    return ""
