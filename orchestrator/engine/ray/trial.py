"""A trial of Ray Tune: one stack in training, one result per evaluation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from ray._raylet import setproctitle  # type: ignore[attr-defined] # its stub lacks it
from ray.util.metrics import Gauge

from orchestrator.engine.ray.metrics import GPU_MEMORY, gauge
from orchestrator.engine.ray.reach import Way
from orchestrator.engine.reports import StackJob, StackReport
from orchestrator.store.trouble import LastingTroubleError

if TYPE_CHECKING:
    from orchestrator.engine.worker import StackWorker

REPORT = "report"
"""Key of a result that holds what the stack has to say (``StackReport.to_json``)."""
TITLE = "ray::StackTrial"
"""How the title of a process begins that trains stacks, as Ray has it; the dashboard and ``top`` show all of it."""


def stack_name(job: Mapping[str, Any]) -> str:
    """What a stack is called where Ray shows it: ``add+prod_add size 16 x6 1f2e3d4c``."""
    requests = job["requests"]
    mixes = "_".join(dict.fromkeys(request["mix"] for request in requests))
    return f"{mixes} size {requests[0]['size']} x{len(requests)} {job['stack_id'].rpartition('-')[2]}"


class StackTrial(tune.Trainable):
    """Reused from trial to trial, so that a slot pays for its process and its imports once.

    Checkpoints are the worker's own, found by the stack's id: they serve retries, lost nodes and resumed sweeps alike.
    """

    def setup(self, config: dict[str, Any], **shared: Any) -> None:
        """``shared`` holds the sweep's ``space``, of which every trial would otherwise carry a copy around, and
        ``reach``, by which this process finds its way to the driver's storages."""
        hide_unasked_gpus()
        self._space: dict[str, Any] = shared["space"]
        self._way = Way(shared["reach"])
        self._worker: StackWorker | None = None
        self._gpu_memory: Gauge | None = None
        self._begin(config)

    def __repr__(self) -> str:
        """What the dashboard calls this process. Ray asks once, as it begins; what it trains by now is in its title."""
        return f"{self._job.sweep_id}, first {self._name}"

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._begin(new_config)
        return True

    def step(self) -> dict[str, Any]:
        setproctitle(f"{TITLE} {self._name}: {self._runs}")
        said: tuple[str, ...] = ()
        if self._worker is None:
            from orchestrator.engine.worker import StackWorker  # Imports torch: the driver, too, reads this file.

            try:
                job, said = self._way.job(self._job)
            except LastingTroubleError as refused:
                return {REPORT: StackReport(trouble=str(refused), lasting=True).to_json(), "done": True}
            self._worker = StackWorker(job)
        report = self._worker.advance()
        self._export()
        return {REPORT: replace(report, said=(*said, *report.said)).to_json(), "done": self._worker.done}

    def cleanup(self) -> None:
        """Called when the trial is stopped, also in the middle: keep what was trained."""
        if self._worker is not None and not self._worker.done:
            self._worker.save()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Ray keeps none; see the class."""

    def load_checkpoint(self, checkpoint: dict[str, Any] | None) -> None:
        """Ray keeps none; see the class."""

    def _begin(self, config: dict[str, Any]) -> None:
        self._job = StackJob.from_config(config["job"] | {"space": self._space})
        self._name = stack_name(config["job"])
        self._runs = ", ".join(f"{each.mix} seed {each.seed}" for each in self._job.requests)
        self._worker = None

    def _export(self) -> None:
        """The memory a GPU holds for this worker, as a metric that Ray's agents collect where there are any."""
        import torch

        if held := torch.cuda.max_memory_reserved():  # 0 where nothing was put on a GPU.
            self._gpu_memory = self._gpu_memory or gauge(GPU_MEMORY)
            self._gpu_memory.set(held, {"sweep": self._job.sweep_id})


def trainable(shared: Mapping[str, Any], needs: Mapping[str, float]) -> type[StackTrial]:
    """:class:`StackTrial` with what all trials of a sweep share and what each needs, by its own name: Tune's wrappers
    leave theirs (``with_resources.<locals>.ResourceTrainable``), which the dashboard would show."""
    made: type[StackTrial] = tune.with_resources(tune.with_parameters(StackTrial, **shared), dict(needs))
    made.__qualname__ = StackTrial.__qualname__
    return made


def hide_unasked_gpus() -> None:
    """Without a GPU of its own a trial would see all of them: Ray leaves the variable alone then, unless every node was
    started with a setting of its own. Called before anything touches CUDA, which reads the variable once."""
    if not ray.get_runtime_context().get_accelerator_ids().get("GPU"):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
