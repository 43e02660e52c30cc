"""Jobs of a plan until they join a stack, or until the home has their results. Used by the campaign only.

There are four cases for a job that the plan asks for: the home has its run, another sweep is training it, it waits for
the job whose weights it starts from, or it waits for a slot. The table of runs says which (run_table.py).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from orchestrator.engine.run_table import RunState, RunTable, TableRun
from orchestrator.home.run_store import RunStore
from orchestrator.jobs.plan import Job, Plan, Setup, Stack, next_stack
from trainables.base import Family, Outcome, Status


class Sizing(Protocol):
    """How many runs may share a stack."""

    def most(self, size: int) -> int:
        """Return the maximum number of runs of this size in a stack, at least 1."""


class OneByOne:
    """A sizing in which every run trains alone."""

    def most(self, size: int) -> int:
        return 1


@dataclass(eq=False)
class JobQueue:
    """The jobs that a plan asks for, until they start to train. It claims runs in the home for this sweep.

    Attributes:
        family: The family of the jobs.
        stop: Stops the campaign. The argument is the reason.
        limits: Maximum number of runs in a stack, by model size, for sizes that ran out of memory. A limit also applies
            to larger sizes.
    """

    plan: Plan
    table: RunTable
    store: RunStore
    setup: Setup
    family: Family
    sizing: Sizing
    stop: Callable[[str], None]
    limits: dict[int, int] = field(default_factory=dict)

    def fill(self, free: int) -> None:
        """Ask the plan for jobs until enough runs wait for ``free`` idle slots, or the plan has no more."""
        for run in self.table.in_state(RunState.ELSEWHERE):  # Claim those that no sweep trains any more.
            if not self._find(run.job) and self.store.claim(run.job.key):
                self.table.add(run.job, RunState.WAITING)
        self._unblock()
        # First for as many runs as there are slots. The largest stack is known only when their shape is; then there is
        # room for full stacks. A plan that is asked for fewer runs may choose them better.
        self._ask(free)
        if waiting := self.table.in_state(RunState.WAITING):
            self._ask(free * self._largest(waiting[0]))

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
        training = self.table.in_state(RunState.TRAINING)
        return [run.job.key for run in training if run.is_ending(self.family.steps(run.job.run), now)]

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
            if self.store.weights(run.job.donor) is not None:
                self.table.add(run.job, RunState.WAITING)
            elif (outcome := self.table.outcome(run.job.donor)) is not None:
                start = run.job.run.start
                assert start is not None, "only a later phase is blocked"
                why = f"{start.donor.label} at size {start.donor.size}, seed {start.donor.seed}, {outcome.status}"
                self.take(run.job, failed(f"the previous phase left no weights: {why}"))

    def choose(self, free: int) -> Stack | None:
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
        held = self.table.closing_jobs
        return [run for run in self.table.in_state(RunState.WAITING) if run.job.key not in held]

    def _continues(self, job: Job) -> bool:
        """Return True if a run of an interrupted stack should train with it again."""
        run = self.table.get(job.key)
        if run is not None and run.state in (RunState.WAITING, RunState.TRAINING, RunState.ENDED):
            return run.state is RunState.WAITING
        return self.plan.wants(job)

    def _is_ours(self, job: Job) -> bool:
        """Return True if this sweep must train a run, False if it has ended or another sweep is training it."""
        if not self.store.claim(job.key):
            self.table.add(job, RunState.ELSEWHERE)
            return False
        if self._find(job):  # It ended before the claim.
            self.store.free(job.key)
            return False
        return True

    def _largest(self, run: TableRun) -> int:
        size = run.job.run.size
        return 1 if run.alone else min(self.sizing.most(size), self.limit(size))

    def limit(self, size: int) -> int:
        """Return the largest stack that may fit. A stack too large for one size is too large for all larger sizes."""
        return min((most for at, most in self.limits.items() if at <= size), default=sys.maxsize)

    def drop_unwanted(self) -> int:
        """Drop runs as :meth:`Campaign.drop_unwanted` says, and return the number of those in training."""
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
            self.store.free(run.job.key)
        training = [run for run in dropped if run.state is RunState.TRAINING]
        self.table.closing.update(run.stack_id for run in training)
        return len(training)

    def _find(self, job: Job) -> bool:
        """Take a run's result from the home. Return False if the home does not have it."""
        if not self.store.has(job.key):
            return False
        with self.store.locked():  # Prevents removal of the run before the plan has taken it in.
            outcome = self.store.find(job.key)
            if outcome is None or self._is_refused(job):
                return False
            self.take(job, outcome, self.store.trained_for(job.key))
        return True

    def _is_refused(self, job: Job) -> bool:
        """Stop the sweep if a stored run was trained by other code, for example by a sweep that runs at the same time.
        Most such runs are refused before the sweep starts (history/other_code.py)."""
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
        """Pass an outcome to the plan. Only then the run has ended: if the plan cannot write it to a full disk, the
        run's checkpoint is still needed."""
        self.plan.tell(job.key, outcome, trained_for)
        self.table.add(job, RunState.ENDED, outcome)


def failed(error: str) -> Outcome:
    """Return the outcome of a run that failed with this error."""
    return Outcome(Status.FAILED, 0, {}, {}, error=error)
