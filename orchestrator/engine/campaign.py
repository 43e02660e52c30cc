"""A running campaign: chooses the stacks to start and processes reports. Engines call it; it does not depend on Ray.

It trains the jobs of a plan (machine/jobs.py) and does not know the question that they answer. When a run ends, its
directory is written; then the plan gets the outcome. A crash between these steps loses nothing. A job whose run is in
the home already goes through the same steps without training. If another sweep is training a run, the campaign waits
for the result. A job that starts from the weights of another waits for it.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Protocol

from orchestrator.engine.messages import StackJob, StackReport
from orchestrator.engine.retries import Retries
from orchestrator.engine.run_table import RunState, RunTable, TableRun
from orchestrator.home.checkpoints import Checkpoints, StackNotes
from orchestrator.home.directories import SweepDirectory
from orchestrator.home.run_store import RunStore
from orchestrator.machine.jobs import Job, Member, Plan, Setup, Stack, next_stack
from orchestrator.system.machine_errors import trouble_words
from trainables.base import Family, Outcome, Status

log = logging.getLogger(__name__)


class Sizing(Protocol):
    """How many runs may share a stack."""

    def most(self, size: int) -> int:
        """Return the maximum number of runs of this size in a stack, at least 1."""


class OneByOne:
    """A sizing in which every run trains alone."""

    def most(self, size: int) -> int:
        return 1


class Observer:
    """Follows a campaign in the driver's thread. The method of this base class does nothing."""

    def look(self) -> None:
        """Handle external requests and show progress. Called often."""


