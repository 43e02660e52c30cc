"""The example notebook: it runs as it stands, and shows what it showed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.example_notebook import NOTEBOOK, run_cells


def cells() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


def test_it_is_rendered_without_errors_and_names_no_machine() -> None:
    outputs = [output for cell in cells() for output in cell["outputs"]]
    assert all(output["output_type"] != "error" for output in outputs)
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    assert all(cell["outputs"] for cell in cells())
    assert "/tmp/" not in NOTEBOOK.read_text()
    assert NOTEBOOK.stat().st_size < 400_000


def test_learning_curves_are_told_task_by_task() -> None:
    """A mean over the tasks of a mix is a curve of nothing."""
    (shown,) = [cell["outputs"] for cell in cells() if "s.curves" in "".join(cell["source"])]
    html = "".join("".join(output.get("data", {}).get("text/html", "")) for output in shown)
    assert all(f"<th>{column}</th>" in html for column in ("mix", "task", "size"))


@pytest.mark.slow
def test_its_cells_run_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    names: dict[str, Any] = {}
    shown = list(run_cells(["".join(cell["source"]) for cell in cells()], names))
    assert all(shown)
    assert sum("image/png" in output.get("data", {}) for outputs in shown for output in outputs) == 2
    assert names["s"].state == "finished"
    assert (tmp_path / "results" / "report.html").is_file()
    assert (tmp_path / "results" / "tables" / "runs.parquet").is_file()
