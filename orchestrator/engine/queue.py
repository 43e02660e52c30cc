"""The runs of a sweep that are wanted and not yet trained: for what each of them waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from orchestrator.search.base import Request
from orchestrator.stacks import Stack, Ticket, next_stack
from orchestrator.store.runs import SweepRuns
from trainables.base import Family, Outcome, Status


class Queue:
    """A run waits for a slot (:attr:`waiting`, in order of urgency), for another sweep that trains it, for the phase
    that it goes on from, or for the same run of another arm. One that lies in the home waits for nothing: it is taken.

    ``ticket`` resolves a request, ``before`` says which phase a request goes on from; ``take`` is called with every run
    that needs no training, its outcome and the sweep it was trained for; ``kept`` holds how the sweep's runs ended so
    far, by key, and ``out`` says which run of a key is being trained. ``interrupted`` are stacks with a checkpoint.
    """

    def __init__(
        self,
        family: Family,
        runs: SweepRuns,
        *,
        ticket: Callable[[Request], Ticket],
        before: Callable[[Request], Request | None],
        take: Callable[[Ticket, Outcome, str], None],
        kept: Mapping[str, Outcome],
        out: Callable[[str], Ticket | None],
        interrupted: Sequence[Stack] = (),
    ) -> None:
        self.waiting: dict[str, Ticket] = {}
        self._family = family
        self._runs = runs
        self._ticket = ticket
        self._before = before
        self._take = take
        self._kept = kept
        self._training = out
        self._elsewhere: dict[str, Ticket] = {}
        self._later: dict[str, Ticket] = {}
        self._twins: list[Ticket] = []
        self._interrupted = list(interrupted)

    @property
    def empty(self) -> bool:
        """True when no run waits for anything."""
        return not (self.waiting or self._elsewhere or self._later or self._twins)

    def add(self, ticket: Ticket) -> bool:
        """Take in a run that the searcher wants; True where it was there, so that the searcher may want another."""
        if ticket.key in self._kept:  # It is a run of another arm as well, which has ended.
            self._take(ticket, self._kept[ticket.key], self._runs.sweep_id)
            return True
        if (same := self._out(ticket.key)) is not None:
            if same.request != ticket.request:  # Otherwise an interrupted stack trains it already.
                self._twins.append(ticket)
            return False
        if self._found(ticket):
            return True
        self._want(ticket)
        return False

    def look_again(self) -> None:
        """Take what other sweeps, or other arms of this one, have ended, and want what they have given up; go on with
        what waited for an earlier phase."""
        twins, self._twins = self._twins, []
        for ticket in twins:
            if ticket.key in self._kept:
                self._take(ticket, self._kept[ticket.key], self._runs.sweep_id)
            else:
                self._twins.append(ticket)
        for key, ticket in list(self._elsewhere.items()):
            if self._found(ticket):
                del self._elsewhere[key]
            elif self._runs.claim(key):
                self.waiting[key] = self._elsewhere.pop(key)
        self._go_on()

    def go_on_with(self, stacks: Sequence[Stack], wanted: Sequence[Ticket]) -> None:
        """Have stacks go on next, each whole, and these of their runs be trained before all others."""
        self._interrupted = [*stacks, *self._interrupted]
        self.waiting = {ticket.key: ticket for ticket in wanted} | self.waiting

    def choose(self, free: int, most: Callable[[Ticket], int]) -> Stack | None:
        """The stack to start now, when ``free`` slots are idle: of at most so many runs as may train together with its
        first one, and without those that another sweep is training. None where no run waits for a slot."""
        while self.waiting:
            wanted = list(self.waiting.values())
            stack = self._continued(wanted[0])
            if stack is not None:  # It goes on whole, or its checkpoint is of no use.
                for ticket in stack.tickets:
                    self._runs.claim(ticket.key)
                return stack
            ours = [ticket for ticket in next_stack(wanted, free, most(wanted[0])).tickets if self._is_ours(ticket)]
            if ours:
                return Stack(tuple(ours))
        return None

    def drop(self, mix: str) -> set[str]:
        """Forget the runs of a mix, but those that another one waits for: their keys are returned."""
        others = [ticket for ticket in (*self._twins, *self._later.values()) if ticket.request.mix != mix]
        needed = {ticket.key for ticket in others}
        needed |= {self._family.key(ticket.config.start.donor) for ticket in others if ticket.config.start is not None}
        for waiting in (self.waiting, self._elsewhere, self._later):
            for key, ticket in list(waiting.items()):
                if ticket.request.mix == mix and key not in needed:
                    del waiting[key]
        self._twins = [ticket for ticket in self._twins if ticket.request.mix != mix]
        return needed

    def _continued(self, ticket: Ticket) -> Stack | None:
        """The interrupted stack this run was part of, whole, since only the same stack can go on from a checkpoint."""
        for place, stack in enumerate(self._interrupted):
            if ticket in stack.tickets:
                return self._interrupted.pop(place)
        return None

    def _out(self, key: str) -> Ticket | None:
        """The run of this key that is trained or waited for."""
        return self._training(key) or self.waiting.get(key) or self._elsewhere.get(key) or self._later.get(key)

    def _want(self, ticket: Ticket) -> None:
        """Have a run trained: now, or once the phase is there that it goes on from."""
        before = self._before(ticket.request)
        if before is None:
            self.waiting[ticket.key] = ticket
            return
        self._later[ticket.key] = ticket
        donor = self._ticket(before)
        if donor.key not in self._kept and self._out(donor.key) is None and not self._found(donor):
            self._want(donor)
        self._go_on()

    def _go_on(self) -> None:
        """Have the runs trained whose earlier phase is there now. Where it came to nothing, they have failed."""
        for key, ticket in list(self._later.items()):
            start = ticket.config.start
            assert start is not None, "only runs that go on from another one wait for it"
            donor = self._family.key(start.donor)
            if self._runs.weights(donor) is not None:
                self.waiting[key] = self._later.pop(key)
            elif (gone := self._kept.get(donor)) is not None:
                del self._later[key]
                why = f"{start.donor.label} at size {start.donor.size}, seed {start.donor.seed}, {gone.status}"
                failed = Outcome(Status.FAILED, 0, {}, {}, error=f"there are no weights to go on from: {why}")
                self._take(ticket, failed, "")

    def _is_ours(self, ticket: Ticket) -> bool:
        """Whether this sweep is to train a waiting run. Else it is there by now, or another sweep trains it: it waits
        for no slot any more."""
        if not self._runs.claim(ticket.key):
            self._elsewhere[ticket.key] = self.waiting.pop(ticket.key)
            return False
        if self._found(ticket):  # It ended between the question and the claim.
            self._runs.free(ticket.key)
            del self.waiting[ticket.key]
            return False
        return True

    def _found(self, ticket: Ticket) -> bool:
        """Take a run that lies in the home; False where there is none."""
        if not self._runs.has(ticket.key):
            return False
        with self._runs.kept():
            found = self._runs.find(ticket.key)
            if found is not None:
                self._take(ticket, found.outcome, found.trained_for)
        return found is not None
