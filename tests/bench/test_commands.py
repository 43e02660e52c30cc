"""The benchmark of commands measures what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.bench.commands import main


@pytest.mark.slow
def test_each_command_is_measured_on_both_homes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))  # Restored after the test.
    main(["--homes", str(tmp_path), "--sweeps", "2", "--seeds", "1", "--repeats", "1", "--only", "s"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "| processor seconds | 1 sweep of 30 runs | 2 sweeps of 36 runs |"
    rows = dict(re.findall(r"^\| `(.+)` \| (\d+\.\d\d) \|", "\n".join(lines), re.MULTILINE))
    assert list(rows) == ["sweeps, the first time", "sweeps", "sweeps --json", "status", "status --runs"]
    assert all(float(seconds) > 0.1 for seconds in rows.values())
