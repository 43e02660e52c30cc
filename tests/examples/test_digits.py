"""The example of an own model with tuning: does learning parity help a network read digits?"""

from __future__ import annotations

from pathlib import Path

import pytest

import orchestrator as o
from tests.cli.program import line, process
from tests.examples.running import configuration, copied

__all__ = ["configuration"]
pytestmark = pytest.mark.slow
SMALL = ("--set", "seeds=2", "--set", "search.max_runs=4", "--set", "tune.seeds=1", "--set", "tune.trials=2")


def in_folder(folder: Path, *words: str) -> str:
    """Run the program in the example's folder, in a process of its own, because the model's module has a plain name."""
    return process(line(*words), cwd=folder, within_s=300).succeeded()


@pytest.mark.timeout(600)
def test_the_model_continues_exactly_and_is_swept_after_tuning(workplace: Path) -> None:
    folder = copied("digits", workplace)
    printed = in_folder(folder, "check-family", "space.yaml")
    assert "stopped after step 100, continued at step 150, with the same numbers as an undisturbed run" in printed
    printed = in_folder(folder, "run", "space.yaml", "--engine=local", *SMALL)
    assert "tuning digit+parity: " in printed
    assert "mix           hidden units" in printed
    runs = o.load("space", folder / "results").runs
    assert set(runs["status"]) == {"finished"}
    assert set(runs["mix"]) == {"digit", "digit+parity"}
    assert {"probe/separation/parity", "probe/separation/order"} <= set(runs.columns)
    rates = runs.groupby("mix")["tuned/learning_rate"]
    assert (rates.nunique() == 1).all()  # Each mix has its own.
    assert rates.first().between(3e-3, 1e-1).all()
    by_size = runs[runs["mix"] == "digit"].groupby("size")["accuracy"].max()
    assert by_size.max() > 0.5


@pytest.mark.night
@pytest.mark.timeout(900)
def test_the_whole_sweep_answers_under_ray(workplace: Path) -> None:
    folder = copied("digits", workplace)
    in_folder(folder, "run", "space.yaml")
    runs = o.load("space", folder / "results").runs
    means = runs.groupby(["mix", "size"])["accuracy"].mean()
    for mix in ("digit", "digit+parity"):
        assert means[mix].max() > 0.82 > means[mix].min()  # 80% of the way from .11 to 1.
