"""Trial of Ray Tune: one stack in training, with one result per evaluation."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from traceback import format_exc
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

import ray
from ray import cloudpickle, tune
from ray._raylet import setproctitle  # type: ignore[attr-defined] # its stub lacks it

from orchestrator.engine.messages import StackJob, StackReport
from orchestrator.engine.ray.depot import RayDepot
from orchestrator.engine.ray.preemption import OwnNode
from orchestrator.system.errors import exception_line
from orchestrator.system.machine_errors import trouble_words
from trainables.base import SettingsError
from trainables.contract.finder import serve
from trainables.contract.user_code import offer
from trainables.families import load_family

if TYPE_CHECKING:
    from orchestrator.engine.shipping import Shipment
    from orchestrator.engine.worker import StackWorker

T = TypeVar("T")

FAMILY, CODE, DIRECTORY, JOB = "family", "code", "directory", "job"
"""Keys of the configuration of a trial: the name of the family, the folders of the user's modules, the sweep's absolute
directory, and the sealed job."""
REPORT = "report"
"""Key of the stack's report in a result."""
TITLE = "ray::StackTrial"
"""Start of a training process's title, as Ray formats it. The dashboard and ``top`` show the whole title."""


class Sealed(Generic[T]):
    """A value that Ray carries as bytes. A process opens it only after it has imported the family of its sweep.

    If Ray itself could not import a class of the family, it would report a failure of the stack.
    """

    def __init__(self, value: T | None = None, packed: bytes = b"") -> None:
        self._value = value
        self._packed = packed

    def __reduce__(self) -> tuple[Any, ...]:
        return Sealed, (None, self._packed or cloudpickle.dumps(self._value))

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Self:
        """Return the same object, because Tune would keep a copy for every trial."""
        return self

    def open(self) -> T:
        if self._value is None:
            self._value = cloudpickle.loads(self._packed)
            self._packed = b""
        return cast(T, self._value)


class StackTrial(tune.Trainable):
    """Trains a stack, then the next one in the same process, so that a slot starts and imports only once. The next one
    may be of another sweep. The worker finds its checkpoints by the stack's id, for both retries and resumed sweeps."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """Return the resources of a trial. Each job has its own, because a campaign enlarges the share of a GPU after
        a run did not fit."""
        resources = config[JOB].open().resources
        return tune.PlacementGroupFactory([{"CPU": resources.cpu_per_stack, "GPU": resources.gpus}])

    def setup(self, config: dict[str, Any], **shared: Any) -> None:
        """Begin with a job. ``shared`` has what is equal for all jobs: the depot, or None, and the shipment."""
        if not ray.get_runtime_context().get_accelerator_ids().get("GPU"):
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Before CUDA starts, because Ray does not hide GPUs.
        self._worker: StackWorker | None = None
        self._is_confirmed = False
        """True if the driver has taken in the last report and ends the trial as usual."""
        self._shipment: Shipment = shared["shipment"]
        self._has_shipment = False
        self._depot = shared["depot"]
        self._node = OwnNode()
        self._begin(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        self._begin(new_config)
        return True

    def _begin(self, config: dict[str, Any]) -> None:
        """Open the job of a trial, or note why this process cannot."""
        self._directory: str = config[DIRECTORY]
        self._job: StackJob | None = None
        self._unusable = ""
        try:
            if not self._has_shipment:
                offer([str(folder) for folder in self._shipment.unpack()])
                self._has_shipment = True
            if not self._shipment.folders:
                serve(dict(config[CODE]))
            load_family(config[FAMILY])  # Its error is better than that of unpickling the family's settings.
            self._job = config[JOB].open()
        except Exception as error:  # noqa: BLE001 - the family's module is foreign code and may raise anything
            why = f"{error.key}: {error}" if isinstance(error, SettingsError) else exception_line(format_exc())
            self._unusable = f"the process for training on {platform.node()} cannot use the sweep: {why}"

    def step(self) -> dict[str, Any]:
        self._is_confirmed = False
        job = self._job
        if job is None:
            return {REPORT: StackReport(broken=self._unusable), "done": True}
        runs = ", ".join(f"{run.label} seed {run.seed}" for run in job.runs)
        setproctitle(f"{TITLE} {job}: {runs}")  # At each step, because Ray sets its own title at each call.
        if self._worker is None:
            from orchestrator.engine.worker import StackWorker  # Imports torch, which the driver does not need.

            depot = None if self._depot is None else RayDepot(self._depot, self._directory)
            self._worker = StackWorker(job, depot)
        if farewell := self._node.farewell():
            self._worker.leave(farewell)  # Raises, so that Tune does not use this process again.
        report = self._worker.advance()
        return {REPORT: report, "done": self._worker.done}

    def confirm(self) -> None:
        """Note that the driver has taken in the last report, before Tune ends the trial."""
        self._is_confirmed = True

    def cleanup(self) -> None:
        """Close the worker when the trial ends or is stopped. Unless its last report was confirmed, save nothing: after
        an exception in the driver, Tune ends all trials, and their last reports may be lost."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        if not self._is_confirmed:
            worker.end_learner()
            return
        try:
            worker.close()
        except Exception as error:
            if not trouble_words(error, "this machine"):  # Otherwise the next stack meets and reports the full disk.
                raise
