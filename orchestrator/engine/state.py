"""The runs of a sweep under way, each in one state, and the stacks that train them. No files, no decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from orchestrator.stacks import Stack, Ticket
from trainables.base import Evaluation, Outcome


@dataclass
class Training:
    """A run in training, with its last evaluation if there was one."""

    ticket: Ticket
    stack_id: str
    evaluation: Evaluation | None = None


@dataclass
class SweepState:
    """Runs by key. A run that is wanted is in one of the first four, and moves to ``ended``.

    ``waiting``: for a slot, in order of urgency. ``elsewhere``: another sweep trains it. ``later``: the phase that it
    goes on from has not ended. ``twins``: the same run is wanted for another arm, and has not ended. ``interrupted``:
    stacks with a checkpoint, which continue whole. ``stacks``: handed to workers and not over.
    """

    waiting: dict[str, Ticket] = field(default_factory=dict)
    elsewhere: dict[str, Ticket] = field(default_factory=dict)
    later: dict[str, Ticket] = field(default_factory=dict)
    training: dict[str, Training] = field(default_factory=dict)
    ended: dict[str, Outcome] = field(default_factory=dict)
    twins: list[Ticket] = field(default_factory=list)
    interrupted: list[Stack] = field(default_factory=list)
    stacks: dict[str, Stack] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        """True when no run is wanted."""
        return not (self.training or self.waiting or self.elsewhere or self.later or self.twins)

    @property
    def busy(self) -> int:
        """Stacks that train a run. One whose runs have all ended leaves its slot, even before its trial is over."""
        return sum(map(self.trains, self.stacks.values()))

    def wanted(self, key: str) -> Ticket | None:
        """The run of this key that has not ended; None if it is not wanted."""
        if key in self.training:
            return self.training[key].ticket
        return self.waiting.get(key) or self.elsewhere.get(key) or self.later.get(key)

    def begin(self, stack: Stack, wanted: Iterable[Ticket]) -> None:
        """A worker gets a stack, of which these runs are wanted."""
        for ticket in wanted:
            self.waiting.pop(ticket.key, None)
            self.training[ticket.key] = Training(ticket, stack.id)
        self.stacks[stack.id] = stack

    def give_up(self, tickets: Iterable[Ticket]) -> list[Ticket]:
        """Take these runs out of training; those of them that were in it."""
        return [ticket for ticket in tickets if self.training.pop(ticket.key, None) is not None]

    def put_first(self, stacks: Sequence[Stack], wanted: Sequence[Ticket]) -> None:
        """Have stacks continue next, each whole, and these of their runs wait before all others."""
        self.interrupted = [*stacks, *self.interrupted]
        self.waiting = {ticket.key: ticket for ticket in wanted} | self.waiting

    def continued(self, ticket: Ticket) -> Stack | None:
        """Take the interrupted stack of this run: only the same stack can continue from a checkpoint."""
        for place, stack in enumerate(self.interrupted):
            if ticket in stack.tickets:
                return self.interrupted.pop(place)
        return None

    def trains(self, stack: Stack) -> bool:
        """True if a run of a stack is in training."""
        return any(ticket.key in self.training for ticket in stack.tickets)

    def has_shown(self, stack_id: str) -> bool:
        """True if a run of this stack came to an evaluation since the stack was started: else no checkpoint can keep
        anything."""
        return any(each.stack_id == stack_id and each.evaluation is not None for each in self.training.values())
