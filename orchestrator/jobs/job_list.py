"""The simplest plan: a list of jobs. It can train anything that a family can train."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from orchestrator.jobs.plan import Job, Member, Plan
from trainables.base import Outcome


class JobList(Plan):
    """Jobs to train in their order. Each job must occur once. If a job starts from another job's weights, the home must
    have them.

    Attributes:
        outcomes: Outcomes so far, by key.
    """

    def __init__(self, jobs: Iterable[Job], on_ended: Callable[[Job, Outcome], object] | None = None) -> None:
        """Make a plan.

        Args:
            jobs: The jobs.
            on_ended: Called with each job that ends. After a resume, it is also called with the jobs that had ended
                before.
        """
        self._on_ended = on_ended
        self._jobs = {job.key: job for job in jobs}
        self._next = list(self._jobs.values())
        self.outcomes: dict[str, Outcome] = {}

    def ask(self, room: int, ending: Collection[str] = ()) -> list[Job]:
        room = max(room, 0)
        jobs = self._next[:room]
        self._next = self._next[room:]
        return jobs

    def tell(self, key: str, outcome: Outcome, trained_for: str) -> None:
        self.outcomes[key] = outcome
        if self._on_ended is not None:
            self._on_ended(self._jobs[key], outcome)

    @property
    def done(self) -> bool:
        return self.outcomes.keys() == self._jobs.keys()

    def describe(self, job: Job) -> Member:
        return {"key": job.key}

    def read(self, member: Member) -> Job:
        return self._jobs[member["key"]]
