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
"""Beginning of the titles of processes that train stacks, as Ray has it; the dashboard and ``top`` show all of it."""


class StackTrial(tune.Trainable):
    """Reused from trial to trial, so that a slot pays for its process and its imports once.

    Checkpoints are the worker's own, found by the stack's id: they serve retries and resumed sweeps alike.
    """

    def setup(self, config: dict[str, Any], **shared: Any) -> None:
        """``shared`` holds the sweep's ``space``: otherwise every trial would carry a copy of it."""
        hide_unasked_gpus()
        self._spec = SweepSpec.model_validate(shared["space"])
        self._worker: StackWorker | None = None
        self._job: StackJob = config["job"]

    def __repr__(self) -> str:
        """The dashboard's name of this process. Ray asks once, as it begins; its title says what it trains now."""
        return f"{self._job.sweep_id}, first {self._job.name}"

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        self._job = new_config["job"]
        return True

    def step(self) -> dict[str, Any]:
        runs = ", ".join(f"{each.mix} seed {each.seed}" for each in self._job.requests)
        setproctitle(f"{TITLE} {self._job.name}: {runs}")
        if self._worker is None:
            from orchestrator.engine.worker import StackWorker  # Imports torch: the driver, too, reads this file.

            self._worker = StackWorker(self._spec, self._job)
        report = self._worker.advance()
        return {REPORT: report, "done": self._worker.done}

    def cleanup(self) -> None:
        """Called between two evaluations, once the driver has taken the last report: the trial ended, or is stopped."""
        worker, self._worker = self._worker, None
        if worker is not None:
            try:
                worker.close()
            except Exception as error:
                if trouble_in(error) is None:  # Else the next stack meets the full disk as well, and says so.
                    raise


def trainable(shared: Mapping[str, Any], needs: Mapping[str, float]) -> type[StackTrial]:
    """:class:`StackTrial` with what all trials of a sweep share and what each needs, by its own name: Tune's wrappers
    leave theirs (``with_resources.<locals>.ResourceTrainable``), which the dashboard would show."""
    made: type[StackTrial] = tune.with_resources(tune.with_parameters(StackTrial, **shared), dict(needs))
    made.__qualname__ = StackTrial.__qualname__
    return made


def hide_unasked_gpus() -> None:
    """A trial without a GPU of its own would see all of them: Ray leaves the variable alone then. Called before CUDA is
    touched, which reads the variable once."""
    if not ray.get_runtime_context().get_accelerator_ids().get("GPU"):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
