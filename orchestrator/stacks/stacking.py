"""Which runs are trained together: a pure function of what is wanted now."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestrator.search.base import Request
from trainables.base import RunConfig


@dataclass(frozen=True)
class Ticket:
    """A run that is wanted, resolved: its request, what is trained, its key and the shape it can be stacked by."""

    request: Request
    config: RunConfig
    key: str
    shape: str


@dataclass(frozen=True)
class Stack:
    """Runs of one shape that are trained as one batched model: the unit of execution, a trial of Ray Tune."""

    tickets: tuple[Ticket, ...]

    @property
    def id(self) -> str:
        """The stack's identity: same runs in the same order, same id, so that its checkpoint is found again."""
        return stack_id(self.tickets[0].shape, [ticket.key for ticket in self.tickets])


def stack_id(shape: str, keys: Sequence[str]) -> str:
    """The identity of the stack of these runs."""
    digest = hashlib.sha256("|".join(keys).encode()).hexdigest()[:8]
    return f"{shape}-x{len(keys)}-{digest}"


def next_stack(wanted: Sequence[Ticket], free: int, max_stack: int) -> Stack:
    """The stack to start now, when ``free`` slots are idle and ``wanted`` (never empty) is in order of urgency.

    It holds the most urgent run and others of its shape. When there are fewer shapes than idle slots the runs are
    spread, so that no slot idles while another trains a large stack.
    """
    first_shape = wanted[0].shape
    mates = [ticket for ticket in wanted if ticket.shape == first_shape]
    other_shapes = len({ticket.shape for ticket in wanted}) - 1
    spread = math.ceil(len(mates) / max(1, free - other_shapes))
    return Stack(tuple(mates[: min(max_stack, spread)]))


def full_stacks(wanted: Sequence[Ticket], most: Callable[[Ticket], int]) -> int:
    """How many stacks these runs make where each is as large as it does well to be: at most ``most`` of its runs."""
    runs = Counter(ticket.shape for ticket in wanted)
    first = {ticket.shape: ticket for ticket in reversed(wanted)}
    return sum(math.ceil(count / most(first[shape])) for shape, count in runs.items())
