"""Checks run to their end, whatever they find, and not beyond the time there is."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from orchestrator.doctor.checkup import NAME, CheckUp, passed_here
from orchestrator.doctor.findings import Check, Finding, Verdict, examine, ok, slow, wrong
from orchestrator.doctor.gpu import together
from orchestrator.space.hardware import Hardware

GPU = Hardware(16, 128, 1, "Some GPU")


def broken() -> Finding:
    raise OSError("the cable\nis out")


def test_a_check_that_raises_has_found_something_wrong_and_the_next_one_runs() -> None:
    found = [each for each, _ in examine([Check("cable", broken), Check("lamp", lambda: ok("it burns", watts=4))], 60)]
    assert [(each.name, each.verdict) for each in found if each] == [("cable", Verdict.WRONG), ("lamp", Verdict.OK)]
    assert found[0] is not None
    assert found[0].said == "OSError: the cable"
    assert found[0].todo
    assert found[1] is not None
    assert found[1].figures == {"watts": 4}


def test_a_check_there_is_no_time_left_for_is_named_and_shorter_ones_still_run() -> None:
    ticks = itertools.count(0.0, 1.0)
    checks = [Check("long", lambda: ok(""), 50), Check("longer", lambda: ok(""), 90), Check("short", lambda: ok(""), 1)]
    seen = [(name, found is not None) for found, name in examine(checks, 60, lambda: next(ticks))]
    assert seen == [("long", True), ("longer", False), ("short", True)]


def test_slow_passes_and_wrong_or_left_out_does_not() -> None:
    fine, late = slow("far away", "move it"), wrong("gone", "find it")
    assert CheckUp(GPU, (ok("here"), fine), ()).passed
    assert not CheckUp(GPU, (ok("here"), late), ()).passed
    assert not CheckUp(GPU, (ok("here"),), ("there",)).passed


def test_what_is_not_installed_is_skipped_and_speaks_neither_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "ROOT", tmp_path)  # A package without the repository's tests and benchmarks.
    found = together.tests(), together.throughput()
    assert [each.verdict for each in found] == [Verdict.SKIPPED] * 2
    assert all("clone" in each.todo for each in found)
    assert CheckUp(GPU, (ok("here"), *found), ()).passed


def test_a_check_up_holds_for_the_gpu_and_the_torch_it_was_made_with(tmp_path: Path) -> None:
    assert not passed_here(tmp_path, GPU)
    kept = CheckUp(GPU, (ok("here"),), ()).to_json()
    (tmp_path / NAME).write_text(json.dumps(kept))
    assert passed_here(tmp_path, GPU)
    assert not passed_here(tmp_path, Hardware(16, 128, 1, "Another GPU"))
    (tmp_path / NAME).write_text(json.dumps(kept | {"torch": "1.0"}))
    assert not passed_here(tmp_path, GPU)
    (tmp_path / NAME).write_text(json.dumps(kept | {"passed": False}))
    assert not passed_here(tmp_path, GPU)
    (tmp_path / NAME).write_text("[]")
    assert not passed_here(tmp_path, GPU)
