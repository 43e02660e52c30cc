"""Checkpoints of a machine that does not have the sweep's directory. Copies go to the driver's machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from orchestrator.home.checkpoints import Checkpoints, PackedCheckpoint
from orchestrator.jobs.plan import Member


class DepotError(Exception):
    """The driver's machine cannot be reached, or refuses a checkpoint."""


class Depot(Protocol):
    """The checkpoints in the sweep's directory, as a worker on another machine sees them.

    Both methods raise :class:`DepotError`. After a network outage, two workers may train one stack; the one that
    fetched its checkpoint last owns it, and checkpoints of the other one are refused.
    """

    def fetch(self, stack_id: str) -> PackedCheckpoint | None:
        """Return a stack's newest checkpoint, or None without one. The caller owns the stack from now on."""

    def store(self, stack_id: str, packed: PackedCheckpoint) -> None:
        """Store a checkpoint of a stack, in place of older ones."""


class DistantCheckpoints(Checkpoints):
    """Checkpoints in this machine's scratch, with a copy of each in the sweep's directory.

    Without its copies, the loss of a machine would lose the training of its stacks. A copy that cannot be stored is
    only a message: the next one may arrive.
    """

    def __init__(self, root: Path, depot: Depot, report: Callable[[str], None]) -> None:
        super().__init__(root)
        self._depot = depot
        self._report = report
        self._fetched: set[str] = set()

    def newest(self, stack_id: str) -> Path | None:
        """Return the newest checkpoint, after fetching it if the sweep's directory has a newer one than this machine.
        Another machine may have continued the stack since it was here."""
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
                f"could not copy a checkpoint to the driver's machine ({error}): if this machine is lost, its runs "
                "continue from an earlier one"
            )
