"""A plan on a timetable asks for the same jobs, and learns of the same outcomes, on any machine."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from orchestrator.history.journal import Asked, Ended, Journal, read_journal
from orchestrator.history.sweeps import create_sweep
from orchestrator.home.directories import Home
from orchestrator.jobs.job_list import JobList
from orchestrator.jobs.plan import Job, Plan, job_of
from orchestrator.jobs.timetable import Timetable, typical_seconds
from orchestrator.space.problem import searcher_of
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.study_plan import StudyPlan
from tests.families import LogisticFamily, LogisticSettings
from trainables.base import Arm, Family, Outcome, Speed, Start, Status
from trainables.transformer.native import library

STEPS = 100
FAMILY = LogisticFamily(LogisticSettings(steps=STEPS))
SPEED = Speed(1.0, 0.0)
"""Speed with which a run's typical seconds are its operations."""
MIDDLES = {"add": 28.0, "add+prod": 19.0}
needs_native_step = pytest.mark.skipif(library() is None, reason="without the native step, costs are measured")


def job(size: int, seed: int = 0, donor: Job | None = None) -> Job:
    run = FAMILY.config(Arm.parse("add"), size, seed)
    return job_of(FAMILY, run if donor is None else replace(run, start=Start(donor.run, ())))


def outcome(steps: int = STEPS, status: Status = Status.FINISHED) -> Outcome:
    return Outcome(status, steps, {"add": 0.9}, {"add": 0.1})


class Told(JobList):
    """A list of jobs that notes the order of outcomes, and how many jobs it was asked for."""

    def __init__(self, *jobs: Job) -> None:
        super().__init__(jobs)
        self.rooms: list[int] = []
        self.unwanted: set[str] = set()
        self.ending: list[list[str]] = []

    def ask(self, room: int, ending: Collection[str] = ()) -> list[Job]:
        self.rooms.append(room)
        self.ending.append(list(ending))
        return super().ask(room)

    def wants(self, job: Job) -> bool:
        return job.key not in self.unwanted

    @property
    def told(self) -> list[str]:
        return list(self.outcomes)


def timed(plan: Plan, slots: int = 2) -> Timetable:
    return Timetable(plan, FAMILY, SPEED, slots)


SHORT, LONG, THIRD = job(8), job(32), job(16)


def test_an_outcome_waits_for_a_job_that_would_have_ended_before() -> None:
    plan = Told(LONG, SHORT, THIRD)
    table = timed(plan)
    assert table.ask(2) == [LONG, SHORT]
    table.tell(LONG.key, outcome(), "")  # Although it is longer: the other one's process was slow.
    assert plan.told == []
    assert table.ask(1) == []
    table.tell(SHORT.key, outcome(), "")
    assert plan.told == [SHORT.key]
    assert table.ask(1) == [THIRD]  # It starts at the short one's end, and ends before the long one does.
    table.tell(THIRD.key, outcome(), "")
    assert plan.told == [SHORT.key, THIRD.key, LONG.key]
    assert plan.done


def test_an_outcome_waits_only_until_the_others_are_past_its_end() -> None:
    plan = Told(LONG, SHORT, THIRD)
    table = timed(plan)
    table.ask(2)
    table.tell(SHORT.key, outcome(), "")
    assert plan.told == []
    share = FAMILY.flops(SHORT.run) / FAMILY.flops(LONG.run)
    table.report_progress(LONG.key, math.floor(share * STEPS))
    assert plan.told == []
    table.report_progress(LONG.key, math.ceil(share * STEPS))
    assert plan.told == [SHORT.key]
    assert table.ask(1) == [THIRD]


def test_a_run_that_ended_early_takes_only_the_time_of_its_steps() -> None:
    plan = Told(LONG, SHORT)
    table = timed(plan)
    table.ask(2)
    table.tell(LONG.key, outcome(steps=1), "")
    assert plan.told == []
    table.report_progress(SHORT.key, STEPS - 1)
    assert plan.told == [LONG.key]


def test_the_plan_has_room_for_the_slots_that_are_free_at_a_typical_time() -> None:
    plan = Told(LONG, SHORT, THIRD)
    table = timed(plan)
    assert table.ask(9) == [LONG, SHORT]
    assert table.ask(0) == []
    assert plan.rooms == [2]
    table.tell(SHORT.key, outcome(), "")
    table.report_progress(LONG.key, STEPS - 1)
    assert plan.rooms == [2, 1]
    assert table.ask(0) == []
    assert table.ask(1) == [THIRD]


def test_a_job_is_about_to_end_by_the_timetable() -> None:
    plan = Told(LONG, job(30), THIRD)
    table = timed(plan)
    table.ask(2)
    table.tell(job(30).key, outcome(), "")
    table.report_progress(LONG.key, STEPS - 1)
    assert plan.ending == [[], [LONG.key]]


def test_a_failure_is_told_at_once() -> None:
    plan = Told(LONG, SHORT, THIRD)
    table = timed(plan)
    table.ask(2)
    table.tell(LONG.key, outcome(0, Status.FAILED), "")
    assert plan.told == [LONG.key]
    assert table.ask(1) == [THIRD]


