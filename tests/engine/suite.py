"""Suite for the contract of an engine (orchestrator/engine/engine.py).

Every check drives a real campaign with an engine. :class:`Bench` describes the engine; to try another one, pass its
bench to every function of :data:`CHECKS`. A check raises ``AssertionError`` if the engine breaks its contract.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import pytest

from orchestrator.engine.campaign import Campaign, Observer
from orchestrator.engine.engine import Engine
from orchestrator.engine.messages import StackReport
from orchestrator.history.journal import Journal
from orchestrator.history.known_runs import recall_sweep
from orchestrator.history.sweeps import Sweep, create_sweep
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.directories import Home
from orchestrator.jobs.plan import Job, Stack
from orchestrator.jobs.resources import Resources
from orchestrator.search.base import Request
from orchestrator.search.grid import Grid
from orchestrator.space.problem import searcher_of
from orchestrator.space.spec import SweepSpec
from orchestrator.space.stack_sizes import StackSizes
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.system.hardware import Hardware
from tests.engine.test_campaign import plan_of, stop_mix
from tests.scripted import Event, begun, closed, events
from tests.sweep.sweeps import scripted
from trainables.base import Outcome, Status

LIMIT_S = 240.0
"""Seconds after which a check fails, because the engine does not end. A busy machine starts processes slowly."""
Place = tuple[str, int, int]
"""Mix, size and seed of a run."""


class Watched(Campaign):
    """A campaign that records what its engine does."""

    def __post_init__(self, known: Iterable[tuple[Job, Outcome]]) -> None:
        super().__post_init__(known)
        self.flaws: list[str] = []
        """Breaches of the contract."""
        self.open: dict[str, bool] = {}
        """Stacks that the engine has taken and not ended, and whether a worker has reported that it left the stack."""
        self.heard: set[str] = set()
        """Stacks that have reported."""
        self.taken: Counter[str] = Counter()
        self.reported: Counter[tuple[Place, int]] = Counter()
        """Evaluations that the campaign has received, by run and step."""
        self._places: dict[str, Place] = {}
        self._until = time.monotonic() + LIMIT_S
        self._inside = False

    def next_stack(self) -> Stack | None:
        self._check_time()
        stack = super().next_stack()
        if stack is not None:
            if stack.id in self.open:
                self.flaws.append(f"{stack.id} was taken again before its end was reported")
            self.open[stack.id] = False
            self.taken[stack.id] += 1
            for job in stack.jobs:
                self._places[job.key] = job.run.mix.name, job.run.size, job.run.seed
        return stack

    @property
    def done(self) -> bool:
        self._check_time()
        return super().done

    def poll(self) -> None:
        self._check_time()
        super().poll()

    def handle_report(self, stack_id: str, report: StackReport) -> None:
        self._check_time()
        if self.open.get(stack_id, True):
            self.flaws.append(f"{stack_id} was reported after it had ended")
        self.reported.update(self.evaluations(report))
        self.heard.add(stack_id)
        if report.halves or report.needs_gpus or report.machine_error or report.broken:
            self.open[stack_id] = True
        self._inside = True  # The campaign itself then calls its methods below.
        try:
            super().handle_report(stack_id, report)
        finally:
            self._inside = False

    def evaluations(self, report: StackReport) -> list[tuple[Place, int]]:
        """Return the run and step of each evaluation in a report."""
        runs = [(self._places[run.key], run.evaluation) for run in report.runs]
        return [(place, evaluation.step) for place, evaluation in runs if evaluation is not None]

    def stack_ended(self, stack_id: str) -> None:
        self._end(stack_id)
        super().stack_ended(stack_id)

    def stack_failed(self, stack_id: str, error: str, *, retries: int = 0) -> None:
        self._end(stack_id)
        super().stack_failed(stack_id, error, retries=retries)

    def stack_met_machine_error(self, stack_id: str, error: str, *, can_retry: bool = True) -> None:
        if not self._inside:
            self._end(stack_id)
        super().stack_met_machine_error(stack_id, error, can_retry=can_retry)

    def engine_met_machine_error(self, error: str) -> None:
        self._inside = True
        try:
            super().engine_met_machine_error(error)
        finally:
            self._inside = False
        self.open.clear()

    def _end(self, stack_id: str) -> None:
        if stack_id not in self.open:
            self.flaws.append(f"{stack_id} ended twice, or was not taken")
        self.open.pop(stack_id, None)

    def _check_time(self) -> None:
        assert time.monotonic() < self._until, f"the engine did not end within {LIMIT_S:g} s; {self.flaws}"


class Hook(Observer):
    """Calls a function at every poll, as a request from another process or a signal would be handled."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.poll = call  # type: ignore[method-assign]


