"""The plan of a sweep's search: it turns the searcher's requests into jobs, and passes it their outcomes."""

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
    """Do nothing with a run that ended."""


class StudyPlan(Plan):
    """A searcher's requests as jobs. It keeps the sweep's journal.

    Two arms may request the same run, which is then one job. Each phase of an arm is a job that starts from the
    weights of the phase before it. The searcher does not know about phases.

    Attributes:
        runs: The runs that ended, in the journal's order. A run that two arms share appears twice.
        known: Jobs whose outcomes were in the journal.
        on_ended: Is called with each run that ends, after the searcher.
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
        """Requests that wait for an outcome, by key. All but the first are of other arms."""
        self._takes_back = False
        self._first: dict[str, Request] = {}
        """The first request of each job that this object has seen."""
        for run in known:
            job = replace(self.job(run.request), key=run.key)
            self._first.setdefault(job.key, run.request)
            self.known.append((job, run.outcome))
            self._enter(run)

    def job(self, request: Request) -> Job:
        return job_of(self._family, self.sweep.spec.config(request))

    def point(self, run: Run) -> Point | None:
        """Return what a run shows the searcher, None if it failed."""
        return self._search_point(run)

    def requests(self, key: str) -> Sequence[Request]:
        """Return the requests for a job: those that wait for its outcome or, without any, its first."""
        return self._open.get(key) or [self._first[key]]

    @property
    def done(self) -> bool:
        return self.searcher.done

    def ask(self, room: int, ending: Collection[str] = ()) -> list[Job]:
        requests = self.searcher.ask(room, [request for key in ending for request in self.requests(key)])
        # Write blocks to disk before any of their runs starts or is found: evidence must not be chosen by outcomes.
        if blocks := self.searcher.blocks[self._blocks :]:
            self.journal.append(Asked(blocks))
            self._blocks += len(blocks)
        return [self._opened(request) for request in requests]

    def tell(self, key: str, outcome: Outcome, trained_for: str) -> None:
        """Record an outcome in the journal, tell the searcher, then :attr:`on_ended`. Do the same for every other arm
        that requested this run."""
        requests = self.requests(key)
        self._open.pop(key, None)
        for request in requests:
            run = self.sweep.run(key, request, outcome, trained_for)
            self.journal.append(Ended.of(run))
            self._enter(run)
            self.on_ended(run)
            trained_for = self.sweep.id  # For the other arms it is a run of this sweep.
        if released := frozenset(self.searcher.release()):
            self._takes_back = True
            self._forget(released.__contains__)

    def describe(self, job: Job) -> Member:
        return asdict(self._first[job.key])

    def read(self, member: Member) -> Job:
        request = read_request(member)
        job = self.job(request)
        self._first.setdefault(job.key, request)
        return job

    def donor(self, job: Job) -> Job:
        before = self.sweep.spec.before(self.requests(job.key)[0])
        if before is None:
            raise KeyError(job.donor)
        return self._opened(before)

    def wants(self, job: Job) -> bool:
        searcher = self.searcher
        return any(one.mix not in searcher.stopped and searcher.needs(one) for one in self.requests(job.key))

    def takes_back(self) -> bool:
        taken, self._takes_back = self._takes_back, False
        return taken

    def foresee(self, job: Job) -> Iterator[Job]:
        """Yield a job of each size, the nearest first."""
        spec = self.sweep.spec
        place = spec.sizes.index(job.run.size) if job.run.size in spec.sizes else 0
        for size in sorted(spec.sizes, key=lambda size: abs(spec.sizes.index(size) - place)):
            yield self.job(Request(spec.baseline.name, size, spec.seed))

    def stop(self, mix: str) -> None:
        """Request no more runs of a mix. The campaign then drops its runs in training, unless another mix needs them;
        results that arrive nevertheless are kept."""
        if mix in self.searcher.stopped:
            return
        self.journal.append(Stopped(mix))
        self.searcher.stop(mix)
        self._forget(lambda request: request.mix == mix)

    def _forget(self, is_dropped: Callable[[Request], bool]) -> None:
        """Wait no more for the outcomes of some requests. The first request of a job stays while another needs it."""
        for key, (first, *others) in list(self._open.items()):
            others = [request for request in others if not is_dropped(request)]
            if is_dropped(first) and not others:
                del self._open[key]
            else:
                self._open[key] = [first, *others]

    def _opened(self, request: Request) -> Job:
        job = self.job(request)
        waiting = self._open.setdefault(job.key, [])
        if request not in waiting:
            waiting.append(request)
        self._first.setdefault(job.key, request)
        return job

    def _enter(self, run: Run) -> None:
        self.runs.append(run)
        if not run.request.phase:  # Searchers do not know about phases.
            self.searcher.tell(run.request, self.point(run))
