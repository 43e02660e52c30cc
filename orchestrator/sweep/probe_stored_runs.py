"""Probes on the stored runs of a sweep."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from orchestrator.engine.probe_result import run_probe
from orchestrator.home.array_files import DAMAGED_ARRAYS, read_npz
from orchestrator.home.run_files import (
    ARRAYS,
    DAMAGED_WEIGHTS,
    ProbeResult,
    is_due,
    read_weights,
    write_result,
)
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.system.environment import scratch
from orchestrator.system.files import is_file
from orchestrator.system.machine_errors import is_damage
from trainables.base import Family, RunConfig, Status
from trainables.contract.unknown_files import end_watch
from trainables.probes.base import Probe

log = logging.getLogger(__name__)


def probe_stored_run(probe: Probe, family: Family, config: RunConfig, directory: Path, cache: Path) -> ProbeResult:
    """Run a probe on a stored run, add the result to the run's directory, and return it."""
    arrays: dict[str, NDArray[Any]] = {}
    weights: dict[str, NDArray[Any]] = {}
    try:
        if is_file(directory / ARRAYS):
            arrays = read_npz(directory / ARRAYS)
        if probe.needs_model:
            weights = read_weights(directory)
    except (*DAMAGED_ARRAYS, *DAMAGED_WEIGHTS) as error:
        if not is_damage(error):
            raise
        result = ProbeResult(probe.name, probe.version, error=f"its files are damaged: {type(error).__name__}: {error}")
        write_result(directory, result, {})
        return result
    result, made = run_probe(probe, family, config, arrays, weights, cache)
    write_result(directory, result, made)
    return result


@dataclass
class ProbeCounts:
    """Results of a probe on the runs of a sweep.

    Attributes:
        counts: Number of runs by kind of result, such as "probed".
        errors: All errors, with the keys of their runs.
    """

    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The counts as text, such as ``3 probed, 1 already done``."""
        return ", ".join(f"{count} {word}" for word, count in self.counts.items()) or "no runs yet"


def say_unknown_files(spec: SweepSpec, probes: Iterable[str]) -> None:
    """Warn of files that probes of a sweep, or its family, have run here and that do not count as their code."""
    if text := end_watch((spec.family, *probes)):
        log.warning(text)


def probe_runs(probe: Probe, spec: SweepSpec, runs: Iterable[Run], *, again: bool = False) -> ProbeCounts:
    """Run a probe on the finished runs of a sweep that lack its result. With ``again``, run it on all finished runs.

    A run is not probed if the family gives it another key: a probe would load its model with other settings.
    """
    family = spec.make_family()
    # Not the scratch directory in the specification, because another user may have written the specification.
    cache = scratch(None)
    results = ProbeCounts()
    for run in runs:
        if run.outcome.status is not Status.FINISHED:
            results.counts["not finished"] += 1
        elif family.key(run.config) != run.key:
            results.counts["with keys of other code"] += 1
        elif not again and not is_due(probe, run.directory):
            results.counts["already done"] += 1
        else:
            result = probe_stored_run(probe, family, run.config, run.directory, cache)
            results.counts["failed" if result.error else "probed"] += 1
            results.errors += [f"{run.key}: {result.reason}"] if result.error else []
    return results
