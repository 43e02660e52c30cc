"""Every plan keeps the contract of plans (orchestrator/jobs/plan.py). Runs train without an engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from orchestrator.history.journal import Journal
from orchestrator.history.sweeps import create_sweep
from orchestrator.home.directories import Home
from orchestrator.jobs.job_list import JobList
from orchestrator.jobs.plan import Job, Plan, job_of
from orchestrator.jobs.timetable import Timetable
from orchestrator.space.problem import searcher_of
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.sweep.tuning_plan import TuningPlan
from tests.families import LogisticFamily, LogisticSettings
from tests.sweep.sweeps import HASTE, spec
from trainables.base import Arm, Outcome, Speed, Status

MakePlan = Callable[[], Plan]
FAMILY = LogisticFamily(LogisticSettings())
FAILED = Outcome(Status.FAILED, 0, {}, {}, error="Traceback: on purpose")
MOST = 500
"""More jobs than any of these plans asks for."""
PHASES = [{"name": "then", "phases": [{"mix": "prod"}, {"mix": "add"}]}]


def list_of_jobs() -> JobList:
    runs = [FAMILY.config(Arm.parse("add"), size, seed) for size in (8, 16, 32) for seed in (0, 1)]
    return JobList(job_of(FAMILY, run) for run in runs)


SPECS: dict[str, SweepSpec] = {
    "grid": spec(sizes=[8, 32, 64], search={"method": "grid"}),
    "pairs": spec(sizes=[16, 32, 64], seeds=4, search={"method": "pairs"}),
    "bisection": spec(),
    "phases": spec(sizes=[16, 64], mixes=["add", *PHASES], search={"method": "grid"}),
    "tuning": spec(sizes=[64, 96], mixes=["add"], seeds=1, settings={"haste": 0.2}, tune=HASTE),
}


TIMED = "timed "
"""Beginning of the names of plans on a timetable."""


@pytest.fixture(params=["list", *SPECS, *(TIMED + name for name in ("list", "pairs", "phases", "tuning"))])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakePlan]:
    """A function that makes a plan, as each process of a sweep does."""
    name = request.param.removeprefix(TIMED)
    is_timed = name != request.param
    with making(name, tmp_path) as make:
        yield (lambda: Timetable(make(), FAMILY, Speed(1.0, 0.0), 3)) if is_timed else make


@contextmanager
def making(name: str, home: Path) -> Iterator[MakePlan]:
    if name == "list":
        yield list_of_jobs
        return
    sweep = create_sweep(SPECS[name], Home(home))
    with closing(Journal(sweep.files.journal)) as journal:
        if name == "tuning":
            yield lambda: TuningPlan(sweep, journal)
        else:
            yield lambda: StudyPlan(sweep, searcher_of(sweep.spec), journal)


def train(job: Job) -> Outcome:
    learner = FAMILY.learner([job.run], device="cpu", cache=Path("unused"))
    while True:
        [report] = learner.advance()
        if report.outcome is not None:
            return report.outcome


def drive(plan: Plan, train: Callable[[Job], Outcome] = train, room: int = 3) -> dict[str, Job]:
    """Train the jobs of a plan to its end, donors before the jobs that need them. Return all jobs by key."""
    jobs: dict[str, Job] = {}
    outcomes: dict[str, Outcome] = {}

    def end(job: Job) -> None:
        if job.donor and job.donor not in outcomes:
            donor = plan.donor(job)
            assert donor.key == job.donor
            end(donor)
        if job.key not in outcomes:
            assert plan.wants(job)
            assert not plan.done
            outcomes[job.key] = train(job)
        jobs[job.key] = job
        plan.tell(job.key, outcomes[job.key], "")

    while not plan.done:
        asked = plan.ask(room)
        assert asked, "the plan is not done, waits for no outcome and asks for nothing"
        assert len(asked) <= room + 1
        for job in asked:
            end(job)
        assert len(jobs) < MOST
    return jobs


def test_a_plan_ends_when_all_its_jobs_have_ended(make: MakePlan) -> None:
    plan = make()
    assert not plan.done
    assert drive(plan)
    assert list(plan.ask(3)) == []


def test_a_plan_ends_although_every_run_fails(make: MakePlan) -> None:
    assert drive(make(), lambda job: FAILED)


def test_a_plan_without_room_asks_for_nothing(make: MakePlan) -> None:
    plan = make()
    assert list(plan.ask(0)) == list(plan.ask(-2)) == []
    assert plan.ask(1)


def test_a_plan_waits_for_the_jobs_it_has_asked_for(make: MakePlan) -> None:
    plan = make()
    asked: list[Job] = []
    while jobs := plan.ask(MOST):
        asked += jobs
    assert len({job.key for job in asked}) == len(asked)
    assert not plan.done


def test_a_later_process_finds_a_job_by_its_description(make: MakePlan) -> None:
    """Also without having asked for it, as when a sweep is resumed."""
    plan = make()
    descriptions = {key: json.dumps(plan.describe(job)) for key, job in drive(plan).items()}
    later = make()
    for key, description in descriptions.items():
        job = later.read(json.loads(description))
        assert job.key == key
        assert json.dumps(later.describe(job)) == description
        assert later.wants(job)


@pytest.mark.parametrize("member", [{}, {"key": "another"}, {"mix": 3, "size": "x", "seed": None}])
def test_a_damaged_description_is_refused(member: dict[str, object], make: MakePlan) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        make().read(member)


def test_foreseen_jobs_can_be_prepared(make: MakePlan) -> None:
    plan = make()
    [first, *_] = plan.ask(1)
    shapes = [job.shape for job in plan.likely_next(first)]
    assert len(set(shapes)) == len(shapes)
