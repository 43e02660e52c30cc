"""The example of a script that is configured by a file and by KEY=VALUE, whose size is the number of its examples."""

from __future__ import annotations

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
    assert "continued at step 300" in run("check-family", "space.yaml").succeeded()
    small = ("--engine=local", "--set", "seeds=1", "--set", "sizes=[12, 400]")
    printed = run("run", "space.yaml", *small).succeeded()
    assert "mix      training examples" in printed
    scores = {entry.request.size: entry.outcome.accuracy["spirals"] for entry in ended(folder / "results")}
    assert scores[12] < 0.9 < scores[400]

    run("run", "space.yaml", *small, "--set", "settings.noise=1.0", "--home", "noisy").succeeded()
    noisy = {entry.request.size: entry.outcome.accuracy["spirals"] for entry in ended(folder / "noisy")}
    assert noisy[400] < 0.9  # A setting reaches the script through its file.