@dataclass
class Bench:
    """An engine on trial.

    Attributes:
        make: Makes the engine. It must be a function of a module if ``in_driver``, because another process calls it.
        home: An empty directory.
        in_driver: True if the engine trains in its own process, which a killed worker ends.
    """

    make: Callable[[Resources], Engine]
    home: Path
    in_driver: bool = False
    sweep: Sweep = field(init=False)
    _reported: Counter[tuple[Place, int]] = field(default_factory=Counter)
    """Evaluations that the campaigns of all executions have received."""

    @property
    def log(self) -> Path:
        return self.home / "log"

    @property
    def holds(self) -> Path:
        """Directory with a file for each size and step before which stacks wait."""
        return self.home / "holds"

    def begin(self, settings: Mapping[str, object], **changes: object) -> Watched:
        """Create a sweep of scripted runs, and return its campaign."""
        self.home.mkdir(exist_ok=True)
        self.holds.mkdir()
        resources = {"max_stack": 1, "checkpoint_every_s": 1e9, "cpu_per_stack": 1}
        changes["resources"] = resources | dict(changes.get("resources", {}))  # type: ignore[call-overload]
        spec = scripted(self.log, {"holds": str(self.holds), **settings}, **changes)
        self.sweep = create_sweep(spec, Home(self.home))
        return self.resume()

    def resume(self) -> Watched:
        """Return a campaign that continues the sweep."""
        return campaign_of(self.sweep)

    def drive(self, campaign: Watched) -> Watched:
        """Train with a new engine until it returns, and check what holds for every execution."""
        self.execute(campaign)
        self.check(campaign)
        return campaign

    def execute(self, campaign: Watched) -> None:
        with self.engine() as engine:
            campaign.slots = engine.slots
            engine.execute(campaign)

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        with patch("orchestrator.engine.retries.WAITS_S", (0.0, 0.0)), self.make(self.sweep.spec.resources) as engine:
            resources = self.sweep.spec.resources
            assert engine.slots(resources) >= 1
            assert engine.describe(resources)
            assert engine.death() == ""
            yield engine

    def check(self, campaign: Watched, *, killed: bool = False) -> None:
        """Check what holds after every execution, in which a process was ``killed`` or not."""
        assert campaign.flaws == []
        assert campaign.done, "the engine returned before the campaign was done"
        assert list(campaign.open) == [], "stacks were taken and never ended"
        starts, ends = (Counter(event.process for event in read(self.log)) for read in (begun, closed))
        assert sum((starts - ends).values()) == killed, "a worker was not closed before the engine returned"
        assert not ends - starts
        # A worker that trains on before its report is taken in would save more than the campaign knows.
        logged = Counter((place_of(event), event.step) for event in events(self.log))
        self._reported += campaign.reported
        assert killed or logged == self._reported, "an evaluation was not reported, or twice"
        assert not trained_together(self.log), "a process trained two stacks at once"

    def finished(self) -> Counter[Place]:
        """Return the runs that the journal has as finished."""
        return self.ended(Status.FINISHED)

    def ended(self, status: Status) -> Counter[Place]:
        entries = recall_sweep(self.sweep).ended
        return Counter(
            (entry.request.mix, entry.request.size, entry.request.seed)
            for entry in entries
            if entry.outcome.status is status
        )

    def hold(self, *places: tuple[int, int]) -> None:
        """Make stacks of a size wait before a step, both given, until :meth:`release`."""
        for size, step in places:
            (self.holds / f"{size}-{step}").touch()

    def release(self) -> None:
        for path in self.holds.iterdir():
            path.unlink()


