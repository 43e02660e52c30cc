"""Probes on the page: means over seeds, failures, and runs without results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orchestrator.catalogue.reading import StoredSweep, read_sweep
from orchestrator.home.files import Home
from orchestrator.home.run_files import ProbeResult, write_result
from orchestrator.home.sweeps import RunRecord
from orchestrator.report.figures.panels import probe_figure
from orchestrator.report.probed import probe_notes, probe_points
from tests.catalogue.fabricated import write_sweep
from tests.sweep.sweeps import spec


@pytest.fixture(name="stored")
def stored_sweep(tmp_path: Path) -> StoredSweep:
    home = Home(tmp_path)
    return read_sweep(home, write_sweep(home, spec(sizes=[8, 16], probes=["similarity"])).id)


def leave(run: RunRecord, error: str = "", **numbers: float) -> None:
    """Store a probe's numbers for a run, or its error."""
    write_result(run.directory, ProbeResult("similarity", 1, numbers, error), {})


def test_numbers_are_grouped_by_probe_and_chance_results_are_marked(stored: StoredSweep) -> None:
    assert probe_points(stored.runs) == {}
    cells = {(run.config.mix.name, run.config.size, run.config.seed): run for run in stored.runs}
    for seed, ring, share in ((0, 0.5, 0.01), (1, 0.25, 0.2)):
        run = cells["add+prod", 16, seed]
        write_result(run.directory, ProbeResult("similarity", 1, {"ring": ring, "ring.p": share}), {})
    leave(cells["add", 8, 0], ends=-0.125)
    write_result(cells["add", 16, 1].directory, ProbeResult("mistakes", 1, {"mod2": 0.75}), {})
    points = probe_points(stored.runs)
    assert points["mistakes"] == {"mod2": [("add", 16, 0.75, False)]}
    assert points["similarity"]["ends"] == [("add", 8, -0.125, False)]
    assert sorted(points["similarity"]["ring"]) == [("add+prod", 16, 0.25, True), ("add+prod", 16, 0.5, False)]
    assert set(points["similarity"]) == {"ends", "ring"}
    figure = probe_figure(stored.answer, points["similarity"])
    shown = {axes.get_title(loc="left"): axes for axes in figure.axes}
    drawn = sorted(float(np.asarray(line.get_ydata())[0]) for line in shown["ring"].lines)
    assert drawn == [0.25, 0.375, 0.5]  # Two runs and their mean.


def test_failures_and_runs_without_probes_are_reported(stored: StoredSweep) -> None:
    assert probe_notes(stored.spec, stored.runs) == [
        "The probe similarity has not run on 8 runs; `probe SWEEP` computes the missing results."
    ]
    for run in stored.runs[:6]:
        leave(run, ring=0.5)
    for run in stored.runs[6:]:
        leave(run, f"Traceback\nValueError: {run.config.seed}")
    assert probe_notes(stored.spec, stored.runs) == [
        "The probe similarity failed on 2 runs (ValueError: 0); `logs RUN` shows the whole error."
    ]
    assert probe_notes(spec(), stored.runs[:6]) == []
