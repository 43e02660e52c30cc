"""Errors after the last run do not lose the answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.catalog.reading import read_sweep
from orchestrator.home.directories import Home
from orchestrator.jobs.state import State
from orchestrator.report.figures import style
from orchestrator.report.page import report
from tests.sweep.sweeps import only_sweep, printed, quiet, run_here, spec


@pytest.mark.parametrize("fault", ["setting", "page"])
def test_a_figure_that_fails_is_reported_in_one_line(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault == "setting":  # Stands in for a broken font or package.
        monkeypatch.setitem(style.SETTINGS, "svg.fonttype", "no such type")
    else:
        monkeypatch.setattr(report, "render", _no_template)
    console = quiet()
    result = run_here(spec(sizes=[16, 64], seeds=1), tmp_path, console=console, record="mlflow")
    out = printed(console)
    lines = [line for line in out.splitlines() if "cannot be drawn" in line]
    wanted = ["transitions.png", "report.html"] if fault == "setting" else ["report.html"]
    assert len(lines) == len(wanted)
    assert all(any(line.startswith(name) for line in lines) for name in wanted)
    assert [mix.mix in out for mix in result.mixes] == [True, True]
    assert ("figure  " in out) == (fault == "page")
    assert "report  " not in out
    assert "not in MLflow" not in out
    assert read_sweep(Home(tmp_path), only_sweep(tmp_path).id).state is State.FINISHED
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("logistic")
    assert experiment is not None
    [recorded] = client.search_runs([experiment.experiment_id], "tags.kind = 'sweep'")
    assert recorded.info.status == "FINISHED"


def _no_template(*given: object, **values: object) -> str:
    raise OSError("no such template")
