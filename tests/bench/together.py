"""How much sooner sweeps have their answers if they share the slots than one after another.

    python -m tests.bench.together --repeats 10

Group, campaigns, searchers and journals are real. Only the engine is simulated: its slots train nothing, and its clock
jumps to the end of the next stack. Runs are those of slots.py at twice the size. The unit of time is a run at the
largest size.
"""

from __future__ import annotations

import argparse
import heapq
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.engine import Engine
from orchestrator.engine.group import Group, SweepCampaigns
from orchestrator.engine.job_queue import OneByOne
from orchestrator.engine.messages import RunReport, StackJob, StackReport
from orchestrator.engine.work import Work
from orchestrator.history.journal import Journal
from orchestrator.history.sweeps import create_sweep
from orchestrator.home.directories import Home
from orchestrator.jobs.plan import Stack
from orchestrator.jobs.resources import Resources
from orchestrator.space.problem import searcher_of
from orchestrator.sweep.study_plan import StudyPlan
from tests.bench.slots import SIZES, chance_of, cost_of
from tests.sweep.sweeps import spec
from trainables.base import Outcome, RunConfig, Status

MIXES = ("add", "add+prod", "add+max", "add+sub", "add+prod+max", "add+prod+sub")
CASES: tuple[tuple[int, int, str], ...] = ((2, 16, "decide"), (2, 64, "decide"), (4, 64, "decide"))
"""Mixes of each sweep, slots and aim."""
SWEEPS = 3


class SimulatedEngine(Engine):
    """Slots that train nothing, with a clock of their own.

    Attributes:
        now: The time.
        runs: Number of runs begun.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self.now = 0.0
        self.runs = 0

    def slots(self, resources: Resources) -> int:
        return self._slots

    def describe(self, resources: Resources) -> str:
        return f"{self._slots} simulated slots"

    def execute(self, work: Work) -> None:
        training: list[tuple[float, int, Stack, StackJob]] = []
        while not work.done:
            while (stack := work.next_stack()) is not None:
                job = work.job(stack)
                self.runs += len(job.runs)
                heapq.heappush(training, (self.now + max(map(cost_of_run, job.runs)), self.runs, stack, job))
            if not training:
                continue
            self.now, _, stack, job = heapq.heappop(training)
            work.handle_report(stack.id, StackReport(tuple(map(ended, job.keys, job.runs))))
            work.stack_ended(stack.id)
            for over in [item for item in training if work.should_end(item[2].id)]:
                training.remove(over)
                work.stack_ended(over[2].id)
            heapq.heapify(training)


def cost_of_run(run: RunConfig) -> float:
    return cost_of(_random(run), run.size // 2)


def ended(key: str, run: RunConfig) -> RunReport:
    """Return the last report on a run."""
    rng = _random(run)
    cost = cost_of(rng, run.size // 2)
    learned = rng.random() < chance_of(MIXES.index(run.label), run.size // 2)
    accuracy = dict.fromkeys(run.mix.tasks, 0.98 if learned else 0.2)
    floor = dict.fromkeys(run.mix.tasks, 0.15)
    return RunReport(key, None, Outcome(Status.FINISHED, 1, accuracy, floor, measures={"seconds": cost}))


def _random(run: RunConfig) -> np.random.Generator:
    return np.random.default_rng([MIXES.index(run.label), run.size, run.seed])


class AllAtOnce(Group):
    """A group whose sweeps all begin at once."""

    def begin(self) -> bool:
        while self._coming:
            self._begin_next()
        return super().begin()


class FirstFirst(Group):
    """A group in which an idle slot goes to the sweep that began first, among those that can use it."""

    def _order(self, member: object) -> tuple[float, int]:
        return 0.0, 0


class OneAfterAnother(Group):
    """A group whose sweeps wait for one another."""

    def _has_idle_slot(self) -> bool:
        return not self._members


WAYS: dict[str, type[Group]] = {
    "one after another": OneAfterAnother,
    "together": Group,
    "all begin at once": AllAtOnce,
    "the first first": FirstFirst,
}


@dataclass(frozen=True)
class Used:
    """What a group of sweeps took: the times of their answers, the runs begun, and seconds of the driver."""

    answers: tuple[float, ...]
    runs: int
    driver_s: float


def play(way: type[Group], mixes: int, slots: int, aim: str, key: int) -> Used:
    """Run some sweeps on simulated slots."""
    engine = SimulatedEngine(slots)
    answers: list[float] = []
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as home:
        courses = [
            course(Home(Path(home)), mixes, aim, SWEEPS * key + place, note(engine, answers)) for place in range(SWEEPS)
        ]
        group = way(courses, engine.slots)
        while group.begin():
            engine.execute(group)
    return Used(tuple(answers), engine.runs, time.perf_counter() - begun)


def note(engine: SimulatedEngine, answers: list[float]) -> Callable[[], None]:
    return lambda: answers.append(engine.now)


def course(home: Home, mixes: int, aim: str, key: int, answered: Callable[[], None]) -> SweepCampaigns:
    """Yield the campaign of a sweep, whose runs are its own."""
    search = {"method": "pairs", "aim": aim, "max_runs": 200}
    wanted = spec(
        mixes=list(MIXES[:mixes]), sizes=[2 * size for size in SIZES], seeds=200, seed=1000 * key, search=search
    )
    sweep = create_sweep(wanted, home)
    with sweep.files.driving(), Journal(sweep.files.journal) as journal:
        plan = StudyPlan(sweep, searcher_of(sweep.spec), journal)
        yield Campaign(sweep.files, sweep.setup, plan, slots=lambda _: 1, sizing=OneByOne())
    answered()


def rows(mixes: int, slots: int, aim: str, repeats: int) -> Iterator[str]:
    """Yield a row of the table for each way: medians over some repeats."""
    for name, way in WAYS.items():
        used = [play(way, mixes, slots, aim, key) for key in range(repeats)]
        columns = (
            [one.answers[0] for one in used],
            [float(np.mean(one.answers)) for one in used],
            [one.answers[-1] for one in used],
            [float(one.runs) for one in used],
            [1000 * one.driver_s / one.runs for one in used],
        )
        cells = [f"{mixes} mixes each, {slots} slots, {aim}", name, *(f"{np.median(values):.3g}" for values in columns)]
        yield "| " + " | ".join(cells) + " |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10, help="groups a row")
    repeats = parser.parse_args(arguments).repeats
    print("| three sweeps | way | first answer | mean answer | last answer | runs | driver, ms a run |")
    print("|---|---|---|---|---|---|---|")
    for mixes, slots, aim in CASES:
        for row in rows(mixes, slots, aim, repeats):
            print(row, flush=True)


if __name__ == "__main__":
    main()
