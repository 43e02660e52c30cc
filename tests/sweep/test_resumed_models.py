"""Sweeps of simple families that are killed or interrupted: they continue from their states, or begin again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient
from safetensors.numpy import load_file

import orchestrator as o
from orchestrator.home.directories import Home
from orchestrator.home.run_files import ARRAYS, WEIGHTS, read_arrays
from tests.cli.program import ROOT, Program, line
from tests.sweep.sweeps import ended, only_sweep, printed, quiet, run_here, spec
from tests.trainables.resuming import FAMILY
from tests.waiting import meanwhile, wait_for

pytestmark = pytest.mark.usefixtures("undrawn")

STEPS = 30


def line_space(folder: Path, log: str = "log", **changes: object) -> Path:
    """Write the space of two runs, which train one after the other."""
    values = {
        "question": "Does it continue?",
        "family": FAMILY,
        "target": "add",
        "mixes": ["add"],
        "sizes": [2, 4],
        "seeds": 1,
        "search": {"method": "grid"},
        "settings": {"steps": STEPS, "pace_s": 0.1, "log": str(folder / log)},
        "resources": {"max_stack": 1, "cpu_per_stack": 2, "checkpoint_every_s": 0.01},
    }
    (folder / "space.yaml").write_text(yaml.safe_dump(values | changes))
    return folder / "space.yaml"


def steps(log: Path) -> list[tuple[int, int, int]]:
    """Return size, step and process of every step so far."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(size, step, process) for size, _, step, process in map(json.loads, lines)]


def start(space: Path, home: Path, *words: str) -> subprocess.Popen[str]:
    with (home.parent / "output").open("a") as output:
        command = line("run", space, "--home", home, "--record=jsonl", *words)
        return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, text=True)


def curves(home: Path) -> dict[int, object]:
    """Return score and curve of each size, which is in the journal once."""
    entries = ended(home)
    assert len({entry.key for entry in entries}) == len(entries)
    return {entry.request.size: (entry.outcome.accuracy, entry.outcome.curve) for entry in entries}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.night)])
def test_a_killed_run_continues_with_the_scores_of_an_undisturbed_one(
    engine: str, tmp_path: Path, run: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under Ray the training process is killed, and Ray starts another; without Ray, the whole program is."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    space, log, home = line_space(tmp_path), tmp_path / "log", tmp_path / "home"
    program = start(space, home, f"--engine={engine}")
    output: Callable[[], str] = (tmp_path / "output").read_text
    wait_for(lambda: len(steps(log)) >= 10, 200, output)
    os.kill(steps(log)[-1][2], signal.SIGKILL)
    if engine == "local":
        program.wait(timeout=20)
        assert program.returncode == -signal.SIGKILL
        program = start(space, home, "--engine=local", "--resume", only_sweep(home).id)
    assert program.wait(timeout=300) == 0, output()
    counts = Counter((size, step) for size, step, _ in steps(log))
    assert counts[2, 1] == counts[4, 1] == 1  # No run began again.
    assert set(counts) == {(size, step) for size in (2, 4) for step in range(1, STEPS + 1)}
    assert len({process for size, _, process in steps(log) if size == 2}) == 2

    undisturbed = line_space(tmp_path, settings={"steps": STEPS})
    run("run", undisturbed, "--home", tmp_path / "other", "--engine=local").succeeded()
    assert curves(home) == curves(tmp_path / "other")


@pytest.mark.parametrize(
    ("family", "stopping", "left"),
    [
        (
            FAMILY,
            "will save a checkpoint by its next evaluation",
            "and 1 checkpoint of runs in training",
        ),
        (
            "tests.trainables.resuming:Unable",
            "the run ends at its next evaluation. It begins again when the sweep continues",
            "; 1 run in training will begin again",
        ),
    ],
)
def test_an_interrupted_sweep_says_whether_its_runs_continue(
    family: str, stopping: str, left: str, tmp_path: Path
) -> None:
    log, console = tmp_path / "log", quiet()
    wanted = spec(
        family=family,
        mixes=["add"],
        sizes=[2],
        seeds=1,
        search={"method": "grid"},
        settings={"steps": STEPS, "pace_s": 0.1, "log": str(log)},
    )
    meanwhile(lambda: len(steps(log)) >= 5, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        run_here(wanted, tmp_path / "home", console=console)
    text = re.sub(r"\s+", " ", printed(console))
    assert stopping in text
    assert left in text
    run_here(wanted, tmp_path / "home", resume="")
    begun = [step for _, step, _ in steps(log)].count(1)
    assert begun == (1 if family == FAMILY else 2)


def test_kept_embeddings_are_open_to_probes_and_recorded(tmp_path: Path, run: Program) -> None:
    probes = ["similarity", "separation", "components"]
    space = line_space(tmp_path, settings={"steps": 3}, sizes=[4, 6], probes=probes)
    home = tmp_path / "home"
    run("run", space, "--home", home, "--engine=local").succeeded()
    run("sync", "--home", home).succeeded()
    keys = [entry.key for entry in ended(home)]
    for entry in ended(home):
        directory = Home(home).runs / entry.key
        assert load_file(directory / WEIGHTS).keys() == {"weight", "bias"}
        assert read_arrays(directory)["embedding"].shape == (entry.request.size, 2)
        assert (directory / ARRAYS).is_file()
    runs = o.load("space", home).runs
    assert {"probe/similarity/ring", "probe/separation/order", "probe/components/first"} <= set(runs.columns)
    assert runs["probe/similarity/ring"].notna().all()
    client = MlflowClient(f"sqlite:///{home / 'mlflow.db'}")
    recorded = client.search_runs([one.experiment_id for one in client.search_experiments()])
    artifacts = {
        one.data.tags.get("run_key"): {file.path for file in client.list_artifacts(one.info.run_id)} for one in recorded
    }
    assert all("arrays.npz" in artifacts[key] for key in keys), artifacts
