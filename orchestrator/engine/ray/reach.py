"""Whether a worker and the driver come to the same home: proved by what each keeps there for the other."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.engine.ray.keeper import KIND, LARGEST_BYTES, Keeper, leave, says
from orchestrator.engine.reports import StackJob
from orchestrator.engine.transport import Transport
from orchestrator.errors import SweepError
from orchestrator.store.files import SweepFiles
from orchestrator.store.storage import storage_at
from orchestrator.store.trouble import LastingTroubleError, trouble_words

SEEN_WITHIN_S = 5.0
"""How long a file is looked for that another machine wrote: a network's file system may show it a little later."""
LOOK_EVERY_S = 0.2


@dataclass(frozen=True)
class Reach:
    """What a worker needs to come to the driver's storages. In the one at the address ``at`` the driver keeps a proof
    with ``nonce``; ``keeper`` is the name of the actor beside the driver."""

    transport: Transport
    home: str
    at: str
    nonce: str
    keeper: str


@contextmanager
def reachable(files: SweepFiles, transport: Transport) -> Iterator[Reach]:
    """A block in which workers can prove that they come to the sweep's home, and send what they trained where they do
    not.

    Raises :class:`SweepError` where not even Ray's processes beside the driver come to it.
    """
    _forget(files)
    nonce, home = secrets.token_hex(16), files.home.address("").rstrip("/")
    leave(files.reach_at, "driver", nonce)
    reach = Reach(transport, home, files.reach_at, nonce, f"keeper-{nonce[:8]}")
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    always = {"max_restarts": -1, "max_task_retries": -1}
    keeper: Any = ray.remote(Keeper).options(name=reach.keeper, num_cpus=0, scheduling_strategy=here, **always).remote()
    try:
        flaw = ray.get(keeper.prove.remote(reach.at, nonce))
        if flaw or not says(reach.at, "keeper", nonce):
            why = f" ({flaw})" if flaw else ""
            raise SweepError(
                f"Ray's processes on this machine do not see {home} as this program does{why}: "
                "start Ray where that directory is (in the same container, say), or with what leads to the store in "
                "its environment"
            )
        yield reach
    finally:
        ray.kill(keeper)
        _forget(files)


def _forget(files: SweepFiles) -> None:
    """Remove all proofs."""
    proofs = storage_at(files.reach_at)
    for name in proofs.list():
        proofs.delete(name)
    shutil.rmtree(files.reach, ignore_errors=True)


class Way:
    """How one worker's process comes to the driver's storages: found out at its first stack."""

    def __init__(self, reach: Reach | None) -> None:
        """``reach`` is None where Ray runs on the driver's machine alone."""
        self._reach = reach
        self._sends: bool | None = None

    def job(self, job: StackJob) -> tuple[StackJob, tuple[str, ...]]:
        """The job with addresses that are good here, and sentences for the user. Raises
        :class:`LastingTroubleError` where the driver's home is to be shared and is not."""
        if self._reach is None:
            return job, ()
        said: tuple[str, ...] = ()
        if self._sends is None:
            said = self._find_out(self._reach)
        if not self._sends:
            return job, said
        name = self._reach.keeper
        return replace(job, runs=_through(name, job.runs), checkpoints=_through(name, job.checkpoints)), said

    def _find_out(self, reach: Reach) -> tuple[str, ...]:
        flaw = "" if reach.transport is Transport.RAY else _flaw(reach)
        if flaw and reach.transport is Transport.SHARED:
            raise LastingTroubleError(
                f"{flaw}, and with --transport shared it has to: give that node the directory, or leave --transport "
                "out, so that what it trains travels through Ray"
            )
        self._sends = bool(flaw) or reach.transport is Transport.RAY
        return (f"{flaw}: what it trains travels through Ray, {LARGEST_BYTES >> 20} MiB at most a run",) if flaw else ()


def _flaw(reach: Reach) -> str:
    """Why this process does not share the driver's home; ``""`` where it does."""
    node = f"the node {ray.util.get_node_ip_address()}"
    try:
        if not _in_time(lambda: says(reach.at, "driver", reach.nonce)):
            return f"{node} does not see the driver's {reach.home}"
    except (OSError, LastingTroubleError) as error:
        return f"{node} does not see the driver's {reach.home} ({trouble_words(error, reach.home) or error})"
    answer = f"{ray.get_runtime_context().get_node_id()}-{os.getpid()}"
    try:
        leave(reach.at, answer, reach.nonce)
    except OSError as error:
        return f"{node} cannot write to the driver's {reach.home} ({error.strerror})"
    keeper = ray.get_actor(reach.keeper)
    if not _in_time(lambda: bool(ray.get(keeper.sees.remote(reach.at, answer, reach.nonce)))):
        return f"what {node} writes to {reach.home} does not come to the driver"
    return ""


def _in_time(seen: Callable[[], bool]) -> bool:
    until = time.monotonic() + SEEN_WITHIN_S
    while not (found := seen()) and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)
    return found


def _through(keeper: str, address: str) -> str:
    """An address that leads to a storage as the driver's machine has it."""
    return f"{KIND}://{keeper}/{address.removeprefix('/')}"
