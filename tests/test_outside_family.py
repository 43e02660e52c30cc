"""A family from outside is described in its own words: no output about it mentions ListOps or transformers."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

import orchestrator as o
from tests.cli.program import command

FOREIGN = re.compile(r"operation|optimizer|nats\b|n_embed|embedd|transformer|listops|token|number line", re.IGNORECASE)
MAZES = """
name: mazes
question: Does a map let a smaller creature find the exit?
family: tests.families:MazeFamily
target: find exit
mixes: [find exit, {name: with a map, mix: {find exit: 1, map + rooms: 1}}]
sizes: [8, 16, 32, 48, 64]
seeds: 2
search: {method: grid}
probes: [tests.families:Firing, tests.families:BrokenProbe]
"""


@dataclass(frozen=True)
class Mazes:
    """A finished sweep of the outside family and its printed and written texts, by name."""

    home: Path
    sweep: str
    texts: dict[str, str]


@pytest.fixture(scope="module", autouse=True)
def alone_in_a_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("mazes"))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.setenv("COLUMNS", "200")
        yield


@pytest.fixture(scope="module", name="mazes")
def swept_mazes(alone_in_a_directory: None) -> Mazes:
    """A sweep run on the command line, and the output of every command that reads it."""
    Path("mazes.yaml").write_text(MAZES)
    started = command("run", "mazes.yaml", "--engine=local").succeeded()
    (sweep,) = re.findall(r"^sweep (mazes-\S+)$", started, re.MULTILINE)
    key = o.load(sweep).runs["key"].iloc[0]
    texts = {"run": started}
    for words in (
        ("plan", "mazes.yaml"),
        ("show", "mazes.yaml"),
        ("status", sweep, "--runs"),
        ("logs", key),
        ("compare", sweep),
        ("sweeps",),
        ("export", sweep, "--output", "tables"),
        ("report", sweep, "--output", "report.html"),
    ):
        texts[words[0]] = command(*words).succeeded()
    written = [Path("report.html"), *Path("tables").glob("*.csv"), *Path("tables").glob("*.txt")]
    texts |= {path.name: path.read_text(encoding="utf-8") for path in written}
    return Mazes(Path.cwd(), sweep, texts)


def runs_in_mlflow(home: Path, name: str = "mazes") -> tuple[MlflowClient, list[Run]]:
    client = MlflowClient(f"sqlite:///{home / 'results/mlflow.db'}")
    experiment = client.get_experiment_by_name(name)
    assert experiment is not None
    return client, list(client.search_runs([experiment.experiment_id], "tags.kind = 'run'"))


def test_every_output_uses_the_familys_words(mazes: Mazes) -> None:
    assert {"run", "plan", "logs", "report.html", "runs.csv", "columns.txt"} <= mazes.texts.keys()
    for name, text in mazes.texts.items():
        assert text.strip(), name
        assert not FOREIGN.search(text), (name, FOREIGN.findall(text))
    assert "creatures" in mazes.texts["report.html"]
    assert not re.search(r"\bmodels?\b", mazes.texts["report.html"], re.IGNORECASE)
    message = command("plan", "mazes.yaml", "--set", "target=fly").refused()
    assert "unknown puzzle 'fly'. Allowed: find exit, map + rooms" in message


def test_a_broken_probe_is_reported_and_fails_no_run(mazes: Mazes) -> None:
    """The probe raises for seed 0 of every size and mix."""
    failed = "The probe broken failed on 10 runs (ZeroDivisionError: division by zero)"
    assert failed in mazes.texts["run"]
    assert failed in mazes.texts["report.html"]
    assert "the probe broken failed" in mazes.texts["logs"]
    assert (o.load("mazes").runs["status"] == "finished").all()


def test_the_page_has_the_probes_by_mix_and_size(mazes: Mazes) -> None:
    html = mazes.texts["report.html"]
    probes = html[html.index('<div id="probes">') :].partition("</details>")[0]
    assert re.findall(r"<h3>(.*?)</h3>", probes) == ["broken", "firing"]
    assert all(f'aria-label="{label}"' in probes for label in ("broken: odd", "firing: mean, solved"))
    assert 'id="similarities"' not in html


def test_measures_and_probe_numbers_have_separate_columns(mazes: Mazes) -> None:
    stored = o.load("mazes")
    runs, curves = stored.runs, stored.curves
    assert (runs["steps"] == 3).all()  # The run's measure named "steps" differs from its steps.
    assert (runs["measure/steps"] == 3.5).all()
    assert runs["probe/firing/solved"].to_numpy() == pytest.approx(runs["accuracy"].to_numpy())
    assert runs["probe/broken/odd"].isna().sum() == 10
    assert (curves["measure/find exit"] == 7 / 3).all()
    assert (curves["measure/steps"] == 0.5).all()
    assert set(curves["step"]) == {3}
    assert "measure/find exit" in mazes.texts["logs"]
    exported = pd.read_csv(io.StringIO(mazes.texts["runs.csv"]))
    assert {"measure/steps", "probe/firing/mean"} <= set(exported.columns)


def test_the_record_keeps_measures_and_probe_numbers_apart(mazes: Mazes) -> None:
    client, runs = runs_in_mlflow(mazes.home)
    assert len(runs) == 20
    for run in runs:
        metrics = run.data.metrics
        assert metrics["steps"] == 3
        assert metrics["measure/find exit"] == pytest.approx(7 / 3)
        assert metrics["accuracy/find exit"] == metrics["test_accuracy/find exit"] == metrics["probe/firing/solved"]
        history = client.get_metric_history(run.info.run_id, "measure/steps")
        assert sorted(point.value for point in history) == [0.5, 3.5]
        assert {file.path for file in client.list_artifacts(run.info.run_id)} == {"arrays.npz", "probes"}
        assert {file.path for file in client.list_artifacts(run.info.run_id, "probes")} == {"probes/firing.npz"}
        everything = json.dumps([run.data.tags, run.data.params, list(metrics)])
        assert not FOREIGN.search(everything), FOREIGN.findall(everything)


def test_probes_run_later_by_a_command_and_reach_the_record_by_sync(mazes: Mazes) -> None:
    stored = o.load("mazes")
    assert command("probe", "mazes", "tests.families:Firing").out.startswith("firing: 20 already done\n")
    later = command("probe", "mazes", "tests.families:Later")
    assert (later.code, later.out.splitlines()[0]) == (0, "later: 20 probed")
    again = command("probe", "mazes", "tests.families:Later", "--again")
    assert again.out.splitlines()[0] == "later: 20 probed"
    assert (o.load("mazes").runs["probe/later/size"] == stored.runs["size"]).all()
    broken = command("probe", "mazes", "tests.families:BrokenProbe")
    assert broken.code == 1
    assert broken.out.splitlines()[0] == "broken: 10 failed, 10 already done"
    assert "the probes failed 10 times" in broken.err
    assert "ZeroDivisionError" in broken.err
    assert "Did you mean 'similarity'?" in command("probe", "mazes", "similarty").refused()

    assert not any("probe/later/size" in run.data.metrics for run in runs_in_mlflow(mazes.home)[1])
    assert command("sync").code == 0
    _, runs = runs_in_mlflow(mazes.home)
    assert len(runs) == 20
    assert all(run.data.metrics["probe/later/size"] == int(run.data.params["units"]) for run in runs)
