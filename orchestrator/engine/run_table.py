"""Table of a campaign's runs and their states, by key. It does not read or write files, and makes no decisions."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from orchestrator.jobs.plan import ENDING, Job, Stack
from trainables.base import Evaluation, Outcome


class RunState(Enum):
    """State of a run. In all states except ``ENDED``, the run is still wanted."""

    WAITING = auto()  # Waits for a slot, in the table's order.
    BLOCKED = auto()  # Waits for the previous phase, from whose weights it starts.
    ELSEWHERE = auto()  # Another sweep is training it.
    TRAINING = auto()  # A worker of this sweep is training it.
    ENDED = auto()  # It has an outcome.


class Moment(NamedTuple):
    """A step of a run, and the time of its evaluation (monotonic, in seconds)."""

    step: int
    time: float


BEFORE = Moment(0, 0.0)
"""The moment before the first evaluation. Its time is unknown."""


@dataclass
class TableRun:
    """A run and its job, state and progress.

    Attributes:
        job: The job.
        state: State of the run.
        alone: True after the run's stack failed. The run is then trained without others.
        outcome: Outcome, or None until the run has ended.
        stack_id: Id of the stack that is training the run or trained it last.
        evaluation: Last evaluation since the run began to train in this stack, or None.
        first: Moment of the first evaluation since then.
        last: Moment of the last evaluation since then.
    """

    job: Job
    state: RunState
    alone: bool = False
    outcome: Outcome | None = None
    stack_id: str = ""
    evaluation: Evaluation | None = None
    first: Moment = BEFORE
    last: Moment = BEFORE

    @property
    def step(self) -> int:
        """Step of the last evaluation, or 0 before the first."""
        return self.last.step

    def begin(self, stack_id: str) -> None:
        """Set the run to training before its worker starts."""
        self.state = RunState.TRAINING
        self.stack_id = stack_id
        self.evaluation = None
        self.first = BEFORE
        self.last = BEFORE

    def evaluated(self, evaluation: Evaluation, now: float | None = None) -> None:
        """Note an evaluation of the run at the time ``now`` (monotonic, in seconds), by default the current time."""
        # Rates begin at the first evaluation, because the first step may take minutes to compile.
        self.last = Moment(evaluation.step, time.monotonic() if now is None else now)
        if self.evaluation is None:
            self.first = self.last
        self.evaluation = evaluation

    def left_s(self, steps: int, now: float) -> float | None:
        """Return the seconds until the run has trained ``steps`` steps. Return None if its rate is unknown or if it
        should have ended already."""
        if (step_s := self._step_s) is None:
            return None
        seconds = (steps - self.step) * step_s - (now - self.last.time)
        # If the run is late, we cannot estimate its end. 0 would mean "now".
        return seconds if seconds > 0 else None

    def is_ending(self, steps: int, now: float) -> bool:
        """Return True if less than the share :data:`ENDING` of the time of ``steps`` steps is left. Return False if
        this is unknown."""
        left_s = self.left_s(steps, now)
        step_s = self._step_s
        return left_s is not None and step_s is not None and left_s < ENDING * steps * step_s

    @property
    def _step_s(self) -> float | None:
        """Mean seconds of a step between the first evaluation and the last, or None if there were fewer than two."""
        steps = self.last.step - self.first.step
        seconds = self.last.time - self.first.time
        return seconds / steps if steps > 0 and seconds > 0 else None


class RunTable(dict[str, TableRun]):
    """All runs that a campaign wants or has wanted, by key, and the stacks in which they train.

    The order of the runs is their urgency.

    Attributes:
        stacks: Stacks with a worker, by id.
        interrupted: Stacks with a checkpoint. A checkpoint belongs to the stack as a whole.
        closing: Ids of the stacks that had dropped runs and whose workers have not ended.
    """

    def __init__(self, interrupted: list[Stack]) -> None:
        super().__init__()
        self.stacks: dict[str, Stack] = {}
        self.interrupted = interrupted
        self.closing: set[str] = set()

    def outcome(self, key: str) -> Outcome | None:
        """Return the outcome of the run with this key, or None if it has not ended or is not in the table."""
        run = self.get(key)
        return None if run is None else run.outcome

    def in_state(self, state: RunState) -> list[TableRun]:
        """Return the runs in a state, most urgent first."""
        return [run for run in self.values() if run.state is state]

    @property
    def idle(self) -> bool:
        """True if no run is wanted."""
        return all(run.state is RunState.ENDED for run in self.values())

    @property
    def busy(self) -> int:
        """Number of stacks with a run in training."""
        # Fewer than `stacks`: a stack frees its slot when its runs have ended, before its worker ends.
        return len({run.stack_id for run in self.in_state(RunState.TRAINING)})

    def add(self, job: Job, state: RunState, outcome: Outcome | None = None) -> TableRun:
        """Add a run or change its state, and return it. It becomes the least urgent."""
        # Removed first, because a dictionary keeps the position of a key that it has.
        run = self[job.key] = self.pop(job.key, TableRun(job, state))
        run.state = state
        run.outcome = outcome
        return run

    def wait_first(self, runs: Iterable[TableRun]) -> None:
        """Queue these runs for a slot before all others."""
        first = {run.job.key: run for run in runs}
        for run in first.values():
            run.state = RunState.WAITING
        others = {key: run for key, run in self.items() if key not in first}
        self.clear()
        self.update(first | others)

    def members(self, stack: Stack) -> list[TableRun]:
        """Return the runs that a stack is training now."""
        runs = (self.get(job.key) for job in stack.jobs)
        return [run for run in runs if run and run.state is RunState.TRAINING and run.stack_id == stack.id]

    @property
    def closing_jobs(self) -> dict[str, Job]:
        """Jobs of the runs in closing stacks, by key."""
        return {job.key: job for stack_id in self.closing for job in self.stacks[stack_id].jobs}

    def remove_stack(self, stack_id: str) -> Stack:
        """Remove and return a stack whose worker has ended."""
        self.closing.discard(stack_id)
        return self.stacks.pop(stack_id)

    def take_interrupted(self, key: str) -> Stack | None:
        """Remove and return the interrupted stack with this run. Return None if no stack has it."""
        stack = next((stack for stack in self.interrupted if key in {job.key for job in stack.jobs}), None)
        if stack is not None:
            self.interrupted.remove(stack)
        return stack
