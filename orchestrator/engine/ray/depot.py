"""The depot of checkpoints as a Ray actor on the driver's machine. All sweeps of the driver share it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.engine.distant_checkpoints import DepotError
from orchestrator.home.checkpoints import Checkpoints, PackedCheckpoint
from orchestrator.home.directories import SweepDirectory

ANSWER_S = 120.0
"""Seconds to wait for the driver's machine. A network failure must not delay training for long."""


class DepotActor:
    """Reads and writes checkpoints for workers that do not have their sweep's directory."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str], str] = {}
        """Owners by the directory of the sweep and the id of the stack."""

    def fetch(self, directory: str, stack_id: str, owner: str) -> PackedCheckpoint | None:
        """Return a stack's newest checkpoint, or None. From now on, only ``owner`` may store checkpoints of the
        stack."""
        self._owners[directory, stack_id] = owner
        return _checkpoints(directory).pack(stack_id)

    def store(self, directory: str, stack_id: str, owner: str, packed: PackedCheckpoint) -> str:
        """Store a checkpoint. Return an empty string, or the reason if the checkpoint is refused."""
        if self._owners.setdefault((directory, stack_id), owner) != owner:
            return "another process has continued these runs"
        _checkpoints(directory).unpack(stack_id, packed)
        return ""


def _checkpoints(directory: str) -> Checkpoints:
    return Checkpoints(SweepDirectory(Path(directory)).checkpoints)


class RayDepot:
    """A worker's client of the depot (:class:`orchestrator.engine.distant_checkpoints.Depot`)."""

    def __init__(self, actor: Any, directory: str) -> None:
        self._actor = actor
        self._directory = directory
        self._owner = uuid.uuid4().hex

    def fetch(self, stack_id: str) -> PackedCheckpoint | None:
        packed: PackedCheckpoint | None = _answer(self._actor.fetch.remote(self._directory, stack_id, self._owner))
        return packed

    def store(self, stack_id: str, packed: PackedCheckpoint) -> None:
        if refusal := _answer(self._actor.store.remote(self._directory, stack_id, self._owner, packed)):
            raise DepotError(refusal)


def _answer(reference: Any) -> Any:
    """Return the result of a call of the actor. Raises :class:`DepotError` if it fails."""
    try:
        return ray.get(reference, timeout=ANSWER_S)
    except RayError as error:  # Also if the actor raised, for example because of a full disk.
        raise DepotError(str(error).strip().rpartition("\n")[2] or type(error).__name__) from error


def begin_depot() -> Any:
    """Start the depot on this machine and return its handle."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": 2, "scheduling_strategy": here}
    return ray.remote(DepotActor).options(**options).remote()
