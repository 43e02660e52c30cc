"""Outcomes in the order in which a typical machine would have them, so that a plan asks for the same jobs anywhere.

Two runs that train side by side end in an order that depends on what else the machine does. A plan that chooses its
next jobs by the outcomes so far would then ask for other jobs each time. A timetable stands between a campaign and such
a plan. It gives every job a start and an end on a clock of its own, which counts the seconds that the steps of a run
take on a typical core, and tells the plan each outcome at that end, not when it arrives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from orchestrator.jobs.plan import ENDING, Job, Member, Plan
from trainables.base import Family, Outcome, RunConfig, Speed, Status


def typical_seconds(family: Family, speed: Speed, run: RunConfig) -> float:
    """Return the seconds that all steps of a run take on a typical core."""
    return speed.seconds(family.flops(run), family.parameters(run.size).total)


@dataclass(frozen=True)
class _Part:
    """A run that must train before a job has ended: its own, or one whose weights it needs. ``seconds`` is the typical
    time of all its ``steps``."""

    key: str
    steps: int
    seconds: float


@dataclass(eq=False)
class _Entry:
    """A job on the timetable.

    Attributes:
        parts: The runs that train for it, its own first.
        start: When it starts, in seconds, or None while it waits for a slot.
        outcome: Its outcome, or None until it has one. The plan does not know it yet.
        is_given: True if the campaign has the job.
    """

    job: Job
    parts: tuple[_Part, ...]
    start: float | None = None
    outcome: Outcome | None = None
    is_given: bool = False

    @property
    def seconds(self) -> float:
        """Typical seconds from its start to its end, if it trains all its steps."""
        return sum(part.seconds for part in self.parts)

    def trained(self, steps: Mapping[str, int]) -> float:
        """Return the typical seconds of its ``steps`` so far, by the keys of runs."""
        return sum(part.seconds * min(steps.get(part.key, 0) / part.steps, 1.0) for part in self.parts)


class Timetable(Plan):
    """Another plan, whose jobs start and end at typical times on ``slots`` slots.

    An outcome waits for those of jobs that would have ended before it. While it waits, the slot of its run is idle,
    until the other jobs have trained as far as a typical machine would have. Failures, and outcomes that need no
    training, reach the other plan at once. After an interruption the clock starts again from zero, so an interrupted
    sweep may ask for other jobs.
    """

    def __init__(self, plan: Plan, family: Family, speed: Speed, slots: int) -> None:
        """Make a timetable.

        Args:
            family: The family of the jobs.
            speed: Speed at which the family's jobs train.
            slots: Number of jobs that train at the same time, at least 1.
        """
        self._plan = plan
        self._family = family
        self._speed = speed
        self._slots = slots
        self._now = 0.0
        self._entries: dict[str, _Entry] = {}
        """Jobs that the plan waits for, in the order in which it asked for them."""
        self._steps: dict[str, int] = {}
        """Steps that each run has trained at least, also of those whose weights another job starts from."""

    def ask(self, room: int, ending: Collection[str] = ()) -> list[Job]:
        """Return the jobs that the timetable has chosen since the last call, or none if ``room`` is below 1. Their
        number does not depend on ``room``, nor on ``ending``: the timetable knows which jobs are about to end."""
        self._go_on()
        if room < 1:
            return []
        entries = [entry for entry in self._entries.values() if not entry.is_given]
        for entry in entries:
            entry.is_given = True
        return [entry.job for entry in entries]

    def tell(self, key: str, outcome: Outcome, trained_for: str) -> None:
        entry = self._entries.get(key)
        self._steps[key] = outcome.steps
        if entry is None or outcome.status is Status.FAILED or trained_for:
            self._entries.pop(key, None)
            self._plan.tell(key, outcome, trained_for)
        else:
            entry.outcome = outcome
        self._go_on()

    def reach(self, key: str, step: int) -> None:
        self._steps[key] = max(step, self._steps.get(key, 0))
        self._go_on()

    @property
    def done(self) -> bool:
        return self._plan.done

    def describe(self, job: Job) -> Member:
        return self._plan.describe(job)

    def read(self, member: Member) -> Job:
        return self._plan.read(member)

    def donor(self, job: Job) -> Job:
        return self._plan.donor(job)

    def wants(self, job: Job) -> bool:
        return self._plan.wants(job)

    def takes_back(self) -> bool:
        return self._plan.takes_back()

    def foresee(self, job: Job) -> Iterable[Job]:
        return self._plan.foresee(job)

    def _go_on(self) -> None:
        """Start jobs and end them, in the order of their times, until the next to end is uncertain."""
        self._start()
        while (entry := self._next_to_end()) is not None:
            self._now = self._least_end(entry)
            del self._entries[entry.job.key]
            assert entry.outcome is not None, "only a job with an outcome ends"
            self._plan.tell(entry.job.key, entry.outcome, "")
            self._start()

    def _start(self) -> None:
        """Start the jobs that wait for a slot, and ask the plan for others while slots are free."""
        for key, entry in list(self._entries.items()):
            if not self._plan.wants(entry.job):
                del self._entries[key]
        while (room := self._slots - len(self._entries)) > 0:
            jobs = [job for job in self._plan.ask(room, self._ending()) if job.key not in self._entries]
            if not jobs:
                break
            self._entries.update({job.key: self._entry(job) for job in jobs})
        for entry in list(self._entries.values())[: self._slots]:
            if entry.start is None:
                entry.start = self._now

    def _entry(self, job: Job) -> _Entry:
        runs = [job.run]
        while (start := runs[-1].start) is not None:
            runs.append(start.donor)
        return _Entry(job, tuple(map(self._part, runs)))

    def _part(self, run: RunConfig) -> _Part:
        family = self._family
        return _Part(family.key(run), family.steps(run), typical_seconds(family, self._speed, run))

    def _started(self) -> list[_Entry]:
        return [entry for entry in self._entries.values() if entry.start is not None]

    def _least_end(self, entry: _Entry) -> float:
        """Return the earliest time at which a job can end, which is the time of its end once it has its outcome."""
        assert entry.start is not None, "a job starts before it ends"
        return entry.start + entry.trained(self._steps)

    def _next_to_end(self) -> _Entry | None:
        """Return the job that ends next, or None if it is not known yet. Of two that end at the same time, the one that
        was asked for first is the next."""
        first = min(self._started(), key=self._least_end, default=None)
        return first if first is not None and first.outcome is not None else None

    def _ending(self) -> list[str]:
        """Return the keys of the jobs that are about to end if they train all their steps."""
        return [entry.job.key for entry in self._started() if self._left(entry) < ENDING * entry.seconds]

    def _left(self, entry: _Entry) -> float:
        assert entry.start is not None, "a job that has not started is not about to end"
        return entry.start + entry.seconds - self._now
