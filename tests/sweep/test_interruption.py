"""Ctrl-C leaves checkpoints without waiting for training data, and a resumed sweep continues from them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import SweepError
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.run_options import TimeLimit
from tests.cli.program import line
from tests.scripted import begun, events
from tests.sweep.sweeps import only_sweep, printed, quiet, run_here, scripted
from tests.waiting import meanwhile

ROOT = Path(__file__).resolve().parents[2]


def interrupt() -> None:
    """Send this process a Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


def trained_once(log: Path, steps: int) -> bool:
    """Return whether every step of both sizes was trained exactly once."""
    trained = sorted((item.size, item.step) for item in events(log))
    return trained == [(size, step) for size in (8, 16) for step in range(1, steps + 1)]


def test_ctrl_c_leaves_a_checkpoint_of_the_stack_in_this_process(tmp_path: Path) -> None:
    log, console = tmp_path / "log", quiet()
    sweep = scripted(log, {"steps": 20, "pace_s": 0.1})
    meanwhile(lambda: len(events(log)) >= 5, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_here(sweep, tmp_path, console=console)
    assert 4 <= len(events(log)) < 19
    output = "the stack in training will write a checkpoint at its next evaluation; press Ctrl-C again to end at once"
    assert output in printed(console)
    message = "Stopped; (0 runs|1 run) kept, and 1 checkpoint of runs in training"
    assert re.search(rf"{message}(; \d records? not in MLflow yet; add with `.*`)?\. Continue with", printed(console))
    run_here(sweep, tmp_path, resume="")
    assert trained_once(log, 20)


def test_a_broken_pipe_is_reported_with_how_to_resume(tmp_path: Path) -> None:
    file, log = tmp_path / "asked.yaml", tmp_path / "log"
    file.write_text(scripted(log, {"steps": 20, "pace_s": 0.05}).to_yaml())
    run = line("run", file, "--engine=local", "--home", tmp_path)
    driver = subprocess.Popen(run, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    driver.stdout.readline()
    driver.stdout.close()
    assert driver.stderr is not None
    assert "--resume continues the sweep" in driver.stderr.read()
    assert driver.wait() == 1


def test_a_sweep_stops_at_its_time_limit_and_can_be_resumed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    sweep = scripted(log, {"steps": 20, "pace_s": 0.15})
    with pytest.raises(SweepError, match=r"it reached its time limit of 4 s.*Continue with"):
        run_here(sweep, tmp_path, limit=TimeLimit(4.0))
    assert 1 <= len(events(log)) < 29
    run_here(sweep, tmp_path, resume="", limit=TimeLimit(600))
    assert trained_once(log, 20)


def interrupted(tmp_path: Path, sweep: SweepSpec, ready: Callable[[], bool]) -> tuple[str, float]:
    """Run a sweep under Ray and send Ctrl-C to all its processes as a terminal does. Return its output and the
    seconds it took to end."""
    (tmp_path / "space.yaml").write_text(sweep.to_yaml())
    with subprocess.Popen(
        line("run", tmp_path / "space.yaml", "--home", tmp_path / "home"),
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as driver:  # fmt: skip
        deadline = time.monotonic() + 400
        while not ready() and time.monotonic() < deadline and driver.poll() is None:
            time.sleep(0.05)
        pressed = time.monotonic()
        os.killpg(driver.pid, signal.SIGINT)
        output, _ = driver.communicate(timeout=300)
        assert driver.returncode == 130, output
        return output, time.monotonic() - pressed


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ctrl_c_leaves_checkpoints_of_all_stacks_under_ray(tmp_path: Path) -> None:
    log = tmp_path / "log"
    sweep = scripted(log, {"steps": 30, "pace_s": 0.25})
    output, _ = interrupted(
        tmp_path, sweep, lambda: {(8, 4), (16, 4)} <= {(item.size, item.step) for item in events(log)}
    )
    assert "2 stacks will write checkpoints at their next evaluations" in output
    assert "Traceback" not in output
    [again] = [line.strip() for line in output.splitlines() if "--resume" in line]
    home = tmp_path / "home"
    sweep_id = only_sweep(home).id
    assert again == f"python -m orchestrator run {tmp_path / 'space.yaml'} --home {home} --resume {sweep_id}"
    before = len(events(log))
    assert 8 <= before < 58
    run_here(sweep, home, resume=sweep_id)
    assert trained_once(log, 30)


@pytest.mark.night
@pytest.mark.timeout(900)
def test_ctrl_c_does_not_wait_for_data_under_ray(tmp_path: Path) -> None:
    log = tmp_path / "log"
    _, took = interrupted(tmp_path, scripted(log, {"data_s": 400}), lambda: len(begun(log)) == 2)
    assert took < 200
    assert (len(begun(log)), events(log)) == (2, [])
