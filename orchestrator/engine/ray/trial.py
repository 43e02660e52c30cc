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
from orchestrator.system.machine_errors import machine_error_text
from trainables.base import SettingsError
from trainables.contract.finder import serve
from trainables.contract.user_code import offer
from trainables.families import load_family

if TYPE_CHECKING:
    from orchestrator.engine.shipping import Shipment
    from orchestrator.engine.worker import StackWorker

T = TypeVar("T")

FAMILY = "family"
"""Key of the family's name in the configuration of a trial."""
CODE = "code"
"""Key of the folders of the user's modules in the configuration of a trial."""
DIRECTORY = "directory"
"""Key of the sweep's absolute directory in the configuration of a trial."""
JOB = "job"
"""Key of the job in the configuration of a trial."""
REPORT = "report"
"""Key of the stack's report in a result."""
TITLE = "ray::StackTrial"
"""Start of a training process's title, in Ray's format. The dashboard and ``top`` show the whole title."""


class PickledLater(Generic[T]):
    """A value that Ray transports as bytes. A process unpickles it only after it has imported the family of its sweep.

    If Ray itself unpickled the value and could not import a class of the family, it would report a failed stack.
    """

    def __init__(self, value: T | None = None, packed: bytes = b"") -> None:
        self._value = value
        self._packed = packed

    def __reduce__(self) -> tuple[Any, ...]:
        return PickledLater, (None, self._packed or cloudpickle.dumps(self._value))

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Self:
        """Return the same object, because Tune would otherwise keep a copy for every trial."""
        return self

    def open(self) -> T:
        """Return the value, and unpickle it first if necessary."""
        if self._value is None:
            self._value = cloudpickle.loads(self._packed)
            self._packed = b""
        return cast(T, self._value)


class StackTrial(tune.Trainable):
    """Trains a stack, then the next stack in the same process, so that a slot starts and imports only once.

    The next stack may belong to another sweep. The worker finds its checkpoints by the stack's id, for both retries and
    resumed sweeps.
    """

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """Return the resources of a trial. They differ between trials, because a campaign enlarges the share of a GPU
        after a run did not fit into it."""
        resources = config[JOB].open().resources
        return tune.PlacementGroupFactory([{"CPU": resources.cpu_per_stack, "GPU": resources.gpus}])

    def setup(self, config: dict[str, Any], **shared: Any) -> None:
        """Begin with a job. ``shared`` contains the arguments that all jobs share: the depot, or None, and the
        shipment."""
        if not ray.get_runtime_context().get_accelerator_ids().get("GPU"):
            # Ray does not hide GPUs from a process that has none. This must happen before CUDA starts.
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        self._worker: StackWorker | None = None
        self._is_confirmed = False
        """True if the driver has handled the last report and ends the trial as usual."""
        self._shipment: Shipment = shared["shipment"]
        self._has_shipment = False
        self._depot = shared["depot"]
        self._node = OwnNode()
        self._begin(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Begin with the next job. Return True, which tells Tune that this process can be used again."""
        self.cleanup()
        self._begin(new_config)
        return True

    def _begin(self, config: dict[str, Any]) -> None:
        """Open the job of a trial. If this process cannot open it, the next step reports the reason."""
        self._directory: str = config[DIRECTORY]
        self._job: StackJob | None = None
        self._unusable = ""
        try:
            if not self._has_shipment:
                offer([str(folder) for folder in self._shipment.unpack()])
                self._has_shipment = True
            if not self._shipment.folders:
                serve(dict(config[CODE]))
            load_family(config[FAMILY])  # First, because unpickling the family's settings would fail less clearly.
            self._job = config[JOB].open()
        except Exception as error:  # noqa: BLE001 - the family's module is foreign code and may raise anything
            reason = f"{error.key}: {error}" if isinstance(error, SettingsError) else exception_line(format_exc())
            self._unusable = f"the process for training on {platform.node()} cannot use the sweep: {reason}"

    def step(self) -> dict[str, Any]:
        """Train to the next report, and return it."""
        self._is_confirmed = False
        job = self._job
        if job is None:
            return {REPORT: StackReport(broken=self._unusable), "done": True}
        runs = ", ".join(f"{run.label} seed {run.seed}" for run in job.runs)
        setproctitle(f"{TITLE} {job}: {runs}")  # At each step, because Ray sets its own title at each call.
        if self._worker is None:
            # Imported here, because it imports torch, which the driver does not need.
            from orchestrator.engine.worker import StackWorker

            depot = None if self._depot is None else RayDepot(self._depot, self._directory)
            self._worker = StackWorker(job, depot)
        if farewell := self._node.farewell():
            self._worker.leave(farewell)  # Raises, so that Tune does not use this process again.
        report = self._worker.advance()
        return {REPORT: report, "done": self._worker.done}

    def confirm(self) -> None:
        """Note that the driver has handled the last report. The driver calls this before Tune ends the trial."""
        self._is_confirmed = True

    def cleanup(self) -> None:
        """Close the worker when the trial ends or is stopped."""
        worker = self._worker
        self._worker = None
        if worker is None:
            return
        if not self._is_confirmed:
            # After an exception in the driver, Tune ends all trials, and their last reports may be lost. A checkpoint
            # would contain more than the driver knows, so save none.
            worker.end_learner()
            return
        try:
            worker.close()
        except Exception as error:
            # If the disk is full, the next stack will report it.
            if not machine_error_text(error, "this machine"):
                raise
