"""A running campaign: starts stacks, stores the results of their runs, and decides what to retry.

Engines call it; it does not depend on Ray. It trains the jobs of a plan (jobs/plan.py) and does not know the question
that they answer. When a run ends, the campaign writes its directory and then passes the outcome to the plan. A crash
between these steps loses nothing. If the home already has a job's run, the job goes through the same steps without
training. If another sweep is training a run, the campaign waits for the result. A job that starts from another job's
weights waits until that job has ended. The module job_queue.py decides which stack starts next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, InitVar, dataclass, field

from orchestrator.engine.job_queue import JobQueue, Sizing, failed
from orchestrator.engine.messages import RunReport, StackJob, StackReport
from orchestrator.engine.nearby_programs import NearbyPrograms
from orchestrator.engine.retries import Retries
from orchestrator.engine.run_table import RunState, RunTable, TableRun
from orchestrator.engine.work import Work
from orchestrator.home.checkpoints import Checkpoints, StackNotes
from orchestrator.home.directories import SweepDirectory
from orchestrator.home.run_store import RunStore
from orchestrator.jobs.plan import Job, Member, Plan, Stack, SweepSetup
from orchestrator.jobs.resources import Resources
from orchestrator.system.machine_errors import machine_error_text
from trainables.base import Family, Outcome, Status
from trainables.contract.sources import hash_of_training_code

log = logging.getLogger(__name__)


class Observer:
    """Follows a campaign in the driver's thread. The method of this base class does nothing."""

    def poll(self) -> None:
        """Handle external requests and show progress. Called often."""


