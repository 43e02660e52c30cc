"""Trial of Ray Tune: one stack in training, with one result per evaluation."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from ray._raylet import setproctitle  # type: ignore[attr-defined] # its stub lacks it

from orchestrator.engine.base import StackJob, StackReport
from orchestrator.space.mistakes import InvalidDataError, parse
from orchestrator.space.spec import SweepSpec
from orchestrator.system.machine_errors import trouble_words

if TYPE_CHECKING:
    from orchestrator.engine.worker import StackWorker

REPORT = "report"
"""Key of the stack's report in a result."""
TITLE = "ray::StackTrial"
"""Start of a training process's title, as Ray formats it. The dashboard and ``top`` show the whole title."""


class StackTrial(tune.Trainable):
    """Trains a stack, then the next one in the same process, so that a slot starts and imports only once. The worker
    finds its checkpoints by the stack's id, for both retries and resumed sweeps."""

    def setup(self, config: dict[str, Any], **shared: Any) -> None:
        """Begin with a job. The sweep's ``space`` is in ``shared`` so that trials do not each have a copy."""
        if not ray.get_runtime_context().get_accelerator_ids().get("GPU"):
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Before CUDA starts, because Ray does not hide GPUs.
        self._worker: StackWorker | None = None
        self._spec: SweepSpec | None = None
        self._unusable = ""
        try:
            self._spec = parse(SweepSpec, shared["space"])
        except InvalidDataError as error:  # It was valid in the driver.
            self._unusable = f"the process for training on {platform.node()} cannot use the sweep: {error}"
        self._job: StackJob = config["job"]

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        self._job = new_config["job"]
        return True

    def step(self) -> dict[str, Any]:
        runs = ", ".join(f"{request.mix} seed {request.seed}" for request in self._job.requests)
        setproctitle(f"{TITLE} {self._job}: {runs}")
        if self._spec is None:
            return {REPORT: StackReport(broken=self._unusable), "done": True}
        if self._worker is None:
            from orchestrator.engine.worker import StackWorker  # Imports torch, which the driver does not need.

            self._worker = StackWorker(self._spec, self._job)
        report = self._worker.advance()
        return {REPORT: report, "done": self._worker.done}

    def cleanup(self) -> None:
        """Close the worker when the trial ends or is stopped. Tune calls this after the driver has the last report."""
        worker, self._worker = self._worker, None
        try:
            if worker is not None:
                worker.close()
        except Exception as error:
            if not trouble_words(error, "this machine"):  # Otherwise the next stack meets and reports the full disk.
                raise
