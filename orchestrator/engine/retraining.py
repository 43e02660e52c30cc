"""Trains one run of a sweep again, in this process and without a home, to compare the outcome with the stored one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from orchestrator.engine.device import prepare_device
from orchestrator.jobs.resources import Resources
from orchestrator.system import hardware
from orchestrator.system.environment import temporary_directory
from orchestrator.system.errors import UserError
from trainables.base import Family, Outcome, Report, RunConfig
from trainables.contract.report_validator import ReportValidator


def retrain(family: Family, run: RunConfig, resources: Resources) -> Outcome:
    """Train the earlier phases of a run's arm and then the run itself, each alone in its stack. Return its outcome.

    Exceptions of the family are not caught.

    Raises:
        UserError: if the run was trained on a GPU and this machine has none, or if it does not fit into memory.
    """
    if resources.device == "cuda" and not torch.cuda.is_available():
        raise UserError("these runs were trained on a GPU, and this machine has none: omit --retrain")
    _check_memory(family, run, resources.device)
    prepare_device(resources)
    weights: Mapping[str, NDArray[Any]] = {}
    with temporary_directory("retrain-") as cache:
        for phase in run.phases:
            report = _train(family, phase, resources.device, weights, cache)
            weights = report.weights
    assert report.outcome is not None, "training ends with an outcome"
    return report.outcome


def _check_memory(family: Family, run: RunConfig, device: str) -> None:
    """Raise :class:`UserError` for a run that is larger than the memory of this machine. Its size may be a stranger's
    choice."""
    here = hardware.detect()
    available_gb = here.gpu_memory_gb if device == "cuda" else here.memory_gb
    for phase in run.phases:
        needed_gb = type(family)(phase.settings).memory(phase.size) / 1e9
        if available_gb and needed_gb > available_gb:
            raise UserError(
                f"{run.label}, {family.size_axis} {phase.size}: training needs {needed_gb:.0f} GB of memory, and this "
                f"machine has {available_gb:.0f} GB: omit --retrain, or choose other runs with --seed"
            )


def _train(family: Family, config: RunConfig, device: str, donor: Mapping[str, NDArray[Any]], cache: Path) -> Report:
    """Train a phase from the weights of the previous phase. Return its last report."""
    learner = family.learner([config], device=device, cache=cache)
    if config.start is not None:
        learner.take_over({0: donor})
    validator = ReportValidator(family, [config])
    try:
        while True:
            [report] = validator.check(learner.advance())
            if report.outcome is not None:
                return report
    finally:
        learner.close()
