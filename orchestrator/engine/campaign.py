"""A sweep under way: decides which stack starts next, and takes in what comes back. It knows no Ray; engines drive it.

The order of events for a run that ends is always the same: its directory is written, the journal holds it, the searcher
is told, the observer hears of it. A crash between any two of them loses nothing. A wanted run that the home has
already goes the same way without training; one that another sweep trains is waited for. Of an arm of several
phases each is a run, which waits for the one that it goes on from.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from orchestrator.engine.base import MachineError, StackJob, StackReport
from orchestrator.engine.retries import Retries
from orchestrator.engine.state import SweepState, Training
from orchestrator.home.checkpoints import Checkpoints, Underway
from orchestrator.home.journal import Asked, Ended, Journal, Stopped
from orchestrator.home.machine_errors import trouble_words
from orchestrator.home.run_claims import SweepRuns
from orchestrator.home.sweeps import Sweep
from orchestrator.search.base import BY_HAND, Observation, Request, Searcher
from orchestrator.space.evidence import observe
from orchestrator.stacks import Stack, StackSizes, Ticket, next_stack
from trainables.base import Evaluation, Family, Outcome, Status

log = logging.getLogger(__name__)


class Observer:
    """Hears what happens in a campaign, in the driver's thread. This one does nothing."""

    @property
    def behind(self) -> bool:
        """True while no stack may start, since the observer cannot follow."""
        return False

    def look(self) -> None:
        """Called often: carry out what people ask for meanwhile."""

    def ended(self, entry: Ended) -> None:
        """A run ended, and is safe."""

    def changed(self) -> None:
        """Anything happened."""


