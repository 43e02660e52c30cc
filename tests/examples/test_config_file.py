"""The example of a script that is configured by a file and by KEY=VALUE, whose size is the number of its examples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.examples.running import configuration, copied
from tests.sweep.sweeps import ended

__all__ = ["configuration"]
pytestmark = pytest.mark.slow


@pytest.mark.timeout(600)
def test_the_example_is_checked_and_swept(workplace: Path, run: Program) -> None:
    folder = copied("config_file", workplace)
    # Many steps: a script that runs on while it is killed must not end by itself on a slow machine.
    checked = run("check-family", "space.yaml", "--set", "settings.steps=20000").succeeded()
    steps = re.search(r"killed after step (\d+), continued at step (\d+)", checked)
    assert steps, checked
    assert int(steps[1]) < int(steps[2])
    small = ("--engine=local", "--set", "seeds=1", "--set", "sizes=[12, 400]")
    printed = run("run", "space.yaml", *small).succeeded()
    assert "mix      training examples" in printed
    scores = {entry.request.size: entry.outcome.accuracy["spirals"] for entry in ended(folder / "results")}
    assert scores[12] < 0.9 < scores[400]

    run("run", "space.yaml", *small, "--set", "settings.noise=1.0", "--home", "noisy").succeeded()
    noisy = {entry.request.size: entry.outcome.accuracy["spirals"] for entry in ended(folder / "noisy")}
    assert noisy[400] < 0.9  # A setting reaches the script through its file.