@dataclass(eq=False)
class Campaign:
    """The runs of a plan and the order in which they are trained. Used in the driver's thread only.

    A machine error is not an outcome. After the last retry of a stack, or if the driver itself cannot write, the
    campaign stops and ``machine_error`` contains the reason (otherwise ""). ``broken`` contains the same reason if the
    family broke its contract or a worker has other code.

    Attributes:
        files: Directory of the sweep, with checkpoints.
        setup: What the jobs share. Workers need it next to a stack's job.
        slots: Number of stacks that can train at the same time.
        sizing: Maximum number of runs in a stack, by the size of their models.
        known: Jobs whose outcomes the plan knows already.
        limits: Maximum number of runs in a stack, by model size, for sizes that ran out of memory. A limit also applies
            to larger sizes.
        resources: Resources of the stacks that start next. Their share of a GPU grows if a single run does not fit.
        stopping: True if no more stacks may start.
    """

    files: SweepDirectory
    setup: Setup
    plan: Plan
    _: KW_ONLY
    slots: int
    sizing: Sizing
    known: InitVar[Iterable[tuple[Job, Outcome]]] = ()

    def __post_init__(self, known: Iterable[tuple[Job, Outcome]]) -> None:
        files, setup = self.files, self.setup
        self.limits: dict[int, int] = {}
        self.resources = setup.resources
        self.stopping = False
        self.machine_error = ""
        self.broken = ""
        self.observer = Observer()
        self._family: Family = setup.family.make()
        self._store = RunStore(files.home, setup.sweep_id, setup.source)
        self._notes = StackNotes(files.stacks)
        self._checkpoints = Checkpoints(files.checkpoints)
        self._messages: set[str] = set()
        self._closing: set[str] = set()
        """Stacks with dropped runs whose workers have not ended."""
        self._heard: set[str] = set()
        """Stacks in training that have reported."""
        self._retries = Retries()
        self.table = RunTable([Stack(tuple(jobs)) for jobs in self._checkpoints.interrupted(self.plan.read)])
        for job, outcome in known:
            self.table.add(job, RunState.ENDED, outcome)

    @property
    def done(self) -> bool:
        """True if the campaign is stopping, or if no run is wanted and the plan is done."""
        return self.stopping or (self.table.idle and self.plan.done)

    @property
    def runs_resume(self) -> bool:
        """True if a killed run continues from a checkpoint; False if it begins again."""
        return self._family.resumes

    @property
    def training(self) -> list[TableRun]:
        return self.table.in_state(RunState.TRAINING)

    def is_over(self, stack_id: str) -> bool:
        """Return True if a stack's worker should end: the sweep is stopping, or none of the stack's runs is wanted."""
        stack = self.table.stacks.get(stack_id)
        return self.stopping or (stack is not None and not self.table.members(stack))

    def has_progress(self, stack_id: str) -> bool:
        """Return True if a stack has reported since it started, so that a checkpoint would save progress."""
        return stack_id in self._heard

    def look(self) -> None:
        with self._watched():
            self.observer.look()

    def drop_unwanted(self) -> int:
        """Drop the runs that the plan does not want any more. Keep runs whose weights a wanted run waits for.

        Return the number of dropped runs in training. Their stacks end at the next report if no other run of theirs is
        wanted, and leave checkpoints.
        """
        live = [run for run in self.table.values() if run.state is not RunState.ENDED]
        keep = {run.job.key for run in live if self.plan.wants(run.job)}
        todo = list(keep)
        while todo:  # A donor may itself wait for a donor.
            run = self.table.get(todo.pop())
            if run is not None and run.state is RunState.BLOCKED and run.job.donor not in keep:
                keep.add(run.job.donor)
                todo.append(run.job.donor)
        dropped = [run for run in live if run.job.key not in keep]
        for run in dropped:
            del self.table[run.job.key]
            self._store.free(run.job.key)
        training = [run for run in dropped if run.state is RunState.TRAINING]
        self._closing.update(run.stack_id for run in training)
        return len(training)

    def _drop_taken_back(self) -> None:
        """Drop runs that the plan does not want any more because of an outcome."""
        if self.plan.takes_back() and (count := self.drop_unwanted()):
            many = "1 run in training is" if count == 1 else f"{count} runs in training are"
            log.info(f"{many} not needed any more and will stop{', with checkpoints' if self.runs_resume else ''}")

    # What starts next

    def next_stack(self) -> Stack | None:
        """Return the stack to start on an idle slot. None means wait or, if :attr:`done`, stop."""
        stack = None
        with self._watched():
            if not (self.stopping or self._retries.are_paused):
                free = max(1, self.slots - self.table.busy)
                for run in self.table.in_state(RunState.ELSEWHERE):  # Claim those that no sweep trains any more.
                    if not self._find(run.job) and self._store.claim(run.job.key):
                        self.table.add(run.job, RunState.WAITING)
                self._unblock()
                # First for as many runs as there are slots. The largest stack is known only when their shape is; then
                # there is room for full stacks. A plan that is asked for fewer runs may choose them better.
                self._ask(free)
                if waiting := self.table.in_state(RunState.WAITING):
                    self._ask(free * self._largest(waiting[0]))
                self._drop_taken_back()  # Runs that the home has may have decided something.
                stack = self._choose(free)
            if stack is not None:
                self._heard.discard(stack.id)
                self._notes.begin(stack.id, self._members(stack))
            self.observer.look()  # Last, to show the new stack: generating its data may take minutes.
        return stack

    def job(self, stack: Stack) -> StackJob:
        """Return the job that trains a stack returned by :meth:`next_stack`."""
        training = {run.job.key for run in self.table.members(stack)}
        wanted = [index for index, job in enumerate(stack.jobs) if job.key in training]
        donors = sorted({stack.jobs[index].donor for index in wanted} - {""})
        weights = {key: self._store.weights(key) for key in donors}
        return StackJob(
            stack.id,
            tuple(job.run for job in stack.jobs),
            tuple(job.key for job in stack.jobs),
            tuple(self._members(stack)),
            tuple(wanted),
            self.resources,
            {key: path.read_bytes() for key, path in weights.items() if path is not None},
        )

    def _members(self, stack: Stack) -> list[Member]:
        return [self.plan.describe(job) for job in stack.jobs]

    def _ask(self, room: int) -> None:
        """Ask the plan for jobs until ``room`` runs wait for a slot or the plan has no more. Jobs that the home has
        leave room for others."""
        ended = True
        while ended:
            jobs = self.plan.ask(room - len(self.table.in_state(RunState.WAITING)), self._ending())
            added = [self._add(job) for job in jobs]
            ended = any(added)

    def _ending(self) -> list[str]:
        """Return the keys of the runs in training that are about to end."""
        now = time.monotonic()
        runs = [run for run in self.training if run.is_ending(self._family.steps(run.job.run), now)]
        return [run.job.key for run in runs]

    def _add(self, job: Job) -> bool:
        """Add a job that the plan wants. Return True if it has already ended, so that there is room for another."""
        run = self.table.get(job.key)
        if run is not None and run.outcome is not None:  # The plan has another use for the same run.
            self.plan.tell(job.key, run.outcome, self.setup.sweep_id)
            return True
        if run is not None:  # It is wanted already, and one outcome serves both uses.
            return False
        if self._find(job):
            return True
        self._want(job)
        return False

    def _want(self, job: Job) -> None:
        """Queue a job for a slot, or block it until the job whose weights it starts from has ended."""
        if not job.donor:
            self.table.add(job, RunState.WAITING)
            return
        self.table.add(job, RunState.BLOCKED)
        if self.table.get(job.donor) is None:
            donor = self.plan.donor(job)
            if not self._find(donor):
                self._want(donor)
        self._unblock()

    def _unblock(self) -> None:
        """Queue blocked runs whose donor has ended. A run whose donor left no weights fails."""
        for run in self.table.in_state(RunState.BLOCKED):
            if self._store.weights(run.job.donor) is not None:
                self.table.add(run.job, RunState.WAITING)
            elif (outcome := self.table.outcome(run.job.donor)) is not None:
                start = run.job.run.start
                assert start is not None, "only a later phase is blocked"
                why = f"{start.donor.label} at size {start.donor.size}, seed {start.donor.seed}, {outcome.status}"
                self._take(run.job, _failed(f"the previous phase left no weights: {why}"))

    def _choose(self, free: int) -> Stack | None:
        """Return the stack of the most urgent runs for ``free`` idle slots, or None if no run waits for a slot."""
        while waiting := self._startable():
            first = waiting[0]
            stack = self.table.take_interrupted(first.job.key)
            if stack is not None:  # A checkpoint can only be restored with all of its runs.
                wanted = [job for job in stack.jobs if self._continues(job) and self._is_ours(job)]
            else:
                chosen = next_stack([run.job for run in waiting], free, self._largest(first)).jobs
                wanted = [job for job in chosen if self._is_ours(job)]
            if wanted:  # Otherwise none of these runs waits any more, and the next are tried.
                stack = stack or Stack(tuple(wanted))
                self.table.stacks[stack.id] = stack
                for job in wanted:
                    # The plan may not have asked yet for a run of an interrupted stack.
                    run = self.table.get(job.key) or self.table.add(job, RunState.WAITING)
                    run.begin(stack.id)
                return stack
        return None

    def _startable(self) -> list[TableRun]:
        """Return the runs that wait for a slot, most urgent first, except those that another worker still trains: they
        were dropped, and are wanted again."""
        held = {job.key for stack_id in self._closing for job in self.table.stacks[stack_id].jobs}
        return [run for run in self.table.in_state(RunState.WAITING) if run.job.key not in held]

    def _continues(self, job: Job) -> bool:
        """Return True if a run of an interrupted stack should train with it again."""
        run = self.table.get(job.key)
        if run is not None and run.state in (RunState.WAITING, RunState.TRAINING, RunState.ENDED):
            return run.state is RunState.WAITING
        return self.plan.wants(job)

    def _is_ours(self, job: Job) -> bool:
        """Return True if this sweep must train a run, False if it has ended or another sweep is training it."""
        if not self._store.claim(job.key):
            self.table.add(job, RunState.ELSEWHERE)
            return False
        if self._find(job):  # It ended before the claim.
            self._store.free(job.key)
            return False
        return True

    def _largest(self, run: TableRun) -> int:
        size = run.job.run.size
        return 1 if run.alone else min(self.sizing.most(size), self._limit(size))

    def _limit(self, size: int) -> int:
        """Return the largest stack that may fit. A stack too large for one size is too large for all larger sizes."""
        return min((most for at, most in self.limits.items() if at <= size), default=sys.maxsize)

    # Reports

    def take_in(self, stack_id: str, report: StackReport) -> None:
        self._heard.add(stack_id)
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
        with self._watched():
            self._drop_taken_back()
        if report.halves:
            self.stack_halved(stack_id, report.halves)
        if report.needs_gpus:
            self.stack_was_cramped(stack_id, report.needs_gpus)
        if report.broken:
            self._leave(stack_id)
            self.broken = self.broken or report.broken
            self._stop(report.broken)
        if report.machine_error:
            self.stack_met_machine_error(stack_id, report.machine_error)

    def ended(self, key: str, outcome: Outcome, files: Mapping[str, bytes] | None = None) -> bool:
        """Record an ended run and, unless it failed, store it with its files. Return False if the run is not in
        training. A run that was dropped meanwhile is only stored; one that was reported twice changes nothing."""
        run = self.table.get(key)
        if run is None and outcome.status is not Status.FAILED and self._is_closing(key):
            with self._watched():
                self._store.put(key, outcome, files or {})
        if run is None or run.state is not RunState.TRAINING:
            return False
        with self._watched():
            trained_for = ""
            if outcome.status is not Status.FAILED:
                outcome = self._store.put(key, outcome, files or {})
                trained_for = self._store.trained_for(key)
            self._take(run.job, outcome, trained_for)
            self._store.free(key)
        return True

    def _is_closing(self, key: str) -> bool:
        """Return True for a dropped run whose worker has not ended."""
        return any(job.key == key for stack_id in self._closing for job in self.table.stacks[stack_id].jobs)

    def stack_ended(self, stack_id: str) -> None:
        """Process the end of a trial. All runs of its stack were reported, unless the stack was stopped early."""
        if stack_id not in self.table.stacks:
            return
        stack = self._pop(stack_id)
        members = self.table.members(stack)
        if not members:
            self._notes.end(stack_id)
            if all(self.table.outcome(job.key) is not None for job in stack.jobs):
                self._checkpoints.drop(stack_id)
            elif not self.stopping:  # If one of its runs is wanted again, it continues from the checkpoint.
                self.table.interrupted.append(stack)
        elif self.stopping:
            self.table.wait_first(members)

    def stack_failed(self, stack_id: str, error: str, *, retries: int = 0) -> None:
        """Queue a failed stack to continue next, up to ``retries`` times. After that, train its unfinished runs one at
        a time; a run that fails alone has failed. If the sweep is stopping, the runs stay unfinished until it is
        resumed."""
        again = self._retries.count_failure(stack_id, retries)
        if not self.stopping and not again and len(self.table.stacks[stack_id].jobs) == 1:
            [job] = self._pop(stack_id).jobs
            self._checkpoints.drop_work(stack_id)  # A run that is tried again must not start from what failed.
            self.ended(job.key, _failed(error))
            return
        stack, unfinished = self._leave(stack_id)
        if again and not self.stopping:
            self.table.interrupted.insert(0, stack)
        elif not self.stopping:
            for run in unfinished:
                self.table.add(run.job, RunState.WAITING).alone = True

    def stack_met_machine_error(self, stack_id: str, error: str, *, can_retry: bool = True) -> None:
        """Retry a whole stack after a delay because its machine failed. Stop the sweep after the last retry, or at
        once if it cannot be retried."""
        stack, unfinished = self._leave(stack_id)
        if not unfinished or self.stopping:
            return
        self.table.interrupted.insert(0, stack)
        wait_s = self._retries.count_machine_error(stack_id, max(run.step for run in unfinished))
        if not can_retry or wait_s is None:
            self._stop(error)
            return
        self._retries.pause(wait_s)
        log.warning(f"Machine error (not a result): {error}; retrying in {wait_s:g} s")

    def engine_met_machine_error(self, error: str) -> None:
        """Retry all stacks after a machine error that ended them. Stop the sweep if no stack was in training."""
        if not self.table.stacks:
            self._stop(error)
        for stack_id in list(self.table.stacks):
            self.stack_met_machine_error(stack_id, error)

    def stack_halved(self, stack_id: str, halves: Sequence[Sequence[str]]) -> None:
        """Replace a stack that ran out of memory with ``halves``. They limit later stacks of at least its size."""
        stack, _ = self._leave(stack_id)
        by_key = {job.key: job for job in stack.jobs}
        smaller = [Stack(tuple(by_key[key] for key in half)) for half in halves]
        size = stack.jobs[0].run.size
        self.limits[size] = min(self._limit(size), max(len(half.jobs) for half in smaller))
        with self._watched():
            self._checkpoints.drop(stack_id)  # A distant worker has copies of both halves here already.
            self._notes.split(stack_id, {half.id: self._members(half) for half in smaller})
        self.table.interrupted[:0] = smaller

    def stack_left(self, stack_id: str, why: str) -> None:
        """Continue a stack elsewhere, whose worker has left a checkpoint."""
        stack, unfinished = self._leave(stack_id)
        if unfinished and not self.stopping:
            self.table.interrupted.insert(0, stack)
            log.warning(f"{why}: its runs continue elsewhere")

    def stack_was_cramped(self, stack_id: str, gpus: float) -> None:
        """Continue a stack of one run that did not fit into its share of a GPU. From now on every stack gets at least
        ``gpus``: the others on that GPU use memory, too, so which of them fails is chance."""
        stack, unfinished = self._leave(stack_id)
        if unfinished:
            self.table.interrupted.insert(0, stack)
        if gpus > self.resources.gpus:
            where = f"{self._family.size_axis} {stack.jobs[0].run.size}"
            share = f"{self.resources.gpus:g} of a GPU"
            log.warning(f"a run at {where} does not fit into {share}: stacks that start now have {gpus:g}")
            self.resources = self.resources.model_copy(update={"gpu_per_stack": gpus})

    def _pop(self, stack_id: str) -> Stack:
        """Remove a stack whose worker has ended."""
        self._closing.discard(stack_id)
        return self.table.stacks.pop(stack_id)

    def _leave(self, stack_id: str) -> tuple[Stack, list[TableRun]]:
        """Remove a stack from its worker and queue its unfinished runs before all others. Return both."""
        stack = self._pop(stack_id)
        unfinished = self.table.members(stack)
        self.table.wait_first(unfinished)
        return stack, unfinished

    def _find(self, job: Job) -> bool:
        """Take a run's result from the home. Return False if the home does not have it."""
        if not self._store.has(job.key):
            return False
        with self._store.locked():  # Prevents removal of the run before the plan has taken it in.
            outcome = self._store.find(job.key)
            if outcome is None or self._is_refused(job):
                return False
            self._take(job, outcome, self._store.trained_for(job.key))
        return True

    def _is_refused(self, job: Job) -> bool:
        """Stop the sweep if a stored run was trained by other code, for example by a sweep that runs at the same time.
        Most such runs are refused before the sweep starts (home/known_code.py)."""
        setup = self.setup
        source = self._store.source_of(job.key)
        is_other = "" not in (source, setup.source) and source != setup.source
        if not is_other or setup.accepts_other_code:
            return False
        trained = f"run {job.key} was trained by other code of {setup.family.name}"
        owner = self._store.trained_for(job.key) or setup.sweep_id
        self._stop(f"{trained}, for {owner}: raise `version`, or add --set code=warn")
        return True

    def _take(self, job: Job, outcome: Outcome, trained_for: str = "") -> None:
        """Pass an outcome to the plan. Only then the run has ended: if the plan cannot write it to a full disk, the
        run's checkpoint is still needed."""
        self.plan.tell(job.key, outcome, trained_for)
        self.table.add(job, RunState.ENDED, outcome)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Stop the sweep on a machine error in the block. A run that did not reach the plan is either on disk or
        will be trained again."""
        try:
            yield
        except Exception as error:
            message = trouble_words(error, self.files.directory)
            if not message:
                raise
            self._stop(message)

    def _stop(self, error: str) -> None:
        self.machine_error = self.machine_error or error
        self.stopping = True


def _failed(error: str) -> Outcome:
    return Outcome(Status.FAILED, 0, {}, {}, error=error)
