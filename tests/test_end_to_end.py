"""The whole path, with real command line, Ray, training and MLflow, including a killed driver."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from orchestrator.history.known_runs import recall_sweep
from orchestrator.history.sweeps import load_sweep
from orchestrator.home.directories import Home
from orchestrator.space.runs import Run as SweepRun
from tests.cli.program import ROOT, process
from tests.cli.program import Ended as EndedProgram

COMMAND = [sys.executable, "-m", "orchestrator", "run"]
# Enough steps to be killed in the middle.
SMOKE = ["add_vs_add_prod", "--profile", "smoke", "--set", "sizes=[4, 8]", "--set", "settings.training.steps=300"]
GRID = [*SMOKE, "--set", "search.method=grid"]


def orchestrate(*words: str, home: Path) -> EndedProgram:
    return process([*COMMAND, *words, "--home", str(home)], within_s=280)


def entries(home: Path) -> list[SweepRun]:
    """Return the runs in the journals of a home; none before a sweep exists."""
    ids = Home(home).sweep_ids()
    return [run for sweep_id in ids for run in recall_sweep(load_sweep(Home(home), sweep_id)).ended]


def recorded(home: Path, kind: str) -> list[Run]:
    client = MlflowClient(f"sqlite:///{home / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("add_vs_add_prod")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id], filter_string=f"tags.kind = '{kind}'"))


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A finished smoke sweep by grid: its home and its output."""
    home = tmp_path_factory.mktemp("smoke")
    return home, orchestrate(*GRID, home=home).succeeded()


def test_every_run_is_trained_once_and_the_answer_is_printed_as_plain_lines(smoke: tuple[Path, str]) -> None:
    home, printed = smoke
    assert "add, modulus 4: size at" in printed
    assert "add 8 seed 1" in printed
    assert "90% intervals" in printed
    assert "\x1b" not in printed
    runs = entries(home)
    cells = {(entry.request.mix, entry.request.size, entry.request.seed) for entry in runs}
    assert cells == {(mix, size, seed) for mix in ("add", "add+prod") for size in (4, 8) for seed in (0, 1)}
    assert len(runs) == 8
    for entry in runs:
        assert entry.outcome.curve[-1].loss < entry.outcome.curve[0].loss


def test_the_record_contains_sweep_runs_and_transitions(smoke: tuple[Path, str]) -> None:
    home = smoke[0]
    client = MlflowClient(f"sqlite:///{home / 'mlflow.db'}")
    [parent] = recorded(home, "sweep")
    children = recorded(home, "run")
    transitions = recorded(home, "transition")
    assert len(children) == 8
    assert len(transitions) == 2
    assert {run.data.tags["mlflow.parentRunId"] for run in children + transitions} == {parent.info.run_id}
    for child in children:
        assert {"mix", "n_embed", "seed"} <= child.data.params.keys()
        assert "test_accuracy/add" in child.data.metrics
        assert len(client.get_metric_history(child.info.run_id, "accuracy/add")) > 1
        files = {file.path for file in client.list_artifacts(child.info.run_id)}
        # Only the first seed of a size has a picture.
        pictures = {"similarity.png"}
        assert files == {"arrays.npz", "probes"} | (pictures if child.data.params["seed"] == "0" else set())
        assert {"probe/similarity/ring"} <= child.data.metrics.keys()
    arrays = np.load(client.download_artifacts(children[0].info.run_id, "arrays.npz"))
    assert arrays["embedding"].shape == (4, int(children[0].data.params["n_embed"]))
    probed = np.load(client.download_artifacts(children[0].info.run_id, "probes/similarity.npz"))
    assert probed["similarity"].shape == (4, 4)
    artifacts = {file.path for file in client.list_artifacts(parent.info.run_id)}
    assert {"transitions.png", "transitions.svg", "report.html", "search_space.yaml"} <= artifacts
    page = Path(client.download_artifacts(parent.info.run_id, "report.html")).read_text(encoding="utf-8")
    assert parent.info.run_name in page
    assert page.count("<svg") >= 3
    assert "<h3>similarity</h3>" in page


@pytest.mark.slow
def test_a_family_that_raises_fails_only_its_own_run_with_its_error(tmp_path: Path) -> None:
    """The family is in a module of the user's directory, next to modules of other work, and raises for one seed."""
    for name in ("trainables", "numpy", "ray", "rich", "random", "environment"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('the {name} of other work')\n")
    (tmp_path / "my_family.py").write_text((ROOT / "tests" / "families.py").read_text())
    (tmp_path / "brittle.py").write_text(
        "from my_family import LogisticFamily, LogisticLearner\n"
        "class Learner(LogisticLearner):\n"
        "    def advance(self):\n"
        "        if any(run.seed == 1 and run.size == 16 for run in self.runs):\n"
        "            raise RuntimeError('seed 1 is cursed')\n"
        "        return super().advance()\n"
        "class Brittle(LogisticFamily):\n"
        "    name = 'brittle'\n"
        "    def learner(self, runs, *, device, cache):\n"
        "        return Learner(runs)\n"
    )
    (tmp_path / "space.yaml").write_text(
        "name: brittle\nquestion: What breaks?\nfamily: 'brittle:Brittle'\ntarget: add\nmixes: [add]\nsizes: [8, 16]\n"
        "seeds: 2\nsearch: {method: grid}\nresources: {max_stack: 2}\n"
    )
    words = [*COMMAND, "space.yaml", "--home", str(tmp_path / "home")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = process(words, cwd=tmp_path, environment=environment, within_s=280)
    assert done.code == 0, done.err
    runs = {(entry.request.size, entry.request.seed): entry for entry in entries(tmp_path / "home")}
    statuses = {cell: entry.outcome.status.value for cell, entry in runs.items()}
    assert statuses == dict.fromkeys([(8, 0), (8, 1), (16, 0)], "finished") | {(16, 1): "failed"}
    assert "seed 1 is cursed" in runs[16, 1].outcome.error
    assert re.search(r"^add .* 3 \(1 failed\)$", done.out, re.MULTILINE), done.out
    [explained] = re.findall(r"^explain .*\borchestrator (explain .*)$", done.err + done.out, re.MULTILINE)
    output = process([*COMMAND[:-1], *shlex.split(explained)], cwd=tmp_path, within_s=280).succeeded()
    assert "1 run failed and counts as no evidence." in " ".join(output.split())
