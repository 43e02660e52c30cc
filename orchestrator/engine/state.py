"""The runs of a sweep under way, each in one state, and the stacks that train them. No files, no decisions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from orchestrator.home.journal import Ended
from orchestrator.home.sweeps import RunRecord
from orchestrator.stacks import Stack, Ticket
from trainables.base import Evaluation, Outcome


@dataclass
class Training:
    """A run in training, with its last evaluation if there was one. ``first`` and ``last`` are the steps and times
    (monotonic, in seconds) of its first and last evaluation."""

    ticket: Ticket
    stack_id: str
    evaluation: Evaluation | None = None
    first: tuple[int, float] = (0, 0.0)
    last: tuple[int, float] = (0, 0.0)

    @property
    def step(self) -> int:
        """The step of the last evaluation, 0 before the first."""
        return self.last[0]

    def evaluated(self, evaluation: Evaluation, now: float | None = None) -> None:
        """The run came to an evaluation."""
        self.last = evaluation.step, time.monotonic() if now is None else now
        if self.evaluation is None:
            self.first = self.last
        self.evaluation = evaluation

    def left_s(self, steps: int, now: float) -> float | None:
        """Seconds left of ``steps`` at the run's own rate, its start not counted; None before the rate is known, and
        once the run takes longer."""
        trained, took = self.last[0] - self.first[0], self.last[1] - self.first[1]
        if trained <= 0 or took <= 0:
            return None
        left = (steps - self.step) * took / trained - (now - self.last[1])
        return left if left > 0 else None


@dataclass
class SweepState:
    """Runs by key. A run that is wanted is in one of the first four, and moves to ``ended``.

    ``waiting``: for a slot, in order of urgency. ``elsewhere``: another sweep trains it. ``later``: the phase that it
    goes on from has not ended. ``twins``: the same run is wanted for another arm, and has not ended. ``interrupted``:
    stacks with a checkpoint, which continue whole. ``stacks``: handed to workers and not over.

    ``entries`` are the runs that ended, in their order, as the journal has them: a run of two arms twice. ``records``
    are the same as reports and the record know them, ``ended`` their outcomes by key.
    """

    waiting: dict[str, Ticket] = field(default_factory=dict)
    elsewhere: dict[str, Ticket] = field(default_factory=dict)
    later: dict[str, Ticket] = field(default_factory=dict)
    training: dict[str, Training] = field(default_factory=dict)
    ended: dict[str, Outcome] = field(default_factory=dict)
    entries: list[Ended] = field(default_factory=list)
    records: list[RunRecord] = field(default_factory=list)
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

    def end(self, entry: Ended, record: RunRecord) -> None:
        """A run ended."""
        self.ended[entry.key] = entry.outcome
        self.entries.append(entry)
        self.records.append(record)

    def begin(self, stack: Stack, wanted: Iterable[Ticket]) -> None:
        """A worker gets a stack with these wanted runs."""
        for ticket in wanted:
            for others in (self.waiting, self.elsewhere, self.later):
                others.pop(ticket.key, None)
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
