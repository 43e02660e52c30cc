"""A sweep outlives what dies beneath it: the driver, Ray's daemon, Ray's head; and says so."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from orchestrator.drive.supervisor import resuming
from orchestrator.store import lifecycle
from orchestrator.store.files import Home
from tests.chaos.paced import RUNS, write_space
from tests.chaos.program import ROOT, Program, journalled


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["run", "a"], ["run", "a", "--resume=ID"]),
        (["run", "a", "--resume=", "--debug"], ["run", "a", "--debug", "--resume=ID"]),
        (["run", "--resume", "--debug", "a"], ["run", "--debug", "a", "--resume=ID"]),
        (["run", "a", "--resume", "old", "--retry-failed"], ["run", "a", "--retry-failed", "--resume=ID"]),
        (["run", "a", "--fresh", "--extend", "old"], ["run", "a", "--resume=ID"]),
        (["run", "a", "--extend=old", "--set", "seeds=3"], ["run", "a", "--set", "seeds=3", "--resume=ID"]),
    ],
)
def test_the_same_command_is_given_with_resume(given: list[str], expected: list[str]) -> None:
    assert resuming(given, "ID") == expected


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """A sweep that has begun: two of its runs have ended."""
    begun = Program(write_space(tmp_path, pace_s=0.3), tmp_path / "home", tmp_path / "said")
    try:
        begun.wait_for_runs(2)
        yield begun
    finally:
        begun.kill()


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["raylet", "gcs", "driver"])
def test_the_sweep_goes_on_by_itself(victim: str, program: Program) -> None:
    getattr(program, victim).send_signal(signal.SIGKILL)
    assert program.end() == 0
    said = program.log.read_text()
    [sweep_id] = Home(program.home).sweep_ids()
    what = {
        "raylet": r"Ray's raylet \(.*\) died",
        "gcs": r"Ray's GCS \(.*\) died",
        "driver": r"the program that drives the sweep was killed \(SIGKILL\)",
    }[victim]
    kept = rf"\d+ runs of {sweep_id} are kept. Going on with a new Ray \(1 of 3\)"
    assert re.search(rf"^error: {what}; {kept}", said, re.MULTILINE)
    assert said.count("90% intervals") == 1
    assert lifecycle.recall(Home(program.home).sweep(sweep_id)).answered
    runs = journalled(program.home)
    assert len(runs) == len({entry.key for entry in runs}) == RUNS


@pytest.mark.slow
def test_the_driver_dies_with_its_supervisor_and_resume_goes_on_and_later_prints_the_answer_again(
    program: Program, tmp_path: Path
) -> None:
    driver = program.driver
    program.process.kill()
    driver.wait(timeout=30)
    kept = journalled(program.home)
    space = tmp_path / "paced.yaml"
    first = Program(space, program.home, tmp_path / "first", "--resume")
    assert first.end() == 0
    assert journalled(program.home)[: len(kept)] == kept
    again = Program(space, program.home, tmp_path / "again", "--resume")
    assert again.end() == 0
    [sweep_id] = Home(program.home).sweep_ids()
    assert f"{sweep_id} has its answer already" in again.log.read_text()
    said = first.log.read_text()
    table = said[said.index("target add") :].partition("figure ")[0]
    assert table in again.log.read_text()
    assert len(journalled(program.home)) == RUNS


@pytest.mark.slow
def test_where_the_head_of_a_cluster_dies_it_is_said_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "10")  # Ray's own is 60.
    cluster = Cluster()
    head = cluster.add_node(num_cpus=2)
    space, home = write_space(tmp_path, pace_s=0.3), tmp_path / "home"
    program = Program(space, home, tmp_path / "said", "--address", cluster.address)
    try:
        program.wait_for_runs(2)
        head.kill_gcs_server()
        assert program.end() == 1
    finally:
        program.kill()
        cluster.shutdown()
    [sweep_id] = Home(home).sweep_ids()
    said = program.log.read_text()
    assert re.search(rf"^error: .*; \d+ runs of {sweep_id} are kept. Continue with", said, re.MULTILINE)
    assert said.rstrip().endswith(f"--resume {sweep_id}")
    assert Program(space, home, tmp_path / "resumed", "--resume", sweep_id).end() == 0
    assert len(journalled(home)) == RUNS
