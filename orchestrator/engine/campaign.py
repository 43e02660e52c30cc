"""A running sweep: chooses the stacks to start and processes reports. Engines call it; it does not depend on Ray.

When a run ends, its directory is written, then its line in the journal; then the searcher gets the result, and last the
observer. A crash between two of these steps loses nothing. A wanted run that the home already has goes through the same
steps without training. If another sweep is training a run, the campaign waits for the result. Each phase of an arm is a
separate run that waits for the previous phase.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, InitVar, dataclass, replace

from orchestrator.engine.base import StackJob, StackReport
from orchestrator.engine.run_table import Run, RunState, RunTable
from orchestrator.home.checkpoints import Checkpoints, StackNotes
from orchestrator.home.journal import Asked, Ended, Journal, Stopped
from orchestrator.home.run_store import RunStore, StoredRun
from orchestrator.home.sweeps import RunRecord, Sweep
from orchestrator.search.base import Observation, Request, Searcher
from orchestrator.space.observations import observe
from orchestrator.stacks import Stack, StackSizes, Ticket, next_stack
from orchestrator.system.machine_errors import trouble_words
from trainables.base import Family, Outcome, Status

log = logging.getLogger(__name__)

WAITS_S = (1.0, 5.0, 15.0, 30.0, 60.0)
"""Seconds before each retry of a stack after a machine error, so that disk space or memory may be freed. After the last
retry the sweep stops."""


class Observer:
    """Follows a campaign in the driver's thread. The methods of this base class do nothing."""

    def look(self) -> None:
        """Handle external requests and show progress. Called often."""

    def ended(self, record: RunRecord) -> None:
        """Handle a run that ended and was stored."""


