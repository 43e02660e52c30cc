"""Measurements on disk: kept, merged, and taken by real workers of a real sweep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.cost.plan import make_plan
from orchestrator.drive.sweep import RunOptions, run_sweep
from orchestrator.space import hardware
from orchestrator.space.spaces import load_space
from orchestrator.stacks import calibration
from orchestrator.stacks.measured import Conditions, Measured
from tests.drive.sweeps import quiet

CONDITIONS = Conditions("Some CPU, 1 thread", "torch 2.13.0, listops 1", "float32", "64 x 18 tokens")


def test_what_is_added_is_read_back_and_merged(tmp_path: Path) -> None:
    assert calibration.read(tmp_path) == ()
    calibration.add(tmp_path, [Measured(CONDITIONS, 16, 1, 0.008, probed=True)])
    calibration.add(
        tmp_path, [Measured(CONDITIONS, 16, 2, 0.005, probed=True), Measured(CONDITIONS, 16, 1, 0.007, 0, True)]
    )
    assert {each.stack: each.seconds for each in calibration.read(tmp_path)} == {1: 0.007, 2: 0.005}
    written = json.loads((tmp_path / calibration.NAME).read_text())["measured"][0]
    assert {"device", "software", "precision", "workload", "size", "stack"} <= written.keys()


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": 1}', '{"schema": 1, "measured": [{}]}'])
def test_a_damaged_file_is_put_aside_and_named(tmp_path: Path, content: str) -> None:
    (tmp_path / calibration.NAME).write_text(content)
    said: list[str] = []
    assert calibration.read(tmp_path, said.append) == ()
    [aside] = tmp_path.glob(f"{calibration.NAME}.damaged-*")
    assert aside.read_text() == content
    assert len(said) == 1
    assert aside.name in said[0]
    calibration.add(tmp_path, [Measured(CONDITIONS, 16, 1, 0.008)], said.append)
    assert [each.seconds for each in calibration.read(tmp_path, said.append)] == [0.008]
    assert len(said) == 1


def test_a_sweep_measures_its_device_and_the_next_plan_knows_it(tmp_path: Path) -> None:
    """Real training of one size: probed by the worker, timed while it trains, used by the next plan."""
    small = (
        "sizes=[8]",
        "seeds=2",
        "mixes=[add]",
        "search.method=grid",
        "settings.training.steps=800",
        "settings.training.evaluate_every=100",
        "settings.training.stop_when_solved=false",
    )
    spec, here = load_space("add_vs_add_prod", "smoke", small), hardware.detect()
    before, sizing = calibration.settle(spec, tmp_path, here)
    assert not make_plan(before, here, sizing).sizes[0].measured
    run_sweep(spec, RunOptions(home=tmp_path, local_debug=True), quiet())
    known = calibration.read(tmp_path)
    assert {each.stack for each in known if each.probed} >= {1, 2}
    assert {each.stack for each in known if not each.probed} == {2}
    after, sizing = calibration.settle(spec, tmp_path, here)
    [planned] = make_plan(after, here, sizing).sizes
    assert planned.measured
    [trained] = [each.seconds for each in known if not each.probed]
    assert planned.seconds == pytest.approx(800 * trained)
