"""A sweep ends soon after its driver, Ray's daemon or Ray's head dies, and can be resumed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from orchestrator.home.directories import Home
from tests.chaos.paced import RUNS, SEEDS, write_space
from tests.chaos.program import ROOT, Program, journalled, wait_until_gone

SOON_S = 30.0
"""Seconds in which a program whose Ray died must end. Ray itself would wait for minutes."""
AGENTS_S = 150.0
"""Seconds in which all of Ray must be gone. Its agents wait a minute for a dead head."""
NIGHT = pytest.mark.night


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["raylet", pytest.param("gcs", marks=NIGHT), pytest.param("driver", marks=NIGHT)])
def test_a_process_dies_and_a_resumed_sweep_keeps_its_runs(victim: str, tmp_path: Path) -> None:
    space, home = write_space(tmp_path, pace_s=0.3, seeds=1), tmp_path / "home"
    program = Program(space, home, tmp_path / "first", "--record=jsonl")
    try:
        program.wait_for_runs(2)
        started = program.family
        getattr(program, victim).send_signal(signal.SIGKILL)
        code = program.process.wait(SOON_S)
        assert wait_until_gone(started, AGENTS_S) == []
    finally:
        program.kill()
    [sweep_id] = Home(home).sweep_ids()
    if victim == "driver":
        assert code == -signal.SIGKILL
    else:
        assert code == 1
        *_, message, command = program.log.read_text().splitlines()
        assert message.startswith(f"error: {sweep_id} has stopped: Ray died")
        assert command.endswith(f"orchestrator run {space} --home {home} --record jsonl --resume {sweep_id}")
    stored = journalled(home)
    again = Program(space, home, tmp_path / "again", "--record=jsonl", "--resume", sweep_id)
    assert again.end() == 0
    assert again.log.read_text().count("90% intervals") == 1
    runs = journalled(home)
    assert runs[: len(stored)] == stored
    assert len(runs) == len({entry.key for entry in runs}) == RUNS // SEEDS


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ray", "local"])
def test_a_sweep_whose_home_is_moved_says_so_and_continues_when_it_is_back(engine: str, tmp_path: Path) -> None:
    space, home = write_space(tmp_path, pace_s=0.3, seeds=1), tmp_path / "home"
    program = Program(space, home, tmp_path / "first", "--record=jsonl", f"--engine={engine}")
    try:
        program.wait_for_runs(2)
        [sweep_id] = Home(home).sweep_ids()
        home.rename(tmp_path / "elsewhere")
        assert program.process.wait(SOON_S) == 1
    finally:
        program.kill()
    (tmp_path / "elsewhere").rename(home)
    directory = Home(home).sweep(sweep_id).directory
    assert program.log.read_text().splitlines()[-1] == (
        f"error: {directory} was moved or removed while its sweep trained. Move it back, and continue with --resume"
    )
    again = Program(space, home, tmp_path / "again", "--record=jsonl", f"--engine={engine}", "--resume", sweep_id)
    assert again.end() == 0
    runs = journalled(home)
    assert len(runs) == len({entry.key for entry in runs}) == RUNS // SEEDS


@pytest.mark.night
def test_a_sweep_whose_cluster_lost_its_head_ends_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "10")  # Ray's default is 60.
    cluster = Cluster()
    head = cluster.add_node(num_cpus=2)
    space, home = write_space(tmp_path, pace_s=0.3), tmp_path / "home"
    program = Program(space, home, tmp_path / "output", "--address", cluster.address)
    try:
        program.wait_for_runs(2)
        head.kill_gcs_server()
        assert program.end() == 1
    finally:
        program.kill()
        cluster.shutdown()
    assert "GCS may have been killed" in program.log.read_text()
    assert Program(space, home, tmp_path / "resumed", "--resume").end() == 0
    assert len(journalled(home)) == RUNS