def campaign_of(sweep: Sweep) -> Watched:
    """Return the campaign of a sweep with the runs in its journal."""
    spec = sweep.spec
    memory = recall_sweep(sweep)
    searcher = searcher_of(spec, memory.blocks)
    sizing = StackSizes(spec, Hardware(4, 16))
    journal = Journal(sweep.files.journal)
    plan = StudyPlan(sweep, searcher, journal, known=memory.ended, blocks=len(memory.blocks))
    return Watched(sweep.files, sweep.setup, plan, slots=lambda _: 1, sizing=sizing, known=plan.known)


def place_of(event: Event) -> Place:
    return event.mix, event.size, event.seed


def places(spec: SweepSpec) -> Counter[Place]:
    """Return all runs of a sweep, each once."""
    return Counter((mix.name, size, seed) for mix, size in spec.cells for seed in spec.seed_list)


def repeated(log: Path) -> list[tuple[Place, int]]:
    """Return the evaluations that were trained more than once."""
    seen = Counter((place_of(event), event.step) for event in events(log))
    return [evaluation for evaluation, times in seen.items() if times > 1]


def trained_together(log: Path) -> list[tuple[Event, Event]]:
    """Return steps of two stacks that one process took at the same time."""
    spans = {(event.node, event.process, event.begun): event for event in events(log)}  # The runs of a stack share one.
    return [
        (before, after)
        for (one, before), (other, after) in itertools.pairwise(sorted(spans.items(), key=lambda item: item[0]))
        if one[:2] == other[:2] and after.begun < before.time
    ]


def trains_every_run_once(bench: Bench) -> None:
    """Every run is trained once, to its end, in stacks of several runs, and no report is lost."""
    campaign = bench.drive(bench.begin({}, mixes=["add", "add+prod"], seeds=2, resources={"max_stack": 2}))
    assert bench.finished() == places(bench.sweep.spec)
    assert repeated(bench.log) == []
    assert campaign.reported == Counter((place_of(event), event.step) for event in events(bench.log))
    assert set(campaign.reported.values()) == {1}
    assert max(event.runs for event in events(bench.log)) == 2


def fills_its_slots(bench: Bench) -> None:
    """As many stacks train at once as the engine has slots: two wait for one another."""
    campaign = bench.begin({}, sizes=[8, 16, 24, 32])
    with bench.engine() as engine:
        slots = engine.slots(bench.sweep.spec.resources)
    if slots > 1:
        bench.hold((8, 2), (16, 2))

    def release() -> None:
        if {(place[1], step) for place, step in campaign.reported} >= {(8, 1), (16, 1)}:
            bench.release()

    campaign.observer = Hook(release)
    bench.drive(campaign)
    assert bench.finished() == places(bench.sweep.spec)
    if slots == 1:
        spans = sorted((event.begun, event.time) for event in events(bench.log))
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def stops_at_the_next_evaluation(bench: Bench) -> None:
    """A stop ends every stack with a checkpoint. A later engine continues from there and repeats nothing."""
    sizes = [8, 16, 24, 32]
    campaign = bench.begin({"steps": 30}, sizes=sizes, seeds=2, resources={"max_stack": 2})
    bench.hold(*((size, 5) for size in sizes))  # No stack ends before all that were taken have trained.

    def stop() -> None:
        if campaign.open and campaign.open.keys() <= campaign.heard:
            campaign.stopping = True
            bench.release()

    campaign.observer = Hook(stop)
    bench.drive(campaign)
    assert campaign.machine_error == ""
    assert not bench.finished()
    assert campaign.table.stacks == {}
    stopped = [stack for stack in campaign.taken if stack in Checkpoints(bench.sweep.files.checkpoints).stacks()]
    assert len(stopped) == len(campaign.taken) >= 1, "a stack was stopped without a checkpoint"
    assert max(event.step for event in events(bench.log)) < 30, "the engine trained on after the stop"
    again = bench.drive(bench.resume())
    assert again.taken.keys() >= campaign.taken.keys()
    assert bench.finished() == places(bench.sweep.spec)
    assert repeated(bench.log) == []


