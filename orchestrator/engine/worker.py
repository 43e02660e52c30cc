"""Trains one stack and leaves what it finished on disk. Runs in a Ray actor, or in the driver for debugging."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

from orchestrator.engine.files import Home, SweepFiles, whole_directory, write_whole
from orchestrator.engine.remains import CHECKPOINT, MEMBERS, OUTCOME, WEIGHTS, note_progress, read_outcome
from orchestrator.records import ARRAYS, PICTURE
from orchestrator.report.similarity import similarity_figure
from orchestrator.report.style import save
from orchestrator.search.base import Request
from orchestrator.spec import Resources, SweepSpec
from trainables.base import Evaluation, Learner, Outcome, Report


@dataclass(frozen=True)
class StackJob:
    """Everything a worker needs, as plain values that travel between machines."""

    space: dict[str, Any]
    requests: tuple[Request, ...]
    home: str
    sweep_id: str
    stack_id: str

    def to_config(self) -> dict[str, Any]:
        """The job as a trial's config."""
        return asdict(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> StackJob:
        """The inverse of :meth:`to_config`."""
        return cls(**{**config, "requests": tuple(Request(**request) for request in config["requests"])})


@dataclass(frozen=True)
class RunReport:
    """What the driver hears about one run of a stack."""

    key: str
    evaluation: Evaluation | None
    outcome: Outcome | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "key": self.key,
            "evaluation": None if self.evaluation is None else asdict(self.evaluation),
            "outcome": None if self.outcome is None else self.outcome.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunReport:
        """The inverse of :meth:`to_json`."""
        evaluation, outcome = data["evaluation"], data["outcome"]
        return cls(
            data["key"],
            None if evaluation is None else Evaluation(**evaluation),
            None if outcome is None else Outcome.from_json(outcome),
        )


class StackWorker:
    """A stack in training, continued from its checkpoint where there is one.

    Where every run's outcome is on disk already (an earlier worker died before it could report), nothing is trained.
    """

    def __init__(self, job: StackJob) -> None:
        spec = SweepSpec.model_validate(job.space)
        home = Home(Path(job.home))
        self._files: SweepFiles = home.sweep(job.sweep_id)
        self._directory = self._files.stack(job.stack_id)
        self._checkpoint_every_s = spec.resources.checkpoint_every_s
        family = spec.make_family()
        self._configs = [spec.config(request) for request in job.requests]
        self._keys = [family.key(config) for config in self._configs]
        self._saved_at = time.monotonic()
        self._learner: Learner | None = None
        self.done = False
        if all(self._has_ended(key) for key in self._keys):
            return
        prepare_device(spec.resources)
        self._learner = family.learner(self._configs, device=spec.resources.device, cache=home.data)
        members = [asdict(request) for request in job.requests]
        write_whole(self._directory / MEMBERS, json.dumps(members))
        if (self._directory / CHECKPOINT).is_dir():
            self._learner.restore(self._directory / CHECKPOINT)

    def advance(self) -> list[RunReport]:
        """Train to the next evaluation; sets ``done`` when every run has ended. What ended is on disk before it is
        reported."""
        if self._learner is None:
            return self._answer_from_disk()
        reports = self._learner.advance()
        note_progress(
            self._directory,
            {self._keys[report.index]: report.evaluation for report in reports if report.evaluation is not None},
        )
        for report in reports:
            if report.outcome is not None:
                self._leave(report, report.outcome)
        self.done = all(report.outcome is not None for report in reports)
        if self.done:
            shutil.rmtree(self._directory, ignore_errors=True)
        elif time.monotonic() - self._saved_at >= self._checkpoint_every_s:
            self.save()
        return [RunReport(self._keys[report.index], report.evaluation, report.outcome) for report in reports]

    def save(self) -> None:
        """Write a checkpoint now."""
        if self._learner is None:
            return
        self._learner.save(self._directory / CHECKPOINT)
        self._saved_at = time.monotonic()

    def _has_ended(self, key: str) -> bool:
        return (self._files.run(key) / OUTCOME).is_file()

    def _answer_from_disk(self) -> list[RunReport]:
        self.done = True
        shutil.rmtree(self._directory, ignore_errors=True)
        return [RunReport(key, None, read_outcome(self._files.run(key))) for key in self._keys]

    def _leave(self, report: Report, outcome: Outcome) -> None:
        """Put a finished run's files where they belong, whole."""
        config = self._configs[report.index]
        with whole_directory(self._files.run(self._keys[report.index])) as directory:
            if report.arrays:
                arrays: dict[str, Any] = dict(report.arrays)
                np.savez(directory / ARRAYS, **arrays)
                title = f"{config.mix}, size {config.size}, seed {config.seed}"
                save(similarity_figure(report.arrays["similarity"], title), directory / PICTURE)
            if report.weights:
                save_file(dict(report.weights), directory / WEIGHTS)
            (directory / OUTCOME).write_text(json.dumps(outcome.to_json()), encoding="utf-8")


def prepare_device(resources: Resources) -> None:
    """Threads on a CPU; on a GPU, no more of its memory than this stack's share."""
    torch.set_num_threads(resources.threads_per_stack)
    if resources.device == "cuda" and torch.cuda.is_available():  # A family may use a GPU without torch.
        torch.cuda.set_per_process_memory_fraction(min(1.0, resources.gpu_per_stack))
