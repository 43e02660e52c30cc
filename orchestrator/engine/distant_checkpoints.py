"""Checkpoints on a machine that does not have the sweep's directory. The driver's machine gets copies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from orchestrator.home.checkpoints import Checkpoints, PackedCheckpoint
from orchestrator.jobs.plan import Member


class DepotError(Exception):
    """The driver's machine does not respond, or refuses a checkpoint."""


class Depot(Protocol):
    """The checkpoints in the sweep's directory, for a worker on another machine.

    Both methods raise :class:`DepotError`. After a network outage, two workers may train the same stack. The worker
    that fetched its checkpoint last owns the stack, and the depot refuses checkpoints from the other worker.
    """

    def fetch(self, stack_id: str) -> PackedCheckpoint | None:
        """Return a stack's newest checkpoint, or None if it has no checkpoint. From now on, the caller owns the
        stack."""

    def store(self, stack_id: str, packed: PackedCheckpoint) -> None:
        """Store a checkpoint of a stack. It replaces older checkpoints."""


class DistantCheckpoints(Checkpoints):
    """Checkpoints in this machine's scratch, with a copy of each in the sweep's directory.

    The copies protect against losing the machine. If a copy fails, report a message and continue, because the next copy
    may succeed.
    """

    def __init__(self, root: Path, depot: Depot, report: Callable[[str], None]) -> None:
        super().__init__(root)
        self._depot = depot
        self._report = report
        self._fetched: set[str] = set()

    def newest(self, stack_id: str) -> Path | None:
        """Return a stack's newest checkpoint. The first call for a stack fetches it from the driver's machine."""
        # Another machine may have continued the stack since this machine trained it.
        if stack_id not in self._fetched:
            self._fetched.add(stack_id)
            try:
                packed = self._depot.fetch(stack_id)
                if packed is not None:
                    self.unpack(stack_id, packed)
            except (DepotError, ValueError) as error:
                self._report(f"could not fetch the checkpoint of {stack_id} from the driver's machine: {error}")
        return super().newest(stack_id)

    @contextmanager
    def put(self, stack_id: str, members: Sequence[Member], ended: Collection[int] = ()) -> Iterator[Path]:
        with super().put(stack_id, members, ended) as directory:
            yield directory
        try:
            packed = self.pack(stack_id)
            assert packed is not None, "it has just been written"
            self._depot.store(stack_id, packed)
        except (DepotError, ValueError) as error:
            self._report(
                f"could not copy a checkpoint to the driver's machine ({error}). If this machine is lost, its runs "
                "continue from an earlier checkpoint"
            )