def ends_a_stack_that_is_not_wanted(bench: Bench) -> None:
    """If the runs of a stack are not wanted any more, its worker ends early, and the others train to their ends."""
    campaign = bench.begin({"steps": 40}, mixes=["add", "add+prod"], sizes=[8])

    def drop() -> None:
        if any(place[0] == "add+prod" for place, _ in campaign.reported):
            stop_mix(campaign, "add+prod")

    campaign.observer = Hook(drop)
    bench.drive(campaign)
    assert bench.finished() == Counter([("add", 8, 0)])
    assert max(event.step for event in events(bench.log) if event.mix == "add+prod") < 40


class _ChangesItsMind(Grid):
    """Needs no run of the largest size once a run of the smallest has ended."""

    def needs(self, run: Request) -> bool:
        return run.size < self.problem.sizes[-1] or all(ended.size > self.problem.sizes[0] for ended in self.results)

    def choose(self, pending: Sequence[Request], limit: int, ending: Collection[Request] = ()) -> list[Request]:
        return [run for run in super().choose(pending, limit, ending) if self.needs(run)]


def ends_runs_that_an_outcome_makes_needless(bench: Bench) -> None:
    """Runs that the plan takes back after an outcome end early, with checkpoints. They are neither failed nor done, and
    if they are wanted later, they continue."""
    campaign = bench.begin({"steps": 40})
    plan = plan_of(campaign)
    plan.searcher = _ChangesItsMind(plan.searcher.problem)
    bench.hold((16, 5))
    campaign.observer = Hook(lambda: bench.release() if bench.finished() else None)
    bench.drive(campaign)
    assert bench.finished() == Counter([("add", 8, 0)])
    assert not bench.ended(Status.FAILED)
    reached = max((event.step for event in events(bench.log) if event.size == 16), default=0)
    assert reached < 40
    left = Checkpoints(bench.sweep.files.checkpoints).stacks()
    assert len(left) == (reached > 0)
    bench.drive(bench.resume())
    assert bench.finished() == places(bench.sweep.spec)
    assert repeated(bench.log) == []


def retries_after_a_full_disk(bench: Bench) -> None:
    """A machine error that a worker reports is not an outcome, and the stack is retried."""
    bench.drive(bench.begin({"times": 1, "trouble": "ENOSPC"}))
    assert bench.finished() == places(bench.sweep.spec)


def stops_on_a_disk_that_stays_full(bench: Bench) -> None:
    """After the last retry the engine returns, and the runs have no outcome."""
    campaign = bench.drive(bench.begin({"times": 10, "trouble": "ENOSPC"}))
    assert "/data/stream.bin is full" in campaign.machine_error
    assert bench.finished() <= Counter([("add", 8, 0)])
    assert not bench.ended(Status.FAILED)


def survives_a_killed_worker(bench: Bench) -> None:
    """A killed worker is a machine error: its runs are trained again, and other runs are not touched. Of an engine that
    trains in its own process, a resumed sweep trains them."""
    bench.begin({"steps": 4}, seeds=2, resources={"retries": 0})
    Path(f"{bench.log}.dies").write_text("6")
    if bench.in_driver:
        driver = multiprocessing.get_context("spawn").Process(target=_drive, args=(bench,))
        driver.start()
        driver.join()
        assert driver.exitcode == -signal.SIGKILL
    campaign = bench.resume()
    bench.execute(campaign)
    bench.check(campaign, killed=True)
    assert not Path(f"{bench.log}.dies").exists()
    assert bench.finished() == places(bench.sweep.spec)
    assert not bench.ended(Status.FAILED)


def _drive(bench: Bench) -> None:
    bench.execute(bench.resume())


def continues_a_halved_stack(bench: Bench) -> None:
    """A stack that runs out of memory continues as two from its checkpoint."""
    settings = {"room": 2, "grows_at": 2, "steps": 4}
    resources = {"max_stack": 4, "checkpoint_every_s": 1e-9}
    sizes = [8, 16, 24, 32]  # At least as many as the engine has slots, so that no runs of a size are spread.
    search = {"method": "grid", "stack": 4}
    campaign = bench.drive(bench.begin(settings, sizes=sizes, seeds=4, search=search, resources=resources))
    assert bench.finished() == places(bench.sweep.spec)
    assert set(campaign.limits.values()) == {2}
    assert repeated(bench.log) == []
    assert {event.runs for event in events(bench.log) if event.step == 1} >= {4}
    assert {event.runs for event in events(bench.log) if event.step > 1} == {2}


