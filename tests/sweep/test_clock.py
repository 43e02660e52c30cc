"""What a sweep trains does not depend on how fast the machine is, if the family knows what its runs cost."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from orchestrator.history.journal import Journal
from orchestrator.history.known_runs import recall_sweep
from orchestrator.history.sweeps import create_sweep, load_sweep
from orchestrator.home.directories import Home
from orchestrator.jobs.plan import Job
from orchestrator.search.base import Request
from orchestrator.space.comparisons import search_points
from orchestrator.space.problem import searcher_of
from orchestrator.space.runs import Run
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.study_plan import StudyPlan
from tests.sweep import sweeps
from tests.sweep.sweeps import only_sweep, run_here
from trainables.base import Outcome, Status
from trainables.transformer.native import library

needs_native_step = pytest.mark.skipif(library() is None, reason="without the native step, costs are measured")
MIDDLES = {"add": 28.0, "add+prod": 19.0}


def outcome(job: Job, steps: int, seconds: float) -> Outcome:
    """Return the outcome of a run that learns with the probability of a logistic in ln size."""
    run = job.run
    chance = 1 / (1 + (MIDDLES[run.label] / run.size) ** 8)
    learned = np.random.default_rng([run.seed, run.size, len(run.label)]).random() < chance
    accuracy = dict.fromkeys(run.mix.tasks, 0.98 if learned else 0.2)
    return Outcome(Status.FINISHED, steps, accuracy, dict.fromkeys(accuracy, 0.17), measures={"seconds": seconds})


def trained(spec: SweepSpec, home: Path, slowness: float, seed: int) -> list[tuple[str, int, int]]:
    """Return the runs that a sweep trains one after the other on a machine with this slowness, give or take a half."""
    sweep, rng, runs = create_sweep(spec, Home(home)), np.random.default_rng(seed), []
    with closing(Journal(sweep.files.journal)) as journal:
        plan = StudyPlan(sweep, searcher_of(spec), journal)
        waiting = plan.ask(1)
        while waiting:
            job = waiting.pop(0)
            runs.append((job.run.label, job.run.size, job.run.seed))
            seconds = slowness * job.run.size * math.exp(rng.uniform(-0.5, 0.5))
            plan.tell(job.key, outcome(job, 8000, seconds), "")
            waiting += plan.ask(1) if not waiting else []
    return runs


@needs_native_step
def test_a_sweep_trains_the_same_runs_on_a_slow_and_on_a_busy_machine(tmp_path: Path) -> None:
    spec = load_space("add_vs_add_prod", "laptop_fair")
    first = trained(spec, tmp_path / "first", 1.0, seed=1)
    assert len(first) > 25
    assert {mix for mix, _, _ in first} == {"add", "add+prod"}
    assert trained(spec, tmp_path / "slow", 30.0, seed=2) == first
    assert trained(spec, tmp_path / "busy", 1.0, seed=3) == first


def cost(spec: SweepSpec, size: int, steps: int, seconds: float) -> float:
    request = Request("add", size, 0)
    measures = {"seconds": seconds}
    ended = Outcome(Status.FINISHED, steps, {"add": 0.5}, {"add": 0.1}, measures=measures)
    point = search_points(spec)(Run(request, spec.config(request), ended))
    assert point is not None
    return point.cost


def told(home: Path) -> list[tuple[str, int, int, dict[str, float]]]:
    """Return the runs of the only sweep in a home, in the order in which its search learned of them."""
    runs = recall_sweep(load_sweep(Home(home), only_sweep(home).id)).ended
    return [(run.config.label, run.config.size, run.config.seed, run.outcome.accuracy) for run in runs]


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """Keep cores busy during the block."""
    # Ray's workers have this niceness, too.
    loop_line = ["nice", "-n", "15", sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(loop_line) for _ in range(cores)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@needs_native_step
@pytest.mark.night
def test_a_real_sweep_of_two_slots_repeats_on_a_busy_machine(tmp_path: Path) -> None:
    spec = load_space("add_vs_add_prod", "smoke", ["seeds=5", "sizes=[8,12,16,24]", "settings.training.steps=300"])
    run_here(spec, tmp_path / "idle", engine="ray")
    with busy(1):
        run_here(spec, tmp_path / "busy", engine="ray")
    first = told(tmp_path / "idle")
    assert len(first) >= 10
    assert told(tmp_path / "busy") == first


def test_a_run_costs_what_its_steps_take_on_a_typical_core() -> None:
    spec = load_space("add_vs_add_prod", "laptop_fair")
    # As measured on an idle machine, two runs at a time: 38 s at n_embed 24.
    assert cost(spec, 24, 8000, 1.0) == pytest.approx(38, rel=0.05)
    assert cost(spec, 24, 8000, 1000.0) == cost(spec, 24, 8000, 1.0)
    assert cost(spec, 24, 6000, 1.0) == pytest.approx(0.75 * cost(spec, 24, 8000, 1.0))
    assert cost(spec, 12, 8000, 1.0) < cost(spec, 24, 8000, 1.0) / 2


def test_a_run_costs_the_same_where_the_native_step_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a budget such as that of `quick` would end a search before it can decide."""
    monkeypatch.setattr("trainables.transformer.native.library", lambda: None)
    spec = load_space("add_vs_add_prod", "laptop_fair")
    assert spec.make_family().speed("cpu") is None
    assert cost(spec, 24, 8000, 1000.0) == pytest.approx(38, rel=0.05)


def test_a_run_of_a_family_with_unknown_speed_costs_what_was_measured() -> None:
    assert cost(sweeps.spec(), 16, 3, 12.5) == 12.5
