"""A list of jobs without a search space: the smallest plan trains on every engine, and continues after kills."""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.engine.campaign import Campaign, Observer
from orchestrator.engine.engine import Engine
from orchestrator.engine.local_engine import LocalEngine
from orchestrator.engine.ray.engine import RayEngine
from orchestrator.history.journal import Journal
from orchestrator.home.directories import Home
from orchestrator.jobs.job_list import JobList
from orchestrator.jobs.plan import SweepSetup, job_of
from orchestrator.jobs.resources import Resources
from orchestrator.jobs.state import State
from orchestrator.record.job_records import JobRecords
from orchestrator.record.json_lines import JsonLinesTracker
from tests.engine.processes import ProcessEngine
from tests.scripted import FAMILY, ScriptedFamily, ScriptedSettings, events, trained
from trainables.base import Arm, Status
from trainables.families import FamilySource

RESOURCES = Resources(checkpoint_every_s=1e-9, cpu_per_stack=1)
EVERY_RUN = {f"add {size} {seed}": 1 for size in (8, 16) for seed in (0, 1)}


class Two:
    """Room for two runs in each stack."""

    def max_runs(self, size: int) -> int:
        return 2


class StopsAfter(Observer):
    """Stops a campaign after some outcomes."""

    def __init__(self, campaign: Campaign, plan: JobList, count: int) -> None:
        campaign.observer = self
        self._campaign = campaign
        self._plan = plan
        self._count = count

    def poll(self) -> None:
        if len(self._plan.outcomes) >= self._count:
            self._campaign.stopping = True


def run_list(home: Path, engine: Engine, *, stop_after: int = 99) -> JobList:
    """Train four runs of two sizes, and return the plan."""
    settings = ScriptedSettings(log=str(home / "log"), steps=4)
    family = ScriptedFamily(settings)
    runs = [family.config(Arm.parse("add"), size, seed) for size in (8, 16) for seed in (0, 1)]
    files = Home(home).sweep("list-1")
    source = FamilySource(FAMILY, settings)
    setup = SweepSetup("list-1", str(files.directory), source, family.version, "", False, (), RESOURCES)
    tracker = JsonLinesTracker(home / "runs.jsonl")
    records = JobRecords(setup, lambda call: call(tracker))
    records.begin()
    plan = JobList((job_of(family, run) for run in runs), records.run_ended)
    with files.driving(), Journal(files.journal), engine:
        campaign = Campaign(files, setup, plan, slots=engine.slots, sizing=Two())
        StopsAfter(campaign, plan, stop_after)
        engine.execute(campaign)
    records.end(State.FINISHED if plan.done else State.INTERRUPTED)
    assert campaign.machine_error == campaign.broken == ""
    return plan


def record(home: Path) -> Counter[str]:
    """Return how often each run is in the record, by key."""
    lines = map(json.loads, (home / "runs.jsonl").read_text(encoding="utf-8").splitlines())
    return Counter(line["key"] for line in lines if line["kind"] == "run")


def state(home: Path) -> str:
    """Return the state of the list in the record."""
    lines = map(json.loads, (home / "runs.jsonl").read_text(encoding="utf-8").splitlines())
    return str([line["state"] for line in lines if line["kind"] == "sweep"][-1])


def run_alone(home: Path) -> None:
    run_list(home, LocalEngine())


def test_a_list_continues_after_its_driver_was_killed(tmp_path: Path) -> None:
    """The killed stack continues from its checkpoint, and finished runs are found in the home."""
    Home(tmp_path).sweep("list-1").directory.mkdir(parents=True)
    (tmp_path / "log.dies").write_text("12")  # Two runs have ended, and the others have two evaluations.
    driver = multiprocessing.get_context("spawn").Process(target=run_alone, args=(tmp_path,))
    driver.start()
    driver.join()
    assert driver.exitcode == -signal.SIGKILL
    assert sum(record(tmp_path).values()) == 2
    assert state(tmp_path) == "running"
    plan = run_list(tmp_path, LocalEngine())
    assert {outcome.status for outcome in plan.outcomes.values()} == {Status.FINISHED}
    assert len(plan.outcomes) == 4
    assert trained(tmp_path / "log") == EVERY_RUN
    repeats = Counter((event.size, event.seed, event.step) for event in events(tmp_path / "log"))
    assert record(tmp_path) == dict.fromkeys(plan.outcomes, 1)
    assert state(tmp_path) == "finished"
    assert sum(times - 1 for times in repeats.values()) <= 2  # The evaluation that it did not report.


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("ray", marks=pytest.mark.night), "processes"])
def test_a_list_survives_a_killed_worker_a_stop_and_a_resume(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.engine.retries.WAITS_S", (0.0, 0.0))
    Home(tmp_path).sweep("list-1").directory.mkdir(parents=True)
    (tmp_path / "log.dies").write_text("4")

    def engine() -> Engine:
        return RayEngine() if name == "ray" else ProcessEngine()

    stopped = run_list(tmp_path, engine(), stop_after=1)
    assert not (tmp_path / "log.dies").exists()
    assert 1 <= len(stopped.outcomes) < 4 or name == "processes"  # Both stacks may end at once.
    plan = run_list(tmp_path, engine())
    assert {outcome.status for outcome in plan.outcomes.values()} == {Status.FINISHED}
    assert len(plan.outcomes) == 4
    assert trained(tmp_path / "log") == EVERY_RUN
    assert record(tmp_path) == dict.fromkeys(plan.outcomes, 1)
    assert state(tmp_path) == "finished"