def keeps_a_failure_to_its_run(bench: Bench) -> None:
    """A run whose training always raises an exception fails with its traceback, and no other run does."""
    bench.drive(bench.begin({"times": 99, "trouble": "bug"}, sizes=[8, 16, 24]))
    assert bench.ended(Status.FAILED) == Counter([("add", 16, 0)])
    assert bench.finished() == Counter([("add", 8, 0), ("add", 24, 0)])
    [error] = [entry.outcome.error for entry in recall_sweep(bench.sweep).ended if entry.outcome.error]
    assert "RuntimeError: a bug that was mended since" in error


def stops_if_a_worker_has_other_code(bench: Bench) -> None:
    """A worker that reports other code than the driver's stops the campaign before it trains anything."""
    campaign = bench.begin({})
    job = campaign.job
    # As if the same run had another key in the driver.
    campaign.job = lambda stack: replace(job(stack), keys=("0" * 16,))  # type: ignore[method-assign]
    bench.drive(campaign)
    assert "computes different run keys" in campaign.broken
    assert not events(bench.log)


def closes_workers_if_the_driver_fails(bench: Bench) -> None:
    """An exception of the campaign leaves the engine, which first ends its workers."""
    campaign = bench.begin({"steps": 20}, sizes=[8, 16])

    def fail() -> None:
        if campaign.reported:
            raise LookupError("of the driver")

    campaign.observer = Hook(fail)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - an engine may wrap it
        bench.execute(campaign)
    assert "of the driver" in str(raised.getrepr(style="native"))
    if bench.in_driver:
        assert len(begun(bench.log)) == len(closed(bench.log))
    else:
        time.sleep(0.2)
        own = {event.process for event in begun(bench.log)} - {os.getpid()}
        assert not [process for process in own if _is_training(process)], "a worker outlives the engine"


def saves_nothing_that_was_not_taken_in(bench: Bench) -> None:
    """After an exception of the campaign, checkpoints contain only evaluations that it has taken in. A resumed sweep
    continues right after them, so that no evaluation is lost."""
    steps = range(1, 21)
    settings = {"steps": len(steps), "pace_s": 0.02}
    campaign = bench.begin(settings, sizes=[8, 16], resources={"checkpoint_every_s": 1e-9})
    lost: tuple[Place, int] = (("add", 8, 0), 5)
    handle_report = campaign.handle_report

    def fail(stack_id: str, report: StackReport) -> None:
        if lost in campaign.evaluations(report):
            raise LookupError("of the driver")
        handle_report(stack_id, report)

    campaign.handle_report = fail  # type: ignore[method-assign]
    with pytest.raises(Exception) as raised:  # noqa: PT011 - an engine may wrap it
        bench.execute(campaign)
    assert "of the driver" in str(raised.getrepr(style="native"))
    again = bench.resume()
    bench.execute(again)
    assert bench.finished() == places(bench.sweep.spec)
    missing = {(place, step) for place in places(bench.sweep.spec) for step in steps}
    missing -= campaign.reported.keys() | again.reported.keys()
    assert missing == set(), "a checkpoint contained more than the campaign had taken in"
    assert min(step for place, step in again.reported if place == lost[0]) == lost[1], "a checkpoint was not used"


def _is_training(process: int) -> bool:
    """Return True if a process lives. A zombie does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


CHECKS: tuple[Callable[[Bench], None], ...] = (
    trains_every_run_once,
    fills_its_slots,
    stops_at_the_next_evaluation,
    ends_a_stack_that_is_not_wanted,
    ends_runs_that_an_outcome_makes_needless,
    retries_after_a_full_disk,
    stops_on_a_disk_that_stays_full,
    survives_a_killed_worker,
    continues_a_halved_stack,
    keeps_a_failure_to_its_run,
    stops_if_a_worker_has_other_code,
    closes_workers_if_the_driver_fails,
    saves_nothing_that_was_not_taken_in,
)
"""The contract, one function for each demand."""