class Campaign:
    """Called from the driver's thread only.

    ``limits`` are the largest stacks, by size, at sizes that ran out of memory; they hold for larger sizes, too.
    ``known`` are the runs in the journal, ``blocks`` counts the searcher's blocks there, ``interrupted`` are the stacks
    with a checkpoint; ``seen`` says what the searcher
    learns from an outcome for the target. Damaged files and machine errors are logged.

    A machine error is no outcome. A stack that meets one is retried a few times; after that, or if the driver's own
    writing meets one, the sweep is stopping, and ``machine_error`` says why (else ``""``).
    """

    def __init__(
        self,
        sweep: Sweep,
        searcher: Searcher,
        journal: Journal,
        *,
        slots: int,
        sizing: StackSizes,
        interrupted: Sequence[Sequence[Request]] = (),
        known: Sequence[Ended] = (),
        blocks: int = 0,
        seen: Callable[[Outcome, str], Observation | None] = observe,
    ) -> None:
        self.sweep = sweep
        self.searcher = searcher
        self.slots = slots
        self.sizing = sizing
        self.limits: dict[int, int] = {}
        self.stopping = False
        self.machine_error = ""
        self.observer = Observer()
        self.state = SweepState()
        self._family: Family = sweep.spec.make_family()
        self._journal = journal
        self._seen = seen
        self._blocks = blocks
        self._files = sweep.files
        self._runs = SweepRuns(self._files)
        self._underway = Underway(self._files)
        self._alone: set[str] = set()
        self._retries = Retries()
        self.state.interrupted = [Stack(tuple(map(self.ticket, requests))) for requests in interrupted]
        for entry in known:
            self.state.end(entry, sweep.record(entry))

    @property
    def done(self) -> bool:
        """True when nothing is training or waiting and the searcher wants nothing more, or the sweep is stopping."""
        return self.stopping or (self.state.idle and self.searcher.done)

    @property
    def training(self) -> dict[str, Training]:
        return self.state.training

    def given_up(self, stack_id: str) -> bool:
        """True if a worker has a stack without a wanted run."""
        stack = self.state.stacks.get(stack_id)
        return stack is not None and not self.state.trains(stack)

    def look(self) -> None:
        """Carry out what people have asked for meanwhile."""
        with self._watched():
            self.observer.look()

    def stop_mix(self, mix: str) -> None:
        """Want no more runs of a mix. Those in training are given up, but for one that another mix waits for; those
        that ended stay."""
        if mix in self.searcher.stopped:
            return
        self._journal.append(Stopped(mix))
        self.searcher.stop(mix)
        state = self.state
        state.twins = [ticket for ticket in state.twins if ticket.request.mix != mix]
        others = [*state.twins, *(each for each in state.later.values() if each.request.mix != mix)]
        needed = {ticket.key for ticket in others} | set(self._donor_keys(others))
        for waiting in (state.waiting, state.elsewhere, state.later):
            for key, ticket in list(waiting.items()):
                if ticket.request.mix == mix and key not in needed:
                    del waiting[key]
                    self._runs.free(key)
        dropped = [each.ticket for each in state.training.values() if each.ticket.request.mix == mix]
        for ticket in state.give_up(ticket for ticket in dropped if ticket.key not in needed):
            self._runs.free(ticket.key)
        self.observer.changed()

    def stop_run(self, key: str) -> bool:
        """Give up a run in training: it has failed, by hand. False if none of this key is in training."""
        found = key in self.training
        self.ended(key, Outcome(Status.FAILED, 0, {}, {}, error=BY_HAND))
        return found

    def ticket(self, request: Request) -> Ticket:
        """The run that a request means."""
        config = self.sweep.spec.config(request)
        return Ticket(request, config, self._family.key(config), self._family.shape(config))

    def job(self, stack: Stack) -> StackJob:
        """The job that trains a stack, which has begun."""
        wanted = [place for place, ticket in enumerate(stack.tickets) if ticket.key in self.training]
        donors = {key: self._runs.weights(key) for key in self._donor_keys(stack.tickets[place] for place in wanted)}
        return StackJob(
            tuple(ticket.request for ticket in stack.tickets),
            tuple(wanted),
            self.sweep.id,
            stack.id,
            str(self._files.directory),
            {key: path.read_bytes() for key, path in donors.items() if path is not None},
        )

    def take_in(self, stack_id: str, report: StackReport) -> None:
        """Take in a worker's report."""
        for said in report.said:
            log.warning(said)
        for run in report.runs:
            if run.evaluation is not None:
                self.evaluated(run.key, run.evaluation)
            if run.outcome is not None:
                self.ended(run.key, run.outcome, run.files)
        if report.halves:
            self.stack_halved(stack_id, report.halves)
        if report.broken:
            self.stack_broke_contract(stack_id, report.broken)
        if report.machine_error:
            self.stack_met_machine_error(stack_id, report.machine_error)

    def check_machine(self) -> None:
        """Raise :class:`MachineError` if the campaign has stopped for one."""
        if self.machine_error:
            raise MachineError(self.machine_error)

    def next_stack(self) -> Stack | None:
        """The stack to start on an idle slot; None to wait (or, with :attr:`done`, because all is over)."""
        with self._watched():
            self.observer.look()
            if self.stopping or self.observer.behind or self._retries.waiting:
                return None
            free = max(1, self.slots - self.state.busy)
            self._look_again()
            self._ask(free)
            if self.state.waiting:
                self._ask(free * self._most(next(iter(self.state.waiting.values()))))
            stack = self._choose(free)
            if stack is not None:
                self._underway.begin(stack.id, [ticket.request for ticket in stack.tickets])
                self.observer.changed()
            return stack
        return None

    def evaluated(self, key: str, evaluation: Evaluation) -> None:
        if key in self.training:
            self.training[key].evaluated(evaluation)
            with self._watched():
                self._underway.evaluated(self.training[key].stack_id, key, evaluation)
            self.observer.changed()

    def ended(self, key: str, outcome: Outcome, files: Mapping[str, bytes] | None = None) -> None:
        """A run in training ended, and left these files. One that failed is not kept. A repeated report changes
        nothing."""
        training = self.training.pop(key, None)
        if training is None:
            return
        with self._watched():
            trained_for = ""
            if files is not None and outcome.status is not Status.FAILED:
                kept = self._runs.keep(key, outcome, files)
                outcome, trained_for = kept.outcome, kept.trained_for
            self._take(training.ticket, outcome, trained_for)
            self._runs.free(key)

    def stack_ended(self, stack_id: str) -> None:
        """A trial ended well: every run of its stack has been reported, unless it was stopped before."""
        stack = self.state.stacks.pop(stack_id, None)
        if stack is not None and not self.state.trains(stack):
            self._underway.end(stack_id)
            if all(ticket.key in self.state.ended for ticket in stack.tickets):
                Checkpoints(self._files.checkpoints).drop(stack_id)
        elif stack is not None and self.stopping:
            self.state.give_up(stack.tickets)

    def stack_failed(self, stack_id: str, error: str, *, retries: int = 0) -> None:
        """A stack failed: it continues next, up to ``retries`` times. After that its unfinished runs are trained alone;
        a run that fails alone has failed. If the sweep is stopping, they continue when it is resumed."""
        stack = self.state.stacks.pop(stack_id)
        again = self._retries.failed(stack_id, retries)
        if not self.stopping and len(stack.tickets) == 1 and not again:
            self.ended(stack.tickets[0].key, Outcome(Status.FAILED, 0, {}, {}, error=error))
            return
        unfinished = self.state.give_up(stack.tickets)
        if self.stopping:
            return
        if again:
            self.state.put_first([stack], unfinished)
        else:
            self._alone.update(ticket.key for ticket in unfinished)
            self.state.waiting |= {ticket.key: ticket for ticket in unfinished}

    def stack_met_machine_error(self, stack_id: str, error: str) -> None:
        """A worker gave a stack up for an error of its machine: it continues next, whole, after a while. After the last
        retry the sweep is stopping."""
        stack = self.state.stacks.pop(stack_id)
        unfinished = self.state.give_up(stack.tickets)
        if not unfinished or self.stopping:
            return
        self.state.put_first([stack], unfinished)
        wait_s = self._retries.met_machine_error(stack_id)
        if wait_s is None:
            self._stop(error)
        else:
            log.warning(f"Machine error (not a result): {error}; retrying in {wait_s:g} s")
        self.observer.changed()

    def engine_met_machine_error(self, error: str) -> None:
        """Retry every stack in training after a machine error that ended all of them. Without one the sweep stops."""
        if not self.state.stacks:
            self._stop(error)
        for stack_id in list(self.state.stacks):
            self.stack_met_machine_error(stack_id, error)

    def stack_broke_contract(self, stack_id: str, why: str) -> None:
        """A family broke its contract: no run of it can be believed, and the sweep is stopping."""
        self.state.give_up(self.state.stacks.pop(stack_id).tickets)
        self._stop(f"{why}; `check-family` looks at all of it")
        self.observer.changed()

    def stack_halved(self, stack_id: str, halves: Sequence[Sequence[Request]]) -> None:
        """A stack was too large for the memory of its device: its unfinished runs continue next, as these stacks. No
        stack of this size, or of a larger one, will be larger than they are."""
        stack = self.state.stacks.pop(stack_id)
        by_request = {ticket.request: ticket for ticket in stack.tickets}
        smaller = [Stack(tuple(by_request[request] for request in half)) for half in halves]
        size = stack.tickets[0].config.size
        self.limits[size] = min(self._limit(size), max(len(half.tickets) for half in smaller))
        with self._watched():
            self._underway.become(stack_id, {half.id: [ticket.request for ticket in half.tickets] for half in smaller})
        self.state.put_first(smaller, self.state.give_up(ticket for half in smaller for ticket in half.tickets))
        self.observer.changed()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """A block in which the driver writes or reads. At a machine error the sweep is stopping: what was not
        journalled is on disk, or trained again, when it continues."""
        try:
            yield
        except Exception as error:
            said = trouble_words(error, self._files.directory)
            if not said:
                raise
            self._stop(said)

    def _stop(self, error: str) -> None:
        self.machine_error = self.machine_error or error
        self.stopping = True

    def _most(self, ticket: Ticket) -> int:
        """The most runs to train together with this one."""
        size = ticket.config.size
        return 1 if ticket.key in self._alone else min(self.sizing.most(size), self._limit(size))

    def _limit(self, size: int) -> int:
        """The largest stack that may fit: what ran out of memory at some size does so at every larger one."""
        return min((most for at, most in self.limits.items() if at <= size), default=sys.maxsize)

    def _ask(self, room: int) -> None:
        """Ask the searcher until so many runs wait to be trained, or it wants no more."""
        found = True
        while found and not self.observer.behind:
            found = False
            requests = self.searcher.ask(room - len(self.state.waiting))
            if blocks := self.searcher.blocks[self._blocks :]:  # On disk before any of their runs begins or is found.
                self._journal.append(Asked(blocks))
                self._blocks += len(blocks)
            for request in requests:
                found |= self._add(self.ticket(request))

    def _add(self, ticket: Ticket) -> bool:
        """Take in a run that the searcher wants; True if it was there, so that the searcher may want another."""
        if ticket.key in self.state.ended:  # It is a run of another arm as well.
            self._take(ticket, self.state.ended[ticket.key], self._runs.sweep_id)
            return True
        if (same := self.state.wanted(ticket.key)) is not None:
            if same.request != ticket.request:  # Otherwise an interrupted stack trains it already.
                self.state.twins.append(ticket)
            return False
        if self._found(ticket):
            return True
        self._want(ticket)
        return False

    def _want(self, ticket: Ticket) -> None:
        """Have a run trained: now, or once the phase has ended that it goes on from."""
        before = self.sweep.spec.before(ticket.request)
        if before is None:
            self.state.waiting[ticket.key] = ticket
            return
        self.state.later[ticket.key] = ticket
        donor = self.ticket(before)
        if donor.key not in self.state.ended and self.state.wanted(donor.key) is None and not self._found(donor):
            self._want(donor)
        self._begin_later_phases()

    def _look_again(self) -> None:
        """Take the runs that other sweeps, or other arms of this one, have ended; want those that were given up."""
        state, twins = self.state, self.state.twins
        state.twins = [ticket for ticket in twins if ticket.key not in state.ended]
        for ticket in twins:
            if ticket.key in state.ended:
                self._take(ticket, state.ended[ticket.key], self._runs.sweep_id)
        for key, ticket in list(state.elsewhere.items()):
            if self._found(ticket):
                del state.elsewhere[key]
            elif self._runs.claim(key):
                state.waiting[key] = state.elsewhere.pop(key)
        self._begin_later_phases()

    def _begin_later_phases(self) -> None:
        """Have the runs wait for a slot whose earlier phase has ended. If it left no weights, they have failed."""
        for key, ticket in list(self.state.later.items()):
            start = ticket.config.start
            assert start is not None, "only runs that go on from another one wait for it"
            donor = self._family.key(start.donor)
            if self._runs.weights(donor) is not None:
                self.state.waiting[key] = self.state.later.pop(key)
            elif (gone := self.state.ended.get(donor)) is not None:
                del self.state.later[key]
                why = f"{start.donor.label} at size {start.donor.size}, seed {start.donor.seed}, {gone.status}"
                failed = Outcome(Status.FAILED, 0, {}, {}, error=f"there are no weights to go on from: {why}")
                self._take(ticket, failed, "")

    def _choose(self, free: int) -> Stack | None:
        """Begin the stack of the most urgent runs, when ``free`` slots are idle. None if no run waits for a slot."""
        state = self.state
        while state.waiting:
            waiting = list(state.waiting.values())
            stack = state.continued(waiting[0])
            if stack is not None:  # It continues whole, or its checkpoint is of no use.
                wanted = [ticket for ticket in stack.tickets if self._goes_on(ticket)]
            else:
                chosen = next_stack(waiting, free, self._most(waiting[0])).tickets
                wanted = [ticket for ticket in chosen if self._is_ours(ticket)]
            if wanted:
                stack = stack or Stack(tuple(wanted))
                state.begin(stack, wanted)
                return stack
        return None

    def _goes_on(self, ticket: Ticket) -> bool:
        """True if a run of an interrupted stack is to be trained."""
        if ticket.key in self.state.ended:
            return False
        wanted = ticket.key in self.state.waiting or ticket.request.mix not in self.searcher.stopped
        return wanted and self._is_ours(ticket)

    def _is_ours(self, ticket: Ticket) -> bool:
        """True if this sweep is to train a run. Else it has ended, or another sweep trains it."""
        if not self._runs.claim(ticket.key):
            self.state.elsewhere[ticket.key] = ticket
        elif self._found(ticket):  # It ended before the claim.
            self._runs.free(ticket.key)
        else:
            return True
        self.state.waiting.pop(ticket.key, None)
        return False

    def _found(self, ticket: Ticket) -> bool:
        """Take a run from the home; False if there is none."""
        if not self._runs.has(ticket.key):
            return False
        with self._runs.kept():
            found = self._runs.find(ticket.key)
            if found is not None:
                self._take(ticket, found.outcome, found.trained_for)
        return found is not None

    def _take(self, ticket: Ticket, outcome: Outcome, trained_for: str) -> None:
        """Journal, searcher, observer, in this order."""
        entry = Ended(ticket.key, ticket.request, outcome, trained_for)
        self._journal.append(entry)
        self.state.end(entry, self.sweep.record(entry))
        if not entry.request.phase:
            self.searcher.tell(entry.request, self._seen(outcome, self.sweep.spec.target))
        self.observer.ended(entry)
        self.observer.changed()

    def _donor_keys(self, tickets: Iterable[Ticket]) -> list[str]:
        """The keys of the runs that these go on from."""
        starts = [ticket.config.start for ticket in tickets if ticket.config.start is not None]
        return sorted({self._family.key(start.donor) for start in starts})
