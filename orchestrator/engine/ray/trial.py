"""A trial of Ray Tune: one stack in training, one result per evaluation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from ray._raylet import setproctitle  # type: ignore[attr-defined] # its stub lacks it

from orchestrator.engine.base import StackJob
from orchestrator.home.machine_errors import trouble_in
from orchestrator.space.spec import SweepSpec

if TYPE_CHECKING:
    from orchestrator.engine.worker import StackWorker

REPORT = "report"
"""Key of a result that holds the stack's report."""


TITLE = "ray::StackTrial"
"""Start of the title of a process that trains a stack, as Ray has it. The dashboard and ``top`` show the whole."""


class StackTrial(tune.Trainable):
    """A trial, reused for the next one, so that a slot pays for its process and its imports once.

    Checkpoints are the worker's own, found by the stack's id, for both retries and resumed sweeps.
    """

    def setup(self, config: dict[str, Any], **shared: Any) -> None:
        """Begin with a job and the sweep's ``space``, which is ``shared`` so that not every trial has a copy."""
        hide_unasked_gpus()
        self._spec = SweepSpec.model_validate(shared["space"])
        self._worker: StackWorker | None = None
        self._job: StackJob = config["job"]

    def __repr__(self) -> str:
        """Return the name of this process in Ray's dashboard, which asks once, when it begins."""
        return f"{self._job.sweep_id}, first {self._job.name}"

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        self._job = new_config["job"]
        return True

    def step(self) -> dict[str, Any]:
        runs = ", ".join(f"{request.mix} seed {request.seed}" for request in self._job.requests)
        setproctitle(f"{TITLE} {self._job.name}: {runs}")
        if self._worker is None:
            from orchestrator.engine.worker import StackWorker  # Imports torch, which the driver does not need.

            self._worker = StackWorker(self._spec, self._job)
        report = self._worker.advance()
        return {REPORT: report, "done": self._worker.done}

    def cleanup(self) -> None:
        """Close the worker when the trial ends or is stopped. Tune calls this once the driver has taken the last
        report."""
        worker, self._worker = self._worker, None
        if worker is not None:
            try:
                worker.close()
            except Exception as error:
                if trouble_in(error) is None:  # Otherwise the next stack meets and reports the full disk.
                    raise


def trainable(shared: Mapping[str, Any], needs: Mapping[str, float]) -> type[StackTrial]:
    """Return :class:`StackTrial` with the parameters that all trials share and the resources that each needs. The
    class keeps its name instead of that of Tune's wrappers."""
    made: type[StackTrial] = tune.with_resources(tune.with_parameters(StackTrial, **shared), dict(needs))
    made.__qualname__ = StackTrial.__qualname__
    return made


def hide_unasked_gpus() -> None:
    """Hide all GPUs from a trial that asked for none, since Ray does not. Called before CUDA starts, which reads the
    variable once."""
    if not ray.get_runtime_context().get_accelerator_ids().get("GPU"):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
