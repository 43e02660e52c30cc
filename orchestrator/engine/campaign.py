"""A sweep under way: what is wanted, what is training, what has ended. It knows no Ray; engines drive it.

The order of events for a run that ends is always the same: its files are on disk (the worker's business), the journal
holds it, the searcher is told, everybody who listens hears of it. A crash between any two of them loses nothing. A run
that is wanted and lies in the home already goes the same way without training; one that another sweep is training is
waited for. Of an arm of several phases each is a run, which waits for the one that it goes on from.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestrator.search.base import Observation, Request, Searcher
from orchestrator.space.searching import observe
from orchestrator.stacks.sizing import Sizing
from orchestrator.stacks.stacking import Stack, Ticket, next_stack
from orchestrator.store.files import SweepFiles
from orchestrator.store.journal import Ended, Journal
from orchestrator.store.records import Sweep
from orchestrator.store.runs import SweepRuns
from trainables.base import Evaluation, Family, Outcome, Status


@dataclass
class Training:
    """A run that is being trained, with its last evaluation if there was one."""

    ticket: Ticket
    evaluation: Evaluation | None = None


def _ignore(entry: Ended) -> None:
    """Nobody listens for ends."""


def _do_nothing() -> None:
    """Nobody listens for changes."""


def _never() -> bool:
    """Nobody falls behind."""
    return False


class Campaign:
    """Decides which stack starts next and takes in what comes back. Called from the driver's thread only.

    ``limits`` are the largest stacks, by size, where a larger one ran out of memory; they hold for larger sizes, too.
    ``known`` is what the journal holds already; ``say`` is told of damaged files; ``seen`` says what the searcher
    learns from an outcome for the target.
    """

    def __init__(
        self,
        sweep: Sweep,
        searcher: Searcher,
        journal: Journal,
        *,
        slots: int,
        sizing: Sizing,
        interrupted: Sequence[Sequence[Request]] = (),
        known: Sequence[Ended] = (),
        say: Callable[[str], object] = warnings.warn,
        seen: Callable[[Outcome, str], Observation | None] | None = None,
    ) -> None:
        self.sweep = sweep
        self.searcher = searcher
        self.slots = slots
        self.sizing = sizing
        self.limits: dict[int, int] = {}
        self.stopping = False
        self.training: dict[str, Training] = {}
        self._family: Family = sweep.spec.make_family()
        self._journal = journal
        self._seen = seen or observe
        self._on_end: Callable[[Ended], None] = _ignore
        self._on_change: Callable[[], None] = _do_nothing
        self._behind: Callable[[], bool] = _never
        self._runs = SweepRuns(SweepFiles(sweep.directory), say)
        self._waiting: dict[str, Ticket] = {}
        self._elsewhere: dict[str, Ticket] = {}
        self._twins: list[Ticket] = []
        """Runs that are trained already, as those of another arm."""
        self._later: dict[str, Ticket] = {}
        """Runs that wait for the one they go on from, by their keys."""
        self._kept = {entry.key: entry.outcome for entry in known}
        """How the runs ended that the journal holds."""
        self._running: dict[str, Stack] = {}
        self._alone: set[str] = set()
        self._interrupted = [Stack(tuple(map(self.ticket, requests))) for requests in interrupted]

    @property
    def done(self) -> bool:
        """True when nothing is training or waiting and the searcher wants nothing more, or the sweep is stopping."""
        out = self.training or self._waiting or self._elsewhere or self._later or self._twins
        return self.stopping or (not out and self.searcher.done)

    def listen(
        self, on_end: Callable[[Ended], None], on_change: Callable[[], None], behind: Callable[[], bool] = _never
    ) -> None:
        """Call ``on_end`` with every run that ends, once it is safe, and ``on_change`` after anything happened; start
        nothing while a listener says that it is ``behind``."""
        self._on_end, self._on_change, self._behind = on_end, on_change, behind

    def ticket(self, request: Request) -> Ticket:
        """The run a request means."""
        config = self.sweep.spec.config(request)
        return Ticket(request, config, self._family.key(config), self._family.shape(config))

    def next_stack(self) -> Stack | None:
        """The stack to start on an idle slot; None to wait (or, with :attr:`done`, because all is over)."""
        if self.stopping or self._behind():
            return None
        # A stack all of whose runs have ended gives its slot back, though its trial may not have been wound up yet.
        busy = sum(any(ticket.key in self.training for ticket in stack.tickets) for stack in self._running.values())
        free = max(1, self.slots - busy)
        self._look_elsewhere()
        self._ask(free)
        if self._waiting:
            self._ask(free * self._most(next(iter(self._waiting.values()))))
        if not self._waiting:
            return None
        stack = self._choose(free)
        if stack is None:
            return None
        for ticket in stack.tickets:
            self._waiting.pop(ticket.key, None)
            if ticket.request not in self.searcher.results:
                self.training[ticket.key] = Training(ticket)
        self._running[stack.id] = stack
        self._on_change()
        return stack

    def evaluated(self, key: str, evaluation: Evaluation) -> None:
        """A run in training reached an evaluation."""
        if key in self.training:
            self.training[key].evaluation = evaluation
            self._on_change()

    def ended(self, key: str, outcome: Outcome) -> None:
        """A run ended: journal, searcher, listeners, in this order. A repeated report changes nothing."""
        training = self.training.pop(key, None)
        if training is None:
            return
        self._take(training.ticket, outcome, self._runs.trained_for(key))
        self._runs.free(key)

    def stack_ended(self, stack_id: str) -> None:
        """A trial ended well: every run of its stack has been reported."""
        self._running.pop(stack_id, None)

    def stack_failed(self, stack_id: str, error: str) -> None:
        """A trial failed for good (its retries are used up): its unfinished runs are tried alone; a run that fails
        alone has failed."""
        stack = self._running.pop(stack_id)
        unfinished = [ticket for ticket in stack.tickets if ticket.key in self.training]
        for ticket in unfinished:
            if len(stack.tickets) > 1:
                del self.training[ticket.key]
                self._alone.add(ticket.key)
                self._waiting[ticket.key] = ticket
            else:
                self.ended(ticket.key, Outcome(Status.FAILED, 0, {}, {}, error=error))

    def stack_halved(self, stack_id: str, halves: Sequence[Sequence[Request]]) -> None:
        """A stack was too large for the memory of its device: its unfinished runs go on next, as these stacks, and no
        stack of this size, or of a larger one, will be larger than they are."""
        stack = self._running.pop(stack_id)
        by_request = {ticket.request: ticket for ticket in stack.tickets}
        smaller = [Stack(tuple(by_request[request] for request in half)) for half in halves]
        size = stack.tickets[0].config.size
        self.limits[size] = min(self._limit(size), max(len(half.tickets) for half in smaller))
        self._interrupted = smaller + self._interrupted
        first = {ticket.key: ticket for half in smaller for ticket in half.tickets}
        for key in first:
            self.training.pop(key, None)
        self._waiting = first | self._waiting
        self._on_change()

    def _most(self, ticket: Ticket) -> int:
        """The most runs to train together with this one."""
        size = ticket.config.size
        return 1 if ticket.key in self._alone else min(self.sizing.most(size), self._limit(size))

    def _limit(self, size: int) -> int:
        """The largest stack that may fit: what ran out of memory at some size does so at every larger one."""
        return min((most for at, most in self.limits.items() if at <= size), default=sys.maxsize)

    def _ask(self, room: int) -> None:
        """Ask the searcher until so many runs wait to be trained, or it wants no more; take those that are there."""
        found = True
        while found and not self._behind():
            found = False
            for request in self.searcher.ask(room - len(self._waiting)):
                ticket = self.ticket(request)
                if ticket.key in self._kept:  # It is a run of another arm as well, which has ended.
                    self._take(ticket, self._kept[ticket.key], "")
                    found = True
                elif (same := self._out(ticket.key)) is not None:
                    if same.request != ticket.request:  # Otherwise an interrupted stack trains it already.
                        self._twins.append(ticket)
                elif self._found(ticket):
                    found = True
                else:
                    self._want(ticket)
        self._go_on()

    def _out(self, key: str) -> Ticket | None:
        """The run of this key that is trained or waited for."""
        training = self.training.get(key)
        if training is not None:
            return training.ticket
        return self._waiting.get(key) or self._elsewhere.get(key) or self._later.get(key)

    def _want(self, ticket: Ticket) -> None:
        """Have a run trained: now, or once the run is there that it goes on from."""
        before = self.sweep.spec.before(ticket.request)
        if before is None:
            self._waiting[ticket.key] = ticket
            return
        self._later[ticket.key] = ticket
        donor = self.ticket(before)
        if donor.key not in self._kept and self._out(donor.key) is None and not self._found(donor):
            self._want(donor)

    def _go_on(self) -> None:
        """Have the runs trained whose earlier phase is there now. Where it came to nothing, they have failed."""
        for key, ticket in list(self._later.items()):
            start = ticket.config.start
            assert start is not None, "only runs that go on from another one wait for it"
            donor = self._family.key(start.donor)
            if self._runs.weights(donor) is not None:
                self._waiting[key] = self._later.pop(key)
            elif (gone := self._kept.get(donor)) is not None:
                del self._later[key]
                why = f"{start.donor.label} at size {start.donor.size}, seed {start.donor.seed}, {gone.status}"
                failed = Outcome(Status.FAILED, 0, {}, {}, error=f"there are no weights to go on from: {why}")
                self._take(ticket, failed, "")

    def _choose(self, free: int) -> Stack | None:
        """The stack to start of the runs that wait, without those that another sweep is training; None where none is
        left."""
        while self._waiting:
            wanted = list(self._waiting.values())
            stack = self._continued(wanted[0])
            if stack is not None:  # It goes on whole, or its checkpoint is of no use.
                for ticket in stack.tickets:
                    self._runs.claim(ticket.key)
                return stack
            ours = [each for each in next_stack(wanted, free, self._most(wanted[0])).tickets if self._claimed(each)]
            if ours:
                return Stack(tuple(ours))
        return None

    def _claimed(self, ticket: Ticket) -> bool:
        """Whether this sweep is to train a run that waits. Otherwise it waits no more: it was there, or will be."""
        if not self._runs.claim(ticket.key):
            self._elsewhere[ticket.key] = self._waiting.pop(ticket.key)
            return False
        if self._found(ticket):  # It ended between the question and the claim.
            self._runs.free(ticket.key)
            del self._waiting[ticket.key]
            return False
        return True

    def _look_elsewhere(self) -> None:
        """Take the runs that other sweeps, or other arms of this one, have ended; train those that are given up."""
        twins, self._twins = self._twins, []
        for ticket in twins:
            if ticket.key in self._kept:
                self._take(ticket, self._kept[ticket.key], "")
            else:
                self._twins.append(ticket)
        for key, ticket in list(self._elsewhere.items()):
            if self._found(ticket):
                del self._elsewhere[key]
            elif self._runs.claim(key):
                self._waiting[key] = self._elsewhere.pop(key)

    def _found(self, ticket: Ticket) -> bool:
        """Take a run that lies in the home; False where there is none."""
        if not self._runs.has(ticket.key):
            return False
        with self._runs.kept():
            found = self._runs.find(ticket.key)
            if found is not None:
                self._take(ticket, found.outcome, found.trained_for)
        return found is not None

    def _take(self, ticket: Ticket, outcome: Outcome, trained_for: str) -> None:
        """Journal, searcher, listeners, in this order."""
        entry = Ended(ticket.key, ticket.request, outcome, trained_for)
        self._journal.append(entry)
        self._kept[ticket.key] = outcome
        if not entry.request.phase:
            self.searcher.tell(entry.request, self._seen(outcome, self.sweep.spec.target))
        self._on_end(entry)
        self._on_change()

    def _continued(self, ticket: Ticket) -> Stack | None:
        """The interrupted stack this run was part of, whole, since only the same stack can go on from a checkpoint."""
        for place, stack in enumerate(self._interrupted):
            if ticket in stack.tickets:
                return self._interrupted.pop(place)
        return None
