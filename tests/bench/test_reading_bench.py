"""Looking at hundreds of finished runs works; how long it takes is for the full command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.reading import main


@pytest.mark.slow
def test_hundreds_of_finished_runs_are_read_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--runs", "200", "--out", str(tmp_path)])
    said = capsys.readouterr().out
    assert "200 finished runs" in said
    waits = json.loads((tmp_path / "reading.json").read_text())["waits"]
    assert [wait["what"] for wait in waits] == ["sweeps", "status", "load, all tables", "report", "export"]
    assert all(wait["clock_s"] > 0 for wait in waits)
