"""Outcomes in the order in which a typical machine would have them, so that a plan asks for the same jobs anywhere.

If two runs train side by side, it depends on the load of the machine which of them ends first. A plan that chooses its
next jobs by the outcomes so far would then ask for different jobs each time. A timetable stands between a campaign and
such a plan. It keeps a simulated clock that counts the seconds a typical core would need. On that clock, every job has
a start and an end. The plan receives an outcome at the job's simulated end, not when it actually arrives.
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
    """A run that must train before a job has ended: the job's own run, or a run whose weights it needs.

    Attributes:
        key: Key of the run.
        steps: Number of all its steps.
        seconds: Seconds that a typical core needs for them.
    """

    key: str
    steps: int
    seconds: float


@dataclass(eq=False)
class _Entry:
    """A job on the timetable.

    Attributes:
        job: The job.
        parts: The runs that train for the job, its own run first.
        start: Simulated time of the start in seconds, or None while the job waits for a slot.
        outcome: Outcome of the job that the plan has not received yet, or None.
        is_requested: True if the campaign has received the job.
    """

    job: Job
    parts: tuple[_Part, ...]
    start: float | None = None
    outcome: Outcome | None = None
    is_requested: bool = False

    @property
    def seconds(self) -> float:
        """Simulated seconds from the start to the end, if the job trains all its steps."""
        return sum(part.seconds for part in self.parts)

    def trained(self, steps: Mapping[str, int]) -> float:
        """Return the simulated seconds of the job's steps so far. ``steps`` has them by the key of the run."""
        # No run counts for more than its simulated time, however many steps it reports.
        return sum(part.seconds * min(steps.get(part.key, 0) / part.steps, 1.0) for part in self.parts)


class Timetable(Plan):
    """Wraps a plan and delivers outcomes in the order of the simulated clock. An outcome is held back until every job
    that would have ended earlier has its outcome.

    While an outcome is held back, the slot of its run is idle, until the other jobs have trained as far as they would
    have on a typical machine. Failures, and outcomes of reused runs, reach the plan immediately. After an interruption
    the clock starts again from zero, so an interrupted sweep may ask for different jobs.
    """

    def __init__(self, plan: Plan, family: Family, speed: Speed, slots: int) -> None:
        """Make a timetable.

        Args:
            plan: The plan to wrap.
            family: The family of the jobs.
            speed: Speed at which a typical core trains the family's runs.
            slots: Number of jobs that train at the same time, at least 1.
        """
        self._plan = plan
        self._family = family
        self._speed = speed
        self._slots = slots
        self._now = 0.0
        self._entries: dict[str, _Entry] = {}
        """Jobs whose outcomes the plan waits for, by key, in the order in which it requested them."""
        self._steps: dict[str, int] = {}
        """Steps that each run has trained, at least, by key. Runs whose weights a job needs are included."""

    def ask(self, room: int, ending: Collection[str] = ()) -> list[Job]:
        """Return the jobs that the plan has requested since the last call, or none if ``room`` is below 1.

        Their number does not depend on ``room`` or ``ending``, because both depend on the machine's load. The timetable
        computes both from its simulated clock.
        """
        self._advance()
        if room < 1:
            return []
        entries = [entry for entry in self._entries.values() if not entry.is_requested]
        for entry in entries:
            entry.is_requested = True
        return [entry.job for entry in entries]

    def tell(self, key: str, outcome: Outcome, trained_for: str) -> None:
        entry = self._entries.get(key)
        self._steps[key] = outcome.steps
        # A reused run needs no training here, so it has no end on the clock. Neither has a failed run, because its
        # outcome has no steps.
        if entry is None or outcome.status is Status.FAILED or trained_for:
            self._entries.pop(key, None)
            self._plan.tell(key, outcome, trained_for)
        else:
            entry.outcome = outcome
        self._advance()

    def report_progress(self, key: str, step: int) -> None:
        self._steps[key] = max(step, self._steps.get(key, 0))  # A retry reports the same steps again.
        self._advance()

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

    def has_dropped_jobs(self) -> bool:
        return self._plan.has_dropped_jobs()

    def likely_next(self, job: Job) -> Iterable[Job]:
        return self._plan.likely_next(job)

    def _advance(self) -> None:
        """Advance the clock: end jobs in the order of their ends, and start others in their slots."""
        self._start()
        # Stop at the first end that is not certain. If a job that is still training may end before all known ends, its
        # outcome must reach the plan first, because the plan may then request different jobs.
        while (entry := self._next_to_end()) is not None:
            self._now = self._earliest_end(entry)
            del self._entries[entry.job.key]
            assert entry.outcome is not None, "only a job with an outcome ends"
            self._plan.tell(entry.job.key, entry.outcome, "")
            self._start()

    def _start(self) -> None:
        """Ask the plan for jobs while slots are free, and start those that wait for a slot."""
        # The campaign drops jobs that the plan no longer wants, so no outcome will arrive for them. Their entries would
        # block the clock, and keep slots occupied.
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
        """Return the entry of a job, whose parts are its run and the runs of all earlier phases."""
        runs = [job.run]
        while (start := runs[-1].start) is not None:
            runs.append(start.donor)
        return _Entry(job, tuple(map(self._part, runs)))

    def _part(self, run: RunConfig) -> _Part:
        family = self._family
        return _Part(family.key(run), family.steps(run), typical_seconds(family, self._speed, run))

    def _started(self) -> list[_Entry]:
        return [entry for entry in self._entries.values() if entry.start is not None]

    def _earliest_end(self, entry: _Entry) -> float:
        """Return the earliest time at which a job can end, given its steps so far. If the job has its outcome, this is
        its end."""
        assert entry.start is not None, "a job starts before it ends"
        return entry.start + entry.trained(self._steps)

    def _next_to_end(self) -> _Entry | None:
        """Return the job that ends next, or None if it is not known yet. If two end at the same time, the one requested
        first comes first."""
        first = min(self._started(), key=self._earliest_end, default=None)
        return first if first is not None and first.outcome is not None else None

    def _ending(self) -> list[str]:
        """Return the keys of the jobs that are about to end, if they train all their steps."""
        return [entry.job.key for entry in self._started() if self._left(entry) < ENDING * entry.seconds]

    def _left(self, entry: _Entry) -> float:
        """Return the simulated seconds until a job ends, if it trains all its steps."""
        assert entry.start is not None, "a job that has not started is not about to end"
        return entry.start + entry.seconds - self._now