def test_an_outcome_of_another_sweep_is_told_at_once() -> None:
    plan = Told(LONG, SHORT, THIRD)
    table = timed(plan)
    table.ask(2)
    table.tell(LONG.key, outcome(), "sweep-1")
    assert plan.told == [LONG.key]


def test_a_job_that_is_not_wanted_any_more_leaves_its_slot_to_another() -> None:
    plan = Told(LONG, SHORT, THIRD)
    table = timed(plan)
    table.ask(2)
    table.tell(LONG.key, outcome(), "")
    plan.unwanted.add(SHORT.key)
    assert table.ask(1) == [THIRD]
    table.tell(THIRD.key, outcome(), "")
    assert plan.told == [THIRD.key, LONG.key]


def test_a_job_that_is_not_wanted_any_more_is_not_given() -> None:
    plan = Told(LONG, SHORT, THIRD)
    table = timed(plan)
    assert table.ask(0) == []
    plan.unwanted.add(LONG.key)
    assert table.ask(2) == [SHORT, THIRD]


def test_a_job_takes_the_time_of_the_runs_whose_weights_it_starts_from_too() -> None:
    donor = job(30)
    second = job(8, donor=donor)
    plan = Told(THIRD, second)
    table = timed(plan)
    table.ask(2)
    table.tell(THIRD.key, outcome(), "")
    assert plan.told == []
    table.report_progress(donor.key, STEPS - 1)
    assert plan.told == [THIRD.key]


def drawn(job: Job) -> Outcome:
    """Return the outcome of a run that learns with the probability of a logistic in ln size, and may end early."""
    run = job.run
    rng = np.random.default_rng([run.seed, run.size, len(run.label)])
    learned = rng.random() < 1 / (1 + (MIDDLES[run.label] / run.size) ** 8)
    accuracy = dict.fromkeys(run.mix.tasks, 0.98 if learned else 0.2)
    steps = 1000 * int(rng.integers(4, 9))
    return Outcome(Status.FINISHED, steps, accuracy, dict.fromkeys(accuracy, 0.17), measures={"seconds": 1.0})


@dataclass
class Machine:
    """A simulated machine that trains jobs side by side, each at a pace of its own.

    Attributes:
        spread: Standard deviation of a run's pace, as a logarithm.
        every: Share of a run between two reports of its steps.
        now: Seconds so far.
        idle: Seconds of slots without a run.
    """

    family: Family
    speed: Speed
    slots: int
    seed: int
    spread: float
    every: float = 0.05
    now: float = 0.0
    idle: float = 0.0

    def train(self, plan: Plan) -> None:
        rng = np.random.default_rng(self.seed)
        waiting: list[Job] = []
        training: list[tuple[float, int, Job, float, float]] = []
        """Time of the next report, the share of the run that it has then, and its seconds from report to report."""
        for number in itertools.count():
            waiting += plan.ask(self.slots - len(training) - len(waiting))
            while waiting and len(training) < self.slots:
                job = waiting.pop(0)
                typical_s = typical_seconds(self.family, self.speed, job.run)
                moment_s = self.every * typical_s * math.exp(rng.normal(0, self.spread))
                heapq.heappush(training, (self.now + moment_s, number + len(training), job, self.every, moment_s))
            if not training:
                return
            then, order, job, share, moment_s = heapq.heappop(training)
            self.idle += (then - self.now) * (self.slots - 1 - len(training))
            self.now = then
            outcome, steps = drawn(job), round(share * self.family.steps(job.run))
            if steps >= outcome.steps:
                plan.tell(job.key, outcome, "")
            else:
                plan.report_progress(job.key, steps)
                heapq.heappush(training, (then + moment_s, order, job, share + self.every, moment_s))


def sweep_on(
    spec: SweepSpec, home: Path, slots: int, seed: int, spread: float, *, is_timed: bool = True
) -> tuple[list[str], Machine]:
    """Return the journal of a sweep on a machine, without times and its first line, and the machine after it."""
    sweep = create_sweep(spec, Home(home))
    family = spec.make_family()
    speed = family.speed("cpu")
    assert speed is not None
    machine = Machine(family, speed, slots, seed, spread)
    with closing(Journal(sweep.files.journal)) as journal:
        plan = StudyPlan(sweep, searcher_of(spec), journal)
        machine.train(Timetable(plan, family, speed, slots) if is_timed else plan)
        assert plan.done
    return [repr(timeless(entry)) for entry in list(read_journal(sweep.files.journal))[1:]], machine


def timeless(entry: object) -> object:
    return replace(entry, at="") if isinstance(entry, Asked | Ended) else entry


@needs_native_step
@pytest.mark.parametrize("slots", [2, 5])
def test_a_sweep_has_the_same_journal_on_any_machine_with_as_many_slots(slots: int, tmp_path: Path) -> None:
    spec = load_space("add_vs_add_prod", "laptop_fair")
    first, _ = sweep_on(spec, tmp_path / "even", slots, seed=1, spread=0)
    assert len(first) > 40
    for seed, spread in [(2, 0.1), (3, 0.1), (4, 0.5)]:
        again, _ = sweep_on(spec, tmp_path / str(seed), slots, seed, spread)
        assert again == first
    assert sweep_on(spec, tmp_path / "other", slots, 3, 0.1, is_timed=False)[0] != first
