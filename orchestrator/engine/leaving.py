"""The runs of a stack that ended: left where every sweep looks for them, and looked into."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from orchestrator.engine.probing import run_probe
from orchestrator.engine.reports import RunReport, StackJob
from orchestrator.space.spec import SweepSpec
from orchestrator.store.probed import is_due
from orchestrator.store.records import ARRAYS
from orchestrator.store.remains import OUTCOME, WEIGHTS, read_outcome, write_origin
from orchestrator.store.scratch import scratch
from orchestrator.store.storage import Storage, storage_at
from trainables.base import Family, Outcome, Report, RunConfig, Status
from trainables.probes.base import load_probe


class StackRuns:
    """The runs of a stack as its storage has them, by their places in the stack's job."""

    def __init__(self, job: StackJob, spec: SweepSpec, family: Family, configs: Sequence[RunConfig]) -> None:
        self.storage = storage_at(job.runs)
        self.keys = [family.key(config) for config in configs]
        self._sweep_id = job.sweep_id
        self._scratch = spec.resources.scratch
        self._probes = [load_probe(name) for name in spec.probes]
        self._family = family
        self._configs = configs

    @property
    def unfinished(self) -> list[int]:
        """The runs that have not ended."""
        return [place for place in range(len(self.keys)) if not self._has_ended(place)]

    def known(self) -> list[RunReport]:
        """What is on disk of runs that ended, of which the driver may not have heard, with what probes find in them."""
        ended = [
            (place, read_outcome(self.storage.get(key)))
            for place, key in enumerate(self.keys)
            if self._has_ended(place)
        ]
        for place, outcome in ended:
            self.look_inside(place, outcome)
        return [RunReport(self.keys[place], None, outcome) for place, outcome in ended]

    def leave(self, place: int, report: Report, outcome: Outcome, halvings: int) -> Outcome:
        """Put a finished run's files where they belong, whole; the outcome as it lies there. ``halvings`` is how often
        its stack was halved. Nobody looks inside a run that is not wanted to its end, so that of such a run nothing
        else is kept."""
        if halvings:
            outcome = replace(outcome, measures={**outcome.measures, "stack_halvings": float(halvings)})
        whole, key = self._configs[place].until is None, self.keys[place]
        weights, arrays = (report.weights, report.arrays) if whole else ({}, {})
        leave_run(self.storage, key, outcome, weights or {}, arrays or {}, self._sweep_id)
        # Another sweep may have trained the same run meanwhile; whoever was first is right, for both.
        return read_outcome(self.storage.get(key))

    def look_inside(self, place: int, outcome: Outcome) -> None:
        """Run the probes that a finished run lacks; its outcome is safe by then."""
        key = self.keys[place]
        for probe in self._probes if outcome.status is Status.FINISHED else ():
            if is_due(probe, self.storage.get(key)):
                run_probe(probe, self._family, self._configs[place], self.storage, key, scratch(self._scratch))

    def inherited(self, place: int) -> dict[str, NDArray[Any]] | None:
        """The weights of the run that this one goes on from; None where it begins anew."""
        start = self._configs[place].start
        return None if start is None else load_file(self.storage.get(self._family.key(start.donor)) / WEIGHTS)

    def _has_ended(self, place: int) -> bool:
        return (self.storage.get(self.keys[place]) / OUTCOME).is_file()


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
