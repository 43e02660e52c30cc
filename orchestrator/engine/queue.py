"""The runs of a sweep that are wanted and not yet trained: for what each of them waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from orchestrator.search.base import Request
from orchestrator.stacks.stacking import Ticket
from orchestrator.store.runs import SweepRuns
from trainables.base import Family, Outcome, Status


class Queue:
    """A run waits for a slot (:attr:`waiting`, in order of urgency), for another sweep that trains it, for the phase
    that it goes on from, or for the same run of another arm. One that lies in the home waits for nothing: it is taken.

    ``ticket`` resolves a request, ``before`` says which phase a request goes on from; ``take`` is called with every run
    that needs no training, its outcome and the sweep it was trained for; ``kept`` holds how the sweep's runs ended so
    far, by key, and ``out`` says which run of a key is being trained.
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

    def claimed(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Those of these waiting runs that this sweep is to train. The others are there by now, or another sweep trains
        them: they wait for no slot any more."""
        return [ticket for ticket in tickets if self._is_ours(ticket)]

    def claim_all(self, tickets: Sequence[Ticket]) -> None:
        """Say that this sweep trains these runs whatever others do."""
        for ticket in tickets:
            self._runs.claim(ticket.key)

    def first(self, tickets: Sequence[Ticket]) -> None:
        """Have these runs trained before all others."""
        self.waiting = {ticket.key: ticket for ticket in tickets} | self.waiting

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
