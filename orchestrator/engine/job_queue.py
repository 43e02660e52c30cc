"""Jobs of a plan until they join a stack, or until the home has their results. Used by the campaign only.

There are four cases for a job that the plan requests: the home has its run, another sweep is training it, it waits for
the job whose weights it starts from, or it waits for a slot. The table of runs keeps the state of each job
(run_table.py).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from orchestrator.engine.run_table import RunState, RunTable, TableRun
from orchestrator.home.run_store import RunStore
from orchestrator.jobs.plan import Job, Plan, Stack, SweepSetup, next_stack
from orchestrator.system.errors import shortened_error
from trainables.base import Family, Outcome, Status


class Sizing(Protocol):
    """Limits the number of runs that share a stack."""

    def max_runs(self, size: int) -> int:
        """Return the maximum number of runs of this size in a stack, at least 1."""


class OneByOne:
    """A sizing in which every run trains alone."""

    def max_runs(self, size: int) -> int:
        return 1


@dataclass(eq=False)
class JobQueue:
    """The jobs that a plan requests, until they start to train. The queue claims runs in the home for this sweep.

    Attributes:
        plan: The plan.
        table: All runs of the campaign and their states.
        store: The runs in the home.
        setup: Values that all jobs share.
        family: The family of the jobs.
        sizing: Maximum number of runs in a stack, by model size.
        stop: Stops the campaign. The argument is the reason.
        limits: Maximum number of runs in a stack, by model size, for sizes that ran out of memory. A limit also applies
            to larger sizes.
    """

    plan: Plan
    table: RunTable
    store: RunStore
    setup: SweepSetup
    family: Family
    sizing: Sizing
    stop: Callable[[str], None]
    limits: dict[int, int] = field(default_factory=dict)

    def fill(self, free: int) -> None:
        """Ask the plan for jobs until enough runs wait for ``free`` idle slots, or the plan has no more."""
        for run in self.table.in_state(RunState.ELSEWHERE):  # Claim the runs that no other sweep trains now.
            if not self._take_stored(run.job) and self.store.claim(run.job.key):
                self.table.add(run.job, RunState.WAITING)
        self._unblock()
        # Ask twice. The maximum size of a stack depends on the shape of the next run, which is unknown if no run waits.
        # So ask for one run per slot first, then for full stacks. Asking for too many runs at once would be worse,
        # because a plan that is asked for fewer runs may choose them better.
        self._ask(free)
        if waiting := self.table.in_state(RunState.WAITING):
            self._ask(free * self._largest(waiting[0]))

    def _ask(self, room: int) -> None:
        """Ask the plan for jobs until ``room`` runs wait for a slot or the plan has no more."""
        # A job that has already ended leaves its room to another job, so ask again until none of the jobs has.
        some_ended = True
        while some_ended:
            jobs = self.plan.ask(room - len(self.table.in_state(RunState.WAITING)), self._ending())
            have_ended = [self._add(job) for job in jobs]
            some_ended = any(have_ended)

    def _ending(self) -> list[str]:
        """Return the keys of the runs in training that are about to end."""
        now = time.monotonic()
        training = self.table.in_state(RunState.TRAINING)
        return [run.job.key for run in training if run.is_ending(self.family.steps(run.job.run), now)]

    def _add(self, job: Job) -> bool:
        """Add a job that the plan requests. Return True if it has already ended, so that there is room for another."""
        run = self.table.get(job.key)
        if run is not None and run.outcome is not None:  # The plan has a second use for the same run.
            self.plan.tell(job.key, run.outcome, self.setup.sweep_id)
            return True
        if run is not None:  # The run is wanted already. Its outcome will serve both uses.
            return False
        if self._take_stored(job):
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
            if not self._take_stored(donor):
                self._want(donor)
        self._unblock()

    def _unblock(self) -> None:
        """Queue blocked runs whose donor has ended. A run whose donor left no weights fails."""
        for run in self.table.in_state(RunState.BLOCKED):
            if self.store.weights(run.job.donor) is not None:
                self.table.add(run.job, RunState.WAITING)
            elif (outcome := self.table.outcome(run.job.donor)) is not None:
                start = run.job.run.start
                assert start is not None, "only a later phase is blocked"
                phase = f"{start.donor.label} at size {start.donor.size}, seed {start.donor.seed}, {outcome.status}"
                self.take(run.job, failed(f"the previous phase left no weights: {phase}"))

    def start_next(self, free: int) -> Stack | None:
        """Start a stack of the most urgent runs, given ``free`` idle slots, and return it. Return None if no run waits
        for a slot."""
        while waiting := self._startable():
            first = waiting[0]
            stack = self.table.take_interrupted(first.job.key)
            if stack is not None:  # A checkpoint can only be restored with all of its runs.
                wanted = [job for job in stack.jobs if self._continues(job) and self._claim(job)]
            else:
                chosen = next_stack([run.job for run in waiting], free, self._largest(first)).jobs
                wanted = [job for job in chosen if self._claim(job)]
            if wanted:  # Otherwise another sweep has trained or claimed all of them, so try the next runs.
                stack = stack or Stack(tuple(wanted))
                self.table.stacks[stack.id] = stack
                for job in wanted:
                    # The plan may not have requested this run of an interrupted stack yet.
                    run = self.table.get(job.key) or self.table.add(job, RunState.WAITING)
                    run.begin(stack.id)
                return stack
        return None

    def _startable(self) -> list[TableRun]:
        """Return the runs that wait for a slot, most urgent first."""
        # Skip a run that was dropped and requested again while its old worker is still running.
        closing = self.table.closing_jobs
        return [run for run in self.table.in_state(RunState.WAITING) if run.job.key not in closing]

    def _continues(self, job: Job) -> bool:
        """Return True if a run of an interrupted stack should continue with that stack."""
        run = self.table.get(job.key)
        if run is not None and run.state in (RunState.WAITING, RunState.TRAINING, RunState.ENDED):
            return run.state is RunState.WAITING
        return self.plan.wants(job)

    def _claim(self, job: Job) -> bool:
        """Claim a run. Return True if this sweep must train it, False if it has ended or another sweep is training
        it."""
        if not self.store.claim(job.key):
            self.table.add(job, RunState.ELSEWHERE)
            return False
        if self._take_stored(job):  # Another sweep finished it just before the claim.
            self.store.free(job.key)
            return False
        return True

    def _largest(self, run: TableRun) -> int:
        """Return the maximum number of runs in a stack with this run."""
        size = run.job.run.size
        return 1 if run.alone else min(self.sizing.max_runs(size), self.limit(size))

    def limit(self, size: int) -> int:
        """Return the maximum number of runs of a model size that may fit into memory. A stack that was too large for
        one size is too large for all larger sizes."""
        return min((runs for limited, runs in self.limits.items() if limited <= size), default=sys.maxsize)

    def drop_unwanted(self) -> int:
        """Drop the runs that the plan no longer wants, except donors of wanted runs. Return how many of them were in
        training."""
        live = [run for run in self.table.values() if run.state is not RunState.ENDED]
        keep = {run.job.key for run in live if self.plan.wants(run.job)}
        unchecked = list(keep)
        while unchecked:  # A donor may itself wait for a donor.
            run = self.table.get(unchecked.pop())
            if run is not None and run.state is RunState.BLOCKED and run.job.donor not in keep:
                keep.add(run.job.donor)
                unchecked.append(run.job.donor)
        dropped = [run for run in live if run.job.key not in keep]
        for run in dropped:
            del self.table[run.job.key]
            self.store.free(run.job.key)
        training = [run for run in dropped if run.state is RunState.TRAINING]
        self.table.closing.update(run.stack_id for run in training)
        return len(training)

    def _take_stored(self, job: Job) -> bool:
        """Pass a run's outcome from the home to the plan. Return False if the home does not have it, or if other code
        trained it."""
        if not self.store.has(job.key):
            return False
        with self.store.locked():  # Otherwise another process could remove the run before the plan has its outcome.
            outcome = self.store.find(job.key)
            if outcome is None or self._stop_if_other_code(job):
                return False
            self.take(job, outcome, self.store.trained_for(job.key))
        return True

    def _stop_if_other_code(self, job: Job) -> bool:
        """Stop the sweep and return True if other code trained a stored run and the sweep does not accept it."""
        # Most such runs are refused before the sweep starts (history/other_code.py). But a sweep that runs at the same
        # time may store further ones.
        setup = self.setup
        source = self.store.source_of(job.key)
        is_other = "" not in (source, setup.source) and source != setup.source
        if not is_other or setup.accepts_other_code:
            return False
        trained = f"run {job.key} was trained by other code of {setup.family.name}"
        owner = self.store.trained_for(job.key) or setup.sweep_id
        self.stop(f"{trained}, for {owner}: raise `version`, or add --set code=warn")
        return True

    def take(self, job: Job, outcome: Outcome, trained_for: str = "") -> None:
        """Pass an outcome to the plan, and mark the run as ended."""
        # Mark the run as ended only after the plan has accepted it. If the plan fails on a full disk, we still need the
        # run's checkpoint.
        self.plan.tell(job.key, outcome, trained_for)
        self.table.add(job, RunState.ENDED, outcome)


def failed(error: str) -> Outcome:
    """Return the outcome of a run that failed with this error. The middle of a long error is omitted."""
    return Outcome(Status.FAILED, 0, {}, {}, error=shortened_error(error))
