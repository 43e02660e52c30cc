"""Each check looks at the real thing, and finds what is wrong where something is."""

from __future__ import annotations

import os
import socket
import sys
import time
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from orchestrator.doctor import machine, places, software, training
from orchestrator.doctor.findings import Verdict
from orchestrator.doctor.fresh import FreshError, Order, fresh
from orchestrator.doctor.sample import Sample, digest
from trainables.stack import StackTrainer


def test_requirements_that_are_not_met_are_named() -> None:
    here = {"torch": "2.9.1+cpu", "numpy": "2.4.0", "ray": "2.50.0"}
    asked = ["torch>=2.10", "numpy<3,>=1.26", "ray[tune]<3,>=2.50", "pyte>=0.8; extra == 'test'", "scipy>=1.13"]
    assert software.unmet(asked, here) == ["torch 2.9.1+cpu is not >=2.10", "scipy is missing"]


def test_versions_beside_the_lock_leave_local_parts_and_what_is_not_installed_out() -> None:
    lock = "# tested\ntorch==2.13.0\nNumPy==2.4.0\nabsent==1.0\n"
    assert software.differing(lock, {"torch": "2.13.0+cu130", "numpy": "2.3.5"}) == ["NumPy 2.3.5 (tested: 2.4.0)"]


def test_this_environment_meets_what_the_project_names() -> None:
    found = software.versions()
    assert found.verdict is not Verdict.WRONG, found.said
    assert found.figures["unmet"] == []


def test_the_oldest_torch_allowed_knows_the_limits_that_compiling_sets() -> None:
    """``torch._dynamo.config.recompile_limit`` was ``cache_size_limit`` up to 2.5 and is unknown there."""
    project = tomllib.loads((software.LOCK.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [torch_wanted] = [each for each in map(Requirement, project["dependencies"]) if each.name == "torch"]
    assert not torch_wanted.specifier.contains("2.5.1")


def test_limits_of_a_container_are_read_in_both_versions(tmp_path: Path) -> None:
    assert machine.limits(tmp_path) == machine.Limits(None, None)
    new, old = tmp_path / "new", tmp_path / "old"
    new.mkdir()
    (new / "cpu.max").write_text("150000 100000\n")
    (new / "memory.max").write_text("4000000000\n")
    assert machine.limits(new) == machine.Limits(1.5, 4_000_000_000)
    (new / "cpu.max").write_text("max 100000\n")
    (new / "memory.max").write_text("max\n")
    assert machine.limits(new) == machine.Limits(None, None)
    for name, text in {
        "cpu/cpu.cfs_quota_us": "200000",
        "cpu/cpu.cfs_period_us": "100000",
        "memory/memory.limit_in_bytes": "9223372036854771712",
    }.items():
        (old / name).parent.mkdir(parents=True, exist_ok=True)
        (old / name).write_text(text + "\n")
    assert machine.limits(old) == machine.Limits(2.0, None)


def test_a_container_with_less_time_than_cores_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    half = len(os.sched_getaffinity(0)) / 2
    monkeypatch.setattr(machine, "limits", lambda: machine.Limits(half, 3 * 10**9))
    found = machine.cores()
    assert found.verdict is Verdict.SLOW
    assert "resources.cpu_per_stack=2" in found.todo
    assert machine.memory().figures["free_gb"] <= 3.0


def test_memory_too_small_for_one_worker_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "limits", lambda: machine.Limits(None, 10**9))
    assert machine.memory().verdict is Verdict.WRONG


def test_the_disk_is_written_to_and_left_as_it_was(tmp_path: Path) -> None:
    found = places.disk(tmp_path)
    assert found.figures["flush_s"] > 0
    assert found.figures["free_gb"] > 0
    assert list(tmp_path.iterdir()) == []


def test_locks_that_keep_nobody_out_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert places.locks(tmp_path).verdict is Verdict.OK
    monkeypatch.setattr(places, "HOLD", places.HOLD.replace("sys.argv[1]", "sys.argv[1] + '-elsewhere'"))
    assert places.locks(tmp_path).verdict is Verdict.WRONG


def test_the_clock_of_the_disk_is_set_beside_this_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert places.clock(tmp_path).verdict is Verdict.OK
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 30.0)
    found = places.clock(tmp_path)
    assert found.verdict is Verdict.WRONG
    assert found.figures["disk_skew_s"] == pytest.approx(-30.0, abs=2.0)


def test_a_port_that_is_taken_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        monkeypatch.setattr(places, "PORTS", {taken: ("ui", "--port")})
        found = places.ports()
    assert found.verdict is Verdict.OK
    assert found.figures["taken"] == [taken]
    assert "--port N" in found.said


def test_a_stack_that_learns_is_told_from_one_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert training.learning().verdict is Verdict.OK
    monkeypatch.setattr(StackTrainer, "_take_step", lambda trainer: trainer.state.loss_S.add_(2.5))
    assert training.learning().verdict is Verdict.WRONG


def test_a_process_of_its_own_computes_the_same_bits_and_another_stack_others() -> None:
    with training.one_thread():
        trainer = Sample().trainer()
        trainer.run(0, 5)
    same, other = fresh([Order(Sample(), 5), Order(Sample(), 6)])
    assert same.digest == digest(trainer)
    assert other.digest != same.digest
    assert same.rate == 0.0


def test_bits_that_differ_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = iter(("a", "b"))
    monkeypatch.setattr(training, "_digest_after", lambda steps: next(digests))
    assert training.repeating().verdict is Verdict.WRONG


def test_a_process_that_dies_says_with_which_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FreshError, match=r"exit code 1: ZeroDivisionError"):
        fresh([Order(Sample(n_embed=0), 1)])
    monkeypatch.setattr(sys, "executable", "/bin/sleep")
    with pytest.raises(FreshError):
        fresh([Order(Sample(), 1)], timeout_s=5.0)
