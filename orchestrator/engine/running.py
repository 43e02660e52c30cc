"""What is being trained now: stacks, and the runs in them that are still wanted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.stacks import Stack, Ticket
from trainables.base import Evaluation


@dataclass
class Training:
    """A run that is being trained, with its last evaluation if there was one."""

    ticket: Ticket
    stack_id: str
    evaluation: Evaluation | None = None


class Running:
    """The stacks that were handed to workers and are not over. ``runs`` are those in training, by key: a run leaves it
    as it ends, or when it is wanted no more, its stack when a worker is done with it."""

    def __init__(self) -> None:
        self.runs: dict[str, Training] = {}
        self._stacks: dict[str, Stack] = {}

    @property
    def busy(self) -> int:
        """Stacks that train a run. One all of whose runs have ended gives its slot back, though its trial may not have
        been wound up yet."""
        return sum(map(self._trains, self._stacks.values()))

    def begin(self, stack: Stack, wanted: Iterable[Ticket]) -> None:
        """A worker gets a stack, of which these runs are wanted."""
        self.runs |= {ticket.key: Training(ticket, stack.id) for ticket in wanted}
        self._stacks[stack.id] = stack

    def over(self, stack_id: str) -> Stack:
        """A worker is done with a stack. Those of its runs that have not ended stay in :attr:`runs`."""
        return self._stacks.pop(stack_id)

    def ended(self, stack_id: str) -> bool:
        """The same where all of it went well; whether each of its runs has ended, and it was not over before."""
        stack = self._stacks.pop(stack_id, None)
        return stack is not None and not self._trains(stack)

    def drop(self, tickets: Iterable[Ticket]) -> list[Ticket]:
        """Count these runs as in training no more; those of them that were."""
        return [ticket for ticket in tickets if self.runs.pop(ticket.key, None) is not None]

    def ticket(self, key: str) -> Ticket | None:
        """The run of this key in training; None where there is none."""
        return self.runs[key].ticket if key in self.runs else None

    def has_shown(self, stack_id: str) -> bool:
        """Whether a run of this stack has come to an evaluation since the stack was started: without one there is
        nothing yet that a checkpoint could keep."""
        return any(each.stack_id == stack_id and each.evaluation is not None for each in self.runs.values())

    def given_up(self, stack_id: str) -> bool:
        """Whether nothing that a stack trains is wanted any more."""
        stack = self._stacks.get(stack_id)
        return stack is not None and not self._trains(stack)

    def _trains(self, stack: Stack) -> bool:
        return any(ticket.key in self.runs for ticket in stack.tickets)
