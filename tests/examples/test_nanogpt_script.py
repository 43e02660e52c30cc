"""The example of a script, as its readers run it, and interrupted."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.examples.disturbed import Disturbed, outcomes, scripts_in
from tests.examples.running import configuration, copied
from tests.sweep.sweeps import ended, only_sweep
from tests.waiting import wait_for

__all__ = ["configuration"]
pytestmark = pytest.mark.slow
SMALL = ("--set", "sizes=[3, 6]", "--set", "seeds=1", "--set", "settings.steps=1000", "--home", "results")
"""Four runs of some seconds each."""


@pytest.fixture(name="example")
def copied_example(workplace: Path) -> Path:
    return copied("nanogpt_script", workplace)


@pytest.mark.timeout(900)
def test_the_example_is_checked_and_swept(example: Path, run: Program) -> None:
    assert "continued at step" in run("check-family", "space.yaml").succeeded()
    out = run(
        "run", "space.yaml", "--engine=local", "--home=results", "--set", "seeds=1", "--set", "sizes=[2, 8]"
    ).succeeded()
    assert "mix      n_embd" in out
    scores = {entry.request: entry.outcome.accuracy["max"] for entry in ended(example / "results")}
    assert all((score > 0.8) == (request.size == 8) for request, score in scores.items())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.night)])
def test_a_killed_driver_leaves_no_process(engine: str, example: Path) -> None:
    sweep = Disturbed(example, engine, SMALL, random.Random(0))
    wait_for(lambda: scripts_in(example) and sweep.progress(), 200, sweep.log)
    sweep.driver.kill()
    sweep.driver.wait()
    wait_for(lambda: not scripts_in(example), 35)


@pytest.mark.night
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_an_interrupted_sweep_leaves_no_process_and_continues(engine: str, example: Path, run: Program) -> None:
    sweep = Disturbed(example, engine, SMALL, random.Random(0))
    wait_for(lambda: scripts_in(example) and sweep.progress(), 200, sweep.log)
    sweep.driver.send_signal(signal.SIGINT)
    sweep.driver.wait(timeout=120)
    wait_for(lambda: not scripts_in(example), 35)
    assert "--resume" in sweep.log()
    run("run", "space.yaml", f"--engine={engine}", *SMALL, "--resume", only_sweep(example / "results").id).succeeded()
    assert len(outcomes(example / "results")) == 4