@dataclass(eq=False)
class Campaign:
    """The runs of a sweep and the order in which they are trained. Used in the driver's thread only.

    A machine error is not an outcome. After the last retry of a stack, or if the driver itself cannot write, the sweep
    stops and ``machine_error`` contains the reason (otherwise ""). ``broken`` contains the same reason if the family
    broke its contract or a worker has other code.

    Attributes:
        slots: Number of stacks that can train at the same time.
        known: Runs in the journal, which are passed to the searcher.
        blocks: Number of the searcher's blocks that are in the journal.
        observation: Converts an outcome and the target into the searcher's observation.
        records: The runs that ended, in the journal's order. A run that two arms share appears twice.
        limits: Maximum number of runs in a stack, by model size, for sizes that ran out of memory. A limit also applies
            to larger sizes.
        stopping: True if no more stacks may start.
    """

    sweep: Sweep
    searcher: Searcher
    journal: Journal
    _: KW_ONLY
    slots: int
    sizing: StackSizes
    known: InitVar[Sequence[Ended]] = ()
    blocks: int = 0
    observation: Callable[[Outcome, str], Observation | None] = observe

    def __post_init__(self, known: Sequence[Ended]) -> None:
        sweep, files = self.sweep, self.sweep.files
        self.records: list[RunRecord] = []
        self.limits: dict[int, int] = {}
        self.stopping = False
        self.machine_error = ""
        self.broken = ""
        self.observer = Observer()
        self._family: Family = sweep.spec.make_family()
        self._source = sweep.spec.source
        self._store = RunStore(files.home, sweep.id, self._source)
        self._notes = StackNotes(files.stacks)
        self._checkpoints = Checkpoints(files.checkpoints)
        self._messages: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._machine_errors: Counter[str] = Counter()
        self._waits_until = 0.0
        """Time (monotonic) before which no stack starts after a machine error, because it would probably fail too."""
        self.table = RunTable([Stack(tuple(map(self.ticket, one))) for one in self._checkpoints.interrupted()])
        for entry in known:
            self._enter(replace(self.ticket(entry.request), key=entry.key), entry)

    @property
    def done(self) -> bool:
        """True if the sweep is stopping, or if no run is wanted and the searcher has finished."""
        return self.stopping or (self.table.idle and self.searcher.done)

    @property
    def runs_resume(self) -> bool:
        """True if a killed run continues from a checkpoint; False if it begins again."""
        return self._family.resumes

    @property
    def training(self) -> list[Run]:
        return self.table.in_state(RunState.TRAINING)

    def is_over(self, stack_id: str) -> bool:
        """Return True if a stack's worker should end: the sweep is stopping, or none of the stack's runs is wanted."""
        stack = self.table.stacks.get(stack_id)
        return self.stopping or (stack is not None and not self.table.members(stack))

    def has_progress(self, stack_id: str) -> bool:
        """Return True if a run was evaluated since its stack started, so that a checkpoint would save progress."""
        return any(run.stack_id == stack_id and run.evaluation is not None for run in self.training)

    def look(self) -> None:
        with self._watched():
            self.observer.look()

    def ticket(self, request: Request) -> Ticket:
        config = self.sweep.spec.config(request)
        return Ticket(request, config, self._family.key(config), self._family.shape(config))

    # Requests by the user

    def stop_mix(self, mix: str) -> None:
        """Stop requesting runs of a mix. Drop its runs in training unless another mix needs them; keep ended ones."""
        if mix in self.searcher.stopped:
            return
        self.journal.append(Stopped(mix))
        self.searcher.stop(mix)
        for run in self.table.values():
            run.twins = [twin for twin in run.twins if twin.request.mix != mix]
        live = [run for run in self.table.values() if run.state is not RunState.ENDED]
        blocked = [run.ticket for run in live if run.state is RunState.BLOCKED and run.ticket.request.mix != mix]
        donors = self._donor_keys([*blocked, *(twin for run in live for twin in run.twins)])
        for run in live:
            key = run.ticket.key
            if run.ticket.request.mix == mix and not run.twins and key not in donors:
                del self.table[key]
                self._store.free(key)

    # What starts next

    def next_stack(self) -> Stack | None:
        """Return the stack to start on an idle slot. None means wait or, if :attr:`done`, stop."""
        stack = None
        with self._watched():
            if not (self.stopping or time.monotonic() < self._waits_until):
                free = max(1, self.slots - self.table.busy)
                for run in self.table.in_state(RunState.ELSEWHERE):  # Claim those that no sweep trains any more.
                    if not self._find(run.ticket) and self._store.claim(run.ticket.key):
                        self.table.add(run.ticket, RunState.WAITING)
                self._unblock()
                self._ask(free)
                if waiting := self.table.in_state(RunState.WAITING):
                    self._ask(free * self._largest(waiting[0]))
                stack = self._choose(free)
            if stack is not None:
                self._notes.begin(stack.id, stack.requests)
            self.observer.look()  # Last, to show the new stack: generating its data may take minutes.
        return stack

    def job(self, stack: Stack) -> StackJob:
        """Return the job that trains a stack returned by :meth:`next_stack`."""
        members = {run.ticket.key for run in self.table.members(stack)}
        wanted = [index for index, ticket in enumerate(stack.tickets) if ticket.key in members]
        donors = {key: self._store.weights(key) for key in self._donor_keys(stack.tickets[index] for index in wanted)}
        return StackJob(
            stack.requests,
            tuple(wanted),
            self.sweep.id,
            stack.id,
            str(self.sweep.files.directory),
            {key: path.read_bytes() for key, path in donors.items() if path is not None},
            tuple(ticket.key for ticket in stack.tickets),
            self._family.version,
            self._source,
        )

    def _ask(self, room: int) -> None:
        """Ask the searcher for runs until ``room`` runs wait for a slot or the searcher has no more."""
        ended = True
        while ended:
            requests = self.searcher.ask(room - len(self.table.in_state(RunState.WAITING)), self._ending())
            # Write blocks to disk before any of their runs starts or is found.
            if blocks := self.searcher.blocks[self.blocks :]:
                self.journal.append(Asked(blocks))
                self.blocks += len(blocks)
            added = [self._add(self.ticket(request)) for request in requests]
            ended = any(added)

    def _ending(self) -> list[Request]:
        """Return the requests of the runs in training that are about to end."""
        now = time.monotonic()
        runs = [run for run in self.training if run.is_ending(self._family.steps(run.ticket.config), now)]
        return [ticket.request for run in runs for ticket in (run.ticket, *run.twins)]

    def _add(self, ticket: Ticket) -> bool:
        """Add a run that the searcher wants. Return True if it has already ended, so that there is room for another."""
        run = self.table.get(ticket.key)
        if run is not None and run.outcome is not None:  # Another arm shares this run.
            self._take(ticket, run.outcome, self.sweep.id)
            return True
        if run is not None:
            if run.ticket.request != ticket.request:  # Otherwise an interrupted stack already trains it.
                run.twins.append(ticket)
            return False
        if self._find(ticket):
            return True
        self._want(ticket)
        return False

    def _want(self, ticket: Ticket) -> None:
        """Queue a run for a slot, or block it until the phase that it continues has ended."""
        before = self.sweep.spec.before(ticket.request)
        if before is None:
            self.table.add(ticket, RunState.WAITING)
            return
        self.table.add(ticket, RunState.BLOCKED)
        donor = self.ticket(before)
        if self.table.get(donor.key) is None and not self._find(donor):
            self._want(donor)
        self._unblock()

    def _unblock(self) -> None:
        """Queue blocked runs whose previous phase has ended. A run whose previous phase left no weights fails."""
        for run in self.table.in_state(RunState.BLOCKED):
            start = run.ticket.config.start
            assert start is not None, "only a later phase is blocked"
            donor = self._family.key(start.donor)
            if self._store.weights(donor) is not None:
                self.table.add(run.ticket, RunState.WAITING)
            elif (outcome := self.table.outcome(donor)) is not None:
                why = f"{start.donor.label} at size {start.donor.size}, seed {start.donor.seed}, {outcome.status}"
                self._take(run.ticket, _failed(f"the previous phase left no weights: {why}"))

    def _choose(self, free: int) -> Stack | None:
        """Return the stack of the most urgent runs for ``free`` idle slots, or None if no run waits for a slot."""
        while waiting := self.table.in_state(RunState.WAITING):
            first = waiting[0]
            stack = self.table.take_interrupted(first.ticket)
            if stack is not None:  # A checkpoint can only be restored with all of its runs.
                wanted = [ticket for ticket in stack.tickets if self._continues(ticket) and self._is_ours(ticket)]
            else:
                chosen = next_stack([run.ticket for run in waiting], free, self._largest(first)).tickets
                wanted = [ticket for ticket in chosen if self._is_ours(ticket)]
            if wanted:
                stack = stack or Stack(tuple(wanted))
                self.table.stacks[stack.id] = stack
                for ticket in wanted:
                    run = self.table.get(ticket.key) or self.table.add(ticket, RunState.WAITING)
                    run.begin(stack.id)
                return stack
        return None

    def _continues(self, ticket: Ticket) -> bool:
        run = self.table.get(ticket.key)
        if run is not None and run.state in (RunState.WAITING, RunState.TRAINING, RunState.ENDED):
            return run.state is RunState.WAITING
        return ticket.request.mix not in self.searcher.stopped

    def _is_ours(self, ticket: Ticket) -> bool:
        """Return True if this sweep must train a run, False if it has ended or another sweep is training it."""
        if not self._store.claim(ticket.key):
            self.table.add(ticket, RunState.ELSEWHERE)
            return False
        if self._find(ticket):  # It ended before the claim.
            self._store.free(ticket.key)
            return False
        return True

    def _largest(self, run: Run) -> int:
        size = run.ticket.config.size
        return 1 if run.alone else min(self.sizing.most(size), self._limit(size))

    def _limit(self, size: int) -> int:
        """Return the largest stack that may fit. A stack too large for one size is too large for all larger sizes."""
        return min((most for at, most in self.limits.items() if at <= size), default=sys.maxsize)

    def _donor_keys(self, tickets: Iterable[Ticket]) -> list[str]:
        starts = [ticket.config.start for ticket in tickets if ticket.config.start is not None]
        return sorted({self._family.key(start.donor) for start in starts})

    # Reports

    def take_in(self, stack_id: str, report: StackReport) -> None:
        for message in report.messages:
            if message not in self._messages:  # Every process sends the messages about its machine.
                log.warning(message)
            self._messages.add(message)
        for reported in report.runs:
            run = self.table.get(reported.key)
            if reported.evaluation is not None and run is not None and run.state is RunState.TRAINING:
                run.evaluated(reported.evaluation)
                with self._watched():
                    self._notes.evaluated(run.stack_id, reported.key, reported.evaluation)
            if reported.outcome is not None:
                self.ended(reported.key, reported.outcome, reported.files)
        if report.halves:
            self.stack_halved(stack_id, report.halves)
        if report.broken:
            self._leave(stack_id)
            self.broken = self.broken or report.broken
            self._stop(report.broken)
        if report.machine_error:
            self.stack_met_machine_error(stack_id, report.machine_error)

    def ended(self, key: str, outcome: Outcome, files: Mapping[str, bytes] | None = None) -> bool:
        """Record an ended run and, unless it failed, store it with its files. Return False and change nothing if the
        run is not in training (for example, if it was reported twice)."""
        run = self.table.get(key)
        if run is None or run.state is not RunState.TRAINING:
            return False
        with self._watched():
            trained_for = ""
            if outcome.status is not Status.FAILED:
                stored = self._store.put(key, outcome, files or {})
                outcome, trained_for = stored.outcome, stored.trained_for
            self._take(run.ticket, outcome, trained_for)
            self._store.free(key)
        return True

    def stack_ended(self, stack_id: str) -> None:
        """Process the end of a trial. All runs of its stack were reported, unless the stack was stopped early."""
        stack = self.table.stacks.pop(stack_id, None)
        if stack is None:
            return
        members = self.table.members(stack)
        if not members:
            self._notes.end(stack_id)
            if all(self.table.outcome(ticket.key) is not None for ticket in stack.tickets):
                self._checkpoints.drop(stack_id)
        elif self.stopping:
            self.table.wait_first(members)

    def stack_failed(self, stack_id: str, error: str, *, retries: int = 0) -> None:
        """Queue a failed stack to continue next, up to ``retries`` times. After that, train its unfinished runs one at
        a time; a run that fails alone has failed. If the sweep is stopping, the runs stay unfinished until it is
        resumed."""
        self._failures[stack_id] += 1
        again = self._failures[stack_id] <= retries
        if not self.stopping and not again and len(self.table.stacks[stack_id].tickets) == 1:
            [ticket] = self.table.stacks.pop(stack_id).tickets
            self._checkpoints.drop_work(stack_id)  # A run that is tried again must not start from what failed.
            self.ended(ticket.key, _failed(error))
            return
        stack, unfinished = self._leave(stack_id)
        if again and not self.stopping:
            self.table.interrupted.insert(0, stack)
        elif not self.stopping:
            for run in unfinished:
                self.table.add(run.ticket, RunState.WAITING).alone = True

    def stack_met_machine_error(self, stack_id: str, error: str, *, can_retry: bool = True) -> None:
        """Retry a whole stack after a delay because its machine failed. Stop the sweep after the last retry, or at
        once if it cannot be retried."""
        stack, unfinished = self._leave(stack_id)
        if not unfinished or self.stopping:
            return
        self.table.interrupted.insert(0, stack)
        count = self._machine_errors[stack_id]
        self._machine_errors[stack_id] += 1
        if not can_retry or count == len(WAITS_S):
            self._stop(error)
            return
        self._waits_until = time.monotonic() + WAITS_S[count]
        log.warning(f"Machine error (not a result): {error}; retrying in {WAITS_S[count]:g} s")

    def engine_met_machine_error(self, error: str) -> None:
        """Retry all stacks after a machine error that ended them. Stop the sweep if no stack was in training."""
        if not self.table.stacks:
            self._stop(error)
        for stack_id in list(self.table.stacks):
            self.stack_met_machine_error(stack_id, error)

    def stack_halved(self, stack_id: str, halves: Sequence[Sequence[Request]]) -> None:
        """Replace a stack that ran out of memory with ``halves``. They limit later stacks of at least its size."""
        stack, _ = self._leave(stack_id)
        by_request = {ticket.request: ticket for ticket in stack.tickets}
        smaller = [Stack(tuple(by_request[request] for request in half)) for half in halves]
        size = stack.tickets[0].config.size
        self.limits[size] = min(self._limit(size), max(len(half.tickets) for half in smaller))
        with self._watched():
            self._notes.split(stack_id, {half.id: half.requests for half in smaller})
        self.table.interrupted[:0] = smaller

    def _leave(self, stack_id: str) -> tuple[Stack, list[Run]]:
        """Remove a stack from its worker and queue its unfinished runs before all others. Return both."""
        stack = self.table.stacks.pop(stack_id)
        unfinished = self.table.members(stack)
        self.table.wait_first(unfinished)
        return stack, unfinished

    def _find(self, ticket: Ticket) -> bool:
        """Take a run's result from the home. Return False if the home does not have it."""
        if not self._store.has(ticket.key):
            return False
        with self._store.locked():  # Prevents removal of the run before it is in the journal.
            stored = self._store.find(ticket.key)
            if stored is not None and self._is_refused(ticket, stored):
                return False
            if stored is not None:
                self._take(ticket, stored.outcome, stored.trained_for)
        return stored is not None

    def _is_refused(self, ticket: Ticket, stored: StoredRun) -> bool:
        """Stop the sweep if a stored run was trained by other code, for example by a sweep that runs at the same time.
        Most such runs are refused before the sweep starts (home/known_code.py)."""
        spec = self.sweep.spec
        is_other = "" not in (stored.source, self._source) and stored.source != self._source
        if is_other and spec.code == "refuse":
            trained = f"run {ticket.key} was trained by other code of {spec.family}"
            self._stop(f"{trained}, for {stored.trained_for or self.sweep.id}: raise `version`, or add --set code=warn")
        return is_other and spec.code == "refuse"

    def _take(self, ticket: Ticket, outcome: Outcome, trained_for: str = "") -> None:
        """Pass an outcome to the journal, then the searcher, then the observer. Repeat for its twins: the same run
        requested by another arm."""
        entry = Ended(ticket.key, ticket.request, outcome, trained_for)
        self.journal.append(entry)
        self._enter(ticket, entry)
        self.observer.ended(self.records[-1])
        run = self.table.get(ticket.key)
        while run is not None and run.twins:
            self._take(run.twins.pop(0), outcome, self.sweep.id)

    def _enter(self, ticket: Ticket, entry: Ended) -> None:
        self.table.add(ticket, RunState.ENDED, entry.outcome)
        self.records.append(self.sweep.record(entry))
        if not entry.request.phase:
            self.searcher.tell(entry.request, self.observation(entry.outcome, self.sweep.spec.target))

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Stop the sweep on a machine error in the block. A run that did not reach the journal is either on disk or
        will be trained again."""
        try:
            yield
        except Exception as error:
            message = trouble_words(error, self.sweep.files.directory)
            if not message:
                raise
            self._stop(message)

    def _stop(self, error: str) -> None:
        self.machine_error = self.machine_error or error
        self.stopping = True


def _failed(error: str) -> Outcome:
    return Outcome(Status.FAILED, 0, {}, {}, error=error)
