"""What the page says of probes: means over seeds, failures, and runs that none has looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.catalogue.reading import StoredSweep, read_sweep
from orchestrator.home.files import Home
from orchestrator.home.run_files import ProbeResult, write_result
from orchestrator.home.sweeps import RunRecord
from orchestrator.report.probed import probe_notes, probe_tables
from tests.catalogue.fabricated import write_sweep
from tests.sweep.sweeps import spec


@pytest.fixture(name="stored")
def stored_sweep(tmp_path: Path) -> StoredSweep:
    home = Home(tmp_path)
    return read_sweep(home, write_sweep(home, spec(sizes=[8, 16], probes=["similarity"])).id)


def leave(run: RunRecord, error: str = "", **numbers: float) -> None:
    """What a probe found in a run, or its error."""
    write_result(run.directory, ProbeResult("similarity", 1, numbers, error), {})


def test_means_are_over_seeds(stored: StoredSweep) -> None:
    assert probe_tables("units", stored.runs) == ()
    cells = {(run.config.mix.name, run.config.size, run.config.seed): run for run in stored.runs}
    for seed, ring in ((0, 0.5), (1, 0.25)):
        leave(cells["add+prod", 16, seed], ring=ring)
    leave(cells["add", 8, 0], ends=-0.125)
    run = cells["add", 16, 1]
    write_result(run.directory, ProbeResult("mistakes", 1, {"mod2": 0.75}), {})
    assert [(each.probe, each.header, each.rows) for each in probe_tables("units", stored.runs)] == [
        ("mistakes", ("mix", "units", "runs", "mod2"), (("add", "16", "1", "0.75"),)),
        (
            "similarity",
            ("mix", "units", "runs", "ends", "ring"),
            (("add", "8", "1", "-0.125", ""), ("add+prod", "16", "2", "", "0.375")),
        ),
    ]


def test_failures_and_runs_not_looked_at_are_said(stored: StoredSweep) -> None:
    assert probe_notes(stored.spec, stored.runs) == [
        "The probe similarity has not run on 8 runs; `probe SWEEP` runs what is missing."
    ]
    for run in stored.runs[:6]:
        leave(run, ring=0.5)
    for run in stored.runs[6:]:
        leave(run, f"Traceback\nValueError: {run.config.seed}")
    assert probe_notes(stored.spec, stored.runs) == [
        "The probe similarity failed on 2 runs (ValueError: 0); `logs RUN` shows the whole error."
    ]
    assert probe_notes(spec(), stored.runs[:6]) == []
