"""The plan of a sweep's search. It turns the searcher's requests into jobs, and passes the outcomes to the searcher."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, replace

from orchestrator.history.journal import Asked, Ended, Journal, Stopped, read_request
from orchestrator.history.sweeps import Sweep
from orchestrator.jobs.plan import Job, Member, Plan, job_of
from orchestrator.search.base import Request, Searcher
from orchestrator.space.comparisons import search_points
from orchestrator.space.runs import Run
from orchestrator.transition.types import Point
from trainables.base import Outcome


def _ignore(run: Run) -> None:
    """Do nothing."""


class StudyPlan(Plan):
    """Makes jobs of a searcher's requests, and writes the sweep's journal.

    If two arms request the same run, it is only one job. Each phase of an arm is a job that starts from the weights of
    the previous phase. The searcher does not know about phases.

    Attributes:
        sweep: The sweep.
        searcher: The searcher.
        journal: The journal of the sweep.
        runs: Runs that have ended, in the journal's order. A run that two arms share appears twice.
        known: Jobs whose outcomes were in the journal.
        on_ended: Function that is called with each run that ends, after the searcher.
    """

    def __init__(
        self,
        sweep: Sweep,
        searcher: Searcher,
        journal: Journal,
        *,
        known: Iterable[Run] = (),
        blocks: int = 0,
    ) -> None:
        """Continue a sweep.

        Args:
            sweep: The sweep.
            searcher: The searcher, without results.
            journal: The journal of the sweep.
            known: Runs in the journal.
            blocks: Number of the searcher's blocks that are in the journal.
        """
        self.sweep = sweep
        self.searcher = searcher
        self.journal = journal
        self.runs: list[Run] = []
        self.known: list[tuple[Job, Outcome]] = []
        self.on_ended: Callable[[Run], None] = _ignore
        self._family = sweep.spec.make_family()
        self._search_point = search_points(sweep.spec)
        self._blocks = blocks
        self._open: dict[str, list[Request]] = {}
        """Requests that wait for an outcome, by key. Other arms made all but the first."""
        self._has_dropped_jobs = False
        self._first: dict[str, Request] = {}
        """The first request of each job, by key."""
        for run in known:
            job = replace(self.job(run.request), key=run.key)
            self._first.setdefault(job.key, run.request)
            self.known.append((job, run.outcome))
            self._add_ended(run)

    def job(self, request: Request) -> Job:
        """Return the job of a request."""
        return job_of(self._family, self.sweep.spec.config(request))

    def point(self, run: Run) -> Point | None:
        """Return the point that the searcher gets for a run, or None if the run failed."""
        return self._search_point(run)

    def requests(self, key: str) -> Sequence[Request]:
        """Return the requests that wait for a job's outcome. If there are none, return the job's first request."""
        return self._open.get(key) or [self._first[key]]

    @property
    def done(self) -> bool:
        return self.searcher.done

    def ask(self, room: int, ending: Collection[str] = ()) -> list[Job]:
        requests = self.searcher.ask(room, [request for key in ending for request in self.requests(key)])
        # Write blocks to disk before any of their runs starts or is reused. Otherwise a crash could lose a block after
        # its outcomes are known, and evidence must not be chosen by outcomes.
        if blocks := self.searcher.blocks[self._blocks :]:
            self.journal.append(Asked(blocks))
            self._blocks += len(blocks)
        return [self._open_job(request) for request in requests]

    def tell(self, key: str, outcome: Outcome, trained_for: str) -> None:
        """Record an outcome in the journal, pass it to the searcher, then call :attr:`on_ended`. Do the same for every
        other arm that requested this run."""
        requests = self.requests(key)
        self._open.pop(key, None)
        for request in requests:
            run = self.sweep.run(key, request, outcome, trained_for)
            self.journal.append(Ended.of(run))
            self._add_ended(run)
            self.on_ended(run)
            trained_for = self.sweep.id  # The other arms reuse this sweep's run.
        if released := frozenset(self.searcher.release()):
            self._has_dropped_jobs = True
            self._forget(released.__contains__)

    def describe(self, job: Job) -> Member:
        return asdict(self._first[job.key])

    def read(self, member: Member) -> Job:
        request = read_request(member)
        job = self.job(request)
        self._first.setdefault(job.key, request)
        return job

    def donor(self, job: Job) -> Job:
        previous = self.sweep.spec.before(self.requests(job.key)[0])
        if previous is None:
            raise KeyError(job.donor)
        return self._open_job(previous)

    def wants(self, job: Job) -> bool:
        stopped = self.searcher.stopped
        return any(request.mix not in stopped and self.searcher.needs(request) for request in self.requests(job.key))

    def has_dropped_jobs(self) -> bool:
        has_dropped = self._has_dropped_jobs
        self._has_dropped_jobs = False
        return has_dropped

    def likely_next(self, job: Job) -> Iterator[Job]:
        """Yield a job of each size, nearest sizes first."""
        spec = self.sweep.spec
        position = spec.sizes.index(job.run.size) if job.run.size in spec.sizes else 0
        for size in sorted(spec.sizes, key=lambda size: abs(spec.sizes.index(size) - position)):
            yield self.job(Request(spec.baseline.name, size, spec.seed))

    def stop(self, mix: str) -> None:
        """Request no more runs of a mix. The campaign then drops the mix's runs in training, unless another mix needs
        them. Results that arrive anyway are kept."""
        if mix in self.searcher.stopped:
            return
        self.journal.append(Stopped(mix))
        self.searcher.stop(mix)
        self._forget(lambda request: request.mix == mix)

    def _forget(self, is_dropped: Callable[[Request], bool]) -> None:
        """Stop waiting for the outcomes of some requests. The first request of a job stays as long as another request
        waits for the job."""
        for key, (first, *others) in list(self._open.items()):
            others = [request for request in others if not is_dropped(request)]
            if is_dropped(first) and not others:
                del self._open[key]
            else:
                self._open[key] = [first, *others]

    def _open_job(self, request: Request) -> Job:
        """Wait for the outcome of a request, and return the request's job."""
        job = self.job(request)
        waiting = self._open.setdefault(job.key, [])
        if request not in waiting:
            waiting.append(request)
        self._first.setdefault(job.key, request)
        return job

    def _add_ended(self, run: Run) -> None:
        """Add a run that ended, and pass it to the searcher."""
        self.runs.append(run)
        if not run.request.phase:  # Searchers do not know about phases.
            self.searcher.tell(run.request, self.point(run))