@dataclass(eq=False)
class Campaign(Work):
    """Trains the runs of a plan: starts stacks, stores results, and retries. Used in the driver's thread only.

    A machine error is not an outcome. The campaign stops after the last retry of a stack, or if the driver itself
    cannot write.

    Attributes:
        files: Directory of the sweep, with checkpoints.
        setup: Values that all jobs share.
        plan: The plan that asks for the jobs.
        slots: Function of the engine. It returns the number of stacks with these resources that can train at the same
            time.
        sizing: Maximum number of runs in a stack, by the size of their models.
        known: Jobs whose outcomes the plan already has.
        stopping: True if no more stacks may start.
        machine_error: The machine error that stopped the campaign, or an empty string if there was none.
        broken: The same text as ``machine_error`` if a retry cannot help: the family broke its contract, or a worker
            has other code. Otherwise an empty string.
        limits: Maximum number of runs in a stack, by model size, for sizes that ran out of memory.
        resources: Resources of the stacks that start next. Their share of a GPU grows if a single run does not fit.
        observer: Shows the campaign, and stops it on requests.
        table: All runs of the campaign and their states.
    """

    files: SweepDirectory
    setup: SweepSetup
    plan: Plan
    _: KW_ONLY
    slots: Callable[[Resources], int]
    sizing: Sizing
    known: InitVar[Iterable[tuple[Job, Outcome]]] = ()
    stopping: bool = field(default=False, init=False)
    machine_error: str = field(default="", init=False)
    broken: str = field(default="", init=False)

    def __post_init__(self, known: Iterable[tuple[Job, Outcome]]) -> None:
        files = self.files
        setup = self.setup
        self.resources = setup.resources
        self.observer = Observer()
        self._family: Family = setup.family.make()
        self._nearby = NearbyPrograms(setup)
        self._store = RunStore(files.home, setup.sweep_id, setup.source or hash_of_training_code(), self._hash_nearby)
        self._notes = StackNotes(files.stacks)
        self._checkpoints = Checkpoints(files.checkpoints)
        self._messages: set[str] = set()
        """Messages of workers that were logged."""
        self._reporting: set[str] = set()
        """Ids of the stacks in training that have reported since they started."""
        self._retries = Retries()
        self.table = RunTable([Stack(tuple(jobs)) for jobs in self._checkpoints.interrupted(self.plan.read)])
        for job, outcome in known:
            self.table.add(job, RunState.ENDED, outcome)
        self._queue = JobQueue(self.plan, self.table, self._store, setup, self._family, self.sizing, stop=self.stop)
        self.limits = self._queue.limits

    @property
    def done(self) -> bool:
        """True if the campaign is stopping, or if no run is wanted and the plan is done."""
        return self.stopping or (self.table.idle and self.plan.done)

    @property
    def stacks(self) -> list[str]:
        return list(self.table.stacks)

    @property
    def at_once(self) -> int:
        """Number of stacks that can train at the same time now."""
        return self.slots(self.resources)

    @property
    def runs_resume(self) -> bool:
        """True if a killed run continues from a checkpoint; False if it begins again."""
        return self._family.resumes

    @property
    def training(self) -> list[TableRun]:
        """Runs in training."""
        return self.table.in_state(RunState.TRAINING)

    def should_end(self, stack_id: str) -> bool:
        stack = self.table.stacks.get(stack_id)
        return self.stopping or (stack is not None and not self.table.members(stack))

    def may_be_killed(self, stack_id: str) -> bool:
        return self.stopping and stack_id not in self._reporting

    def poll(self) -> None:
        with self._stopping_on_machine_error():
            self.observer.poll()

    def drop_unwanted(self) -> int:
        """Drop the runs that the plan no longer wants. Keep runs whose weights a wanted run waits for.

        Return the number of dropped runs in training. If no other run of their stack is wanted, the stack ends at its
        next report and saves a checkpoint.
        """
        return self._queue.drop_unwanted()

    def _drop_unneeded(self) -> None:
        """Ask the plan whether the latest outcomes made runs unnecessary, and drop those runs."""
        if self.plan.has_dropped_jobs() and (count := self.drop_unwanted()):
            many = "1 run in training is" if count == 1 else f"{count} runs in training are"
            log.info(f"{many} no longer needed and will stop{', with checkpoints' if self.runs_resume else ''}")

    def next_stack(self) -> Stack | None:
        stack = None
        with self._stopping_on_machine_error():
            at_once = self.at_once
            if len(self.table.stacks) >= at_once:
                return None
            if not (self.stopping or self._retries.are_paused):
                # Not at_once - len(stacks): a stack whose runs have all ended frees its slot before its worker closes.
                free = at_once - self.table.busy
                # The order matters. Filling the queue may find stored runs, and their outcomes may make other runs
                # unnecessary. These must be dropped before one of them starts.
                self._queue.fill(free)
                self._drop_unneeded()
                stack = self._queue.start_next(free)
            if stack is not None:
                self._reporting.discard(stack.id)
                self._notes.begin(stack.id, self._members(stack))
            self.observer.poll()  # Last, to show the new stack: generating its data may take minutes.
        return stack

    def job(self, stack: Stack) -> StackJob:
        training = {run.job.key for run in self.table.members(stack)}
        wanted = [index for index, job in enumerate(stack.jobs) if job.key in training]
        donors = sorted({stack.jobs[index].donor for index in wanted} - {""})
        weights = {key: self._store.weights(key) for key in donors}
        return StackJob(
            setup=self.setup,
            stack_id=stack.id,
            runs=tuple(job.run for job in stack.jobs),
            keys=tuple(job.key for job in stack.jobs),
            members=tuple(self._members(stack)),
            wanted=tuple(wanted),
            resources=self.resources,
            donors={key: path.read_bytes() for key, path in weights.items() if path is not None},
        )

    def likely_next(self, stack: Stack) -> Iterator[Job]:
        waiting = [run.job for run in self.table.in_state(RunState.WAITING)]
        for job in (*waiting, *self.plan.likely_next(stack.jobs[0])):
            if self.sizing.max_runs(job.run.size) > 1:  # A single run uses a different step.
                yield job

    def _members(self, stack: Stack) -> list[Member]:
        """Return the values from which the plan makes the stack's jobs again in a later process."""
        return [self.plan.describe(job) for job in stack.jobs]

    def _warn_once(self, message: str) -> None:
        if message not in self._messages:  # Every process sends the messages about its machine.
            log.warning(message)
        self._messages.add(message)

    def _hash_nearby(self) -> str:
        """Return the hash of the programs in a script's project, for a run that ends now. Warn once if they change."""
        digest = self._nearby.hash_of_run()
        if change := self._nearby.new_change():
            log.warning(
                f"{change} during {self.setup.sweep_id}; if the script runs them, its runs are of different code"
            )
        return digest

    def handle_report(self, stack_id: str, report: StackReport) -> None:
        self._reporting.add(stack_id)
        for message in report.messages:
            self._warn_once(message)
        # The order matters. Outcomes come first, because `steps` is the progress of the unfinished runs only.
        for reported in report.runs:
            self._handle_run_report(reported)
        with self._stopping_on_machine_error():
            self._report_steps(stack_id, report.steps)
            self._drop_unneeded()
        # The rest takes the stack from its worker and queues its runs that are still in training. By now, neither the
        # runs that ended nor the dropped ones are in training, so none of them is queued again.
        if report.halves:
            self.stack_halved(stack_id, report.halves)
        if report.needs_gpus:
            self.stack_needs_gpus(stack_id, report.needs_gpus)
        if report.broken:
            self._leave(stack_id)
            self.broken = self.broken or report.broken
            self.stop(report.broken)
        if report.machine_error:
            self.stack_met_machine_error(stack_id, report.machine_error)

    def _handle_run_report(self, report: RunReport) -> None:
        """Note a run's evaluation, and record its outcome if it has ended."""
        run = self.table.get(report.key)
        if report.evaluation is not None and run is not None and run.state is RunState.TRAINING:
            run.evaluated(report.evaluation)
            with self._stopping_on_machine_error():
                self._notes.evaluated(run.stack_id, report.key, report.evaluation)
                self.plan.report_progress(report.key, report.evaluation.step)
        if report.outcome is not None:
            self.ended(report.key, report.outcome, report.files)

    def _report_steps(self, stack_id: str, steps: int) -> None:
        """Tell the plan that a stack's unfinished runs have trained this many steps, unless it is 0 (unknown)."""
        stack = self.table.stacks.get(stack_id)
        if steps and stack is not None:
            for run in self.table.members(stack):
                self.plan.report_progress(run.job.key, steps)

    def ended(self, key: str, outcome: Outcome, files: Mapping[str, bytes] | None = None) -> bool:
        """Record an ended run and, unless it failed, store it with its files. Return False if the run is not in
        training.

        A run that was dropped while it trained is stored but not passed to the plan. A second report of the same run is
        ignored.
        """
        run = self.table.get(key)
        dropped = self.table.closing_jobs.get(key)
        if run is None and outcome.status is not Status.FAILED and dropped is not None:
            with self._stopping_on_machine_error():
                self._store.put(key, outcome, files or {}, donor=dropped.donor)
        if run is None or run.state is not RunState.TRAINING:
            return False
        with self._stopping_on_machine_error():
            trained_for = ""
            if outcome.status is not Status.FAILED:
                outcome = self._store.put(key, outcome, files or {}, donor=run.job.donor)
                trained_for = self._store.trained_for(key)
            self._queue.take(run.job, outcome, trained_for)
            self._store.free(key)
        return True

    def stack_ended(self, stack_id: str) -> None:
        if stack_id not in self.table.stacks:
            return
        stack = self.table.remove_stack(stack_id)
        members = self.table.members(stack)
        if not members:
            self._notes.end(stack_id)
            if all(self.table.outcome(job.key) is not None for job in stack.jobs):
                self._checkpoints.drop(stack_id)
            elif not self.stopping:
                # Its unfinished runs were dropped. If one is wanted again, it continues from the stack's checkpoint.
                self.table.interrupted.append(stack)
        elif self.stopping:
            # A stop ended it early. Its notes stay, so that the resumed sweep continues from its checkpoint.
            self.table.wait_first(members)

    def stack_failed(self, stack_id: str, error: str, *, retries: int = 0) -> None:
        again = self._retries.count_failure(stack_id, retries)
        if not self.stopping and not again and len(self.table.stacks[stack_id].jobs) == 1:
            [job] = self.table.remove_stack(stack_id).jobs
            # If the run is ever trained again, it must not find the files that the failed attempt left.
            self._checkpoints.drop_work(stack_id)
            self.ended(job.key, failed(error))
            return
        stack, unfinished = self._leave(stack_id)
        if again and not self.stopping:
            self.table.interrupted.insert(0, stack)
        elif not self.stopping:
            # One of the runs may fail every time. Alone, it cannot take the others with it.
            for run in unfinished:
                self.table.add(run.job, RunState.WAITING).alone = True

    def stack_met_machine_error(self, stack_id: str, error: str, *, can_retry: bool = True) -> None:
        stack, unfinished = self._leave(stack_id)
        if not unfinished or self.stopping:
            return
        self.table.interrupted.insert(0, stack)
        wait_s = self._retries.count_machine_error(stack_id, max(run.step for run in unfinished))
        if not can_retry or wait_s is None:
            self.stop(error)
            return
        self._retries.pause(wait_s)
        log.warning(f"The machine failed, not the run: {error}. Retrying in {wait_s:g} s")

    def engine_met_machine_error(self, error: str) -> None:
        if not self.table.stacks:
            self.stop(error)
        for stack_id in list(self.table.stacks):
            self.stack_met_machine_error(stack_id, error)

    def stack_halved(self, stack_id: str, halves: Sequence[Sequence[str]]) -> None:
        """Replace a stack that ran out of memory with ``halves``, given as keys of runs. Later stacks of this model
        size or a larger one have at most as many runs as the larger half."""
        stack, _ = self._leave(stack_id)
        by_key = {job.key: job for job in stack.jobs}
        smaller = [Stack(tuple(by_key[key] for key in half)) for half in halves]
        size = stack.jobs[0].run.size
        self.limits[size] = min(self._queue.limit(size), max(len(half.jobs) for half in smaller))
        with self._stopping_on_machine_error():
            self._checkpoints.drop(stack_id)  # A distant worker has copies of both halves here already.
            self._notes.split(stack_id, {half.id: self._members(half) for half in smaller})
        self.table.interrupted[:0] = smaller

    def stack_moved(self, stack_id: str, reason: str) -> None:
        stack, unfinished = self._leave(stack_id)
        if unfinished and not self.stopping:
            self.table.interrupted.insert(0, stack)
            log.warning(f"{reason}: its runs continue elsewhere")

    def stack_needs_gpus(self, stack_id: str, gpus: float) -> None:
        """Continue a stack of one run that did not fit into its share of a GPU. From now on, every stack gets at least
        ``gpus`` of a GPU, because all stacks on a GPU use its memory, so any of them could have failed."""
        stack, unfinished = self._leave(stack_id)
        if unfinished:
            self.table.interrupted.insert(0, stack)
        if gpus > self.resources.gpus:
            where = f"{self._family.size_axis} {stack.jobs[0].run.size}"
            share = f"{self.resources.gpus:g} of a GPU"
            log.warning(f"A run at {where} does not fit into {share}. From now on, stacks get {gpus:g} of a GPU.")
            self.resources = self.resources.model_copy(update={"gpu_per_stack": gpus})

    def _leave(self, stack_id: str) -> tuple[Stack, list[TableRun]]:
        """Remove a stack from its worker and queue its unfinished runs before all others. Return the stack and these
        runs."""
        stack = self.table.remove_stack(stack_id)
        unfinished = self.table.members(stack)
        self.table.wait_first(unfinished)
        return stack, unfinished

    @contextmanager
    def _stopping_on_machine_error(self) -> Iterator[None]:
        """Stop the sweep if the block raises a machine error. No run is lost: a run whose outcome did not reach the
        plan is on disk or will be trained again."""
        try:
            yield
        except Exception as error:
            message = machine_error_text(error, self.files.directory)
            if not message:
                raise
            self.stop(message)

    def stop(self, error: str) -> None:
        self.machine_error = self.machine_error or error  # Later errors are often consequences of the first.
        self.stopping = True
