"""Runs a probe on a finished run, given the run's arrays and weights in memory."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from orchestrator.home.run_files import ProbeResult
from orchestrator.system.errors import shortened_error
from trainables.base import Family, RunConfig
from trainables.probes.base import Probe

Arrays = Mapping[str, NDArray[Any]]


def run_probe(
    probe: Probe, family: Family, config: RunConfig, arrays: Arrays, weights: Arrays, cache: Path
) -> tuple[ProbeResult, Arrays]:
    """Run a probe on a finished run. An exception in the probe is not raised but becomes the result's error.

    Args:
        probe: The probe.
        family: Family of the run.
        config: Configuration of the run.
        arrays: Arrays of the run, empty if it has none.
        weights: Weights of the run, empty if it has none.
        cache: Directory of training data on this machine.

    Returns:
        The result, and the arrays that the probe made.
    """
    numbers: dict[str, float] = {}
    made: Arrays = {}
    error = _missing_text(probe, arrays, weights)
    if not error:
        try:
            model = family.load(config, weights) if probe.needs_model else None
            data = family.data(config, cache) if probe.needs_data else None
            probed = probe.run(family, config, model, arrays, data)
            numbers = {name: float(value) for name, value in probed.numbers.items()}
            made = probed.arrays
        except Exception:  # noqa: BLE001 - a probe may raise anything; the result has the error
            error = shortened_error(traceback.format_exc())
    return ProbeResult(probe.name, probe.version, numbers, error, probe.source), made


def _missing_text(probe: Probe, arrays: Arrays, weights: Arrays) -> str:
    """Return a message with an array or the model that a probe needs and the run lacks. Return an empty string if
    nothing is missing."""
    if missing := sorted(set(probe.needs_arrays) - arrays.keys()):
        available = f"its family keeps {', '.join(sorted(arrays))}" if arrays else "its family keeps no arrays"
        return f"the probe {probe.name!r} needs the array {missing[0]!r}, which this run lacks; {available}"
    if probe.needs_model and not weights:
        return f"the probe {probe.name!r} needs the model, but this run left no weights"
    return ""
