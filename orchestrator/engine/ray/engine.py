"""Ray Tune as the engine. Each stack is a trial, which Tune places on an available machine.

The work decides what to train; :mod:`orchestrator.engine.ray.adapters` connects it to Tune.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import ray
from ray import tune
from ray.tune.execution import class_cache

from orchestrator.engine.engine import Engine
from orchestrator.engine.ray.adapters import SlotScheduler, StackCallback, StackSearcher, job_of
from orchestrator.engine.ray.cluster import Room, slots_on
from orchestrator.engine.ray.depot import begin_depot
from orchestrator.engine.ray.failures import machine_error_behind
from orchestrator.engine.ray.files import private_directory, token_file
from orchestrator.engine.ray.session import RaySession
from orchestrator.engine.ray.trial import StackTrial
from orchestrator.engine.shipping import NOTHING, Shipment
from orchestrator.engine.work import Work
from orchestrator.jobs.resources import Resources
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.hardware import cores
from orchestrator.system.text import counted

ANSWER_S = 240.0
"""Seconds to wait for a new process. An idle machine needs a few; two cores with ten busy processes needed 120."""


class RayEngine(Engine):
    """Trains stacks as trials of one Tuner. By default it starts a new Ray on this machine."""

    def __init__(self, session: RaySession | None = None, shipment: Shipment = NOTHING) -> None:
        """Make an engine.

        Args:
            session: The Ray to use, by default a new one on this machine.
            shipment: Code that the workers can import.
        """
        self._shipment = shipment
        self._session = session or RaySession()
        self._depot: Any = None
        """Handle of the actor that stores checkpoints from other machines. None without a cluster."""

    def slots(self, resources: Resources) -> int:
        return self._room.slots(resources)

    def describe(self, resources: Resources) -> str:
        if not self._room.has_room(resources):
            raise UserError(f"{_no_room_text(resources)}; lower these settings or add machines")
        address = self._session.address
        totals = ray.cluster_resources()
        where = f"Ray at {address}" if address else "Ray on this machine"
        nodes = counted(sum(node["Alive"] for node in ray.nodes()), "node")
        gpus = f", {totals['GPU']:g} GPUs" if totals.get("GPU") else ""
        slots = slots_on(ray.nodes(), resources)
        later = f"{_no_room_text(resources)}: the autoscaler will add machines"
        room = f"{counted(slots, 'stack')} at a time" if slots else later
        token = f"(enter the token from {token_file()})"
        dashboard = f"; dashboard: {self._session.dashboard_url} {token}" if self._session.dashboard_url else ""
        return f"{where}: {nodes}, {cores(totals.get('CPU', 0))}{gpus}, {room}{dashboard}"

    def __enter__(self) -> Self:
        self._session.begin()
        self._room = Room()
        return self

    def __exit__(self, *raised: object) -> None:
        self._session.release(well=raised[0] is None)

    def death(self) -> str:
        return "" if self._session.is_alive else "Ray died (its raylet or its GCS)"

    def execute(self, work: Work) -> None:
        # Not in the home, to which other users may be able to write: Tune follows links when it writes, and reads some
        # of its files with pickle.
        with private_directory() as storage:
            self._train(work, storage)

    def _train(self, work: Work, storage: Path) -> None:
        """Start Tune until the work is done. Tune keeps its files in ``storage``."""
        if self._session.address:  # Nodes of a cluster may not have the sweep's directory.
            self._depot = begin_depot()
        while not work.done:
            try:
                self._fit(work, storage)
            except Exception as error:
                if died := self.death():
                    work.stop(died)
                if work.machine_error:  # The exception is a consequence: for example, Tune also writes to a full disk.
                    continue
                # Tune does not handle all errors, for example if Ray's memory monitor kills a worker.
                if not (machine_error := machine_error_behind(error)):
                    raise
                work.engine_met_machine_error(machine_error)
            else:
                if not work.done:
                    raise SweepError("Ray Tune ended before the sweep did: continue with --resume")
        # If a sweep stops, Tune does not report the end of trials that were killed or still wait for a process.
        for stack_id in work.stacks:
            work.stack_ended(stack_id)
        if self._depot is not None:
            ray.kill(self._depot)
            self._depot = None

    def _fit(self, work: Work, storage: Path) -> None:
        """Run one Tuner until the work is done, or until Tune fails."""
        shutil.rmtree(storage, ignore_errors=True)  # Files of an attempt that ended with a machine error.
        callback = StackCallback(work)
        trainable = tune.with_parameters(StackTrial, depot=self._depot, shipment=self._shipment)
        trainable.__qualname__ = StackTrial.__qualname__  # Otherwise processes would have the name of Tune's wrapper.
        tuner = tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                search_alg=StackSearcher(work),
                scheduler=SlotScheduler(keeps_idle=not self._session.address),
                num_samples=-1,
                reuse_actors=True,
                trial_name_creator=lambda trial: str(job_of(trial)),
                trial_dirname_creator=lambda trial: str(trial.trial_id),
            ),
            run_config=tune.RunConfig(
                name="tune",
                storage_path=str(storage.resolve()),
                verbose=0,
                stop=callback,
                callbacks=[callback],
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # The worker saves checkpoints.
            ),
        )
        with _without_credentials():
            tuner.fit()


def _no_room_text(resources: Resources) -> str:
    """Return a clause that no node has room for a stack with these resources."""
    return (
        f"no node has room for a stack (resources.cpu_per_stack is {resources.cpu_per_stack:g} and "
        f"resources.gpu_per_stack {resources.gpus:g})"
    )


@contextmanager
def _without_credentials() -> Iterator[None]:
    """During the block, keep Tune from copying AWS variables into the runtime environment of its actors, because Ray
    logs it. Processes on this machine inherit the variables anyway."""
    names = set(class_cache.ENV_VARS_TO_PROPAGATE)
    class_cache.ENV_VARS_TO_PROPAGATE.difference_update({name for name in names if name.startswith("AWS_")})
    try:
        yield
    finally:
        class_cache.ENV_VARS_TO_PROPAGATE.update(names)


def try_ray(resources: Resources) -> tuple[float, float, str]:
    """Start Ray on this machine, import torch in a new process, and stop Ray.

    Returns:
        The seconds until Ray had started, the seconds from then until torch was imported, and torch's version.

    Raises:
        SweepError: if Ray does not start.
        ray.exceptions.GetTimeoutError: if no process responds.
    """
    begun = time.perf_counter()
    with RayEngine():
        started = time.perf_counter()

        # Defined here, so that Ray pickles the whole function and the process imports only torch.
        @ray.remote(num_cpus=resources.cpu_per_stack)
        def torch_version() -> str:
            import torch

            return str(torch.__version__)

        version = str(ray.get(torch_version.remote(), timeout=ANSWER_S))
        return started - begun, time.perf_counter() - started, version
