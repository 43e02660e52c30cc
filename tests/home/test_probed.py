"""Probe results are stored next to their run and read by name."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from orchestrator.home.directories import Home
from orchestrator.home.run_files import (
    ARRAYS,
    WEIGHTS,
    ProbeResult,
    is_due,
    is_outdated,
    numbers_of,
    read_arrays,
    read_results,
    result_files,
    write_result,
)
from orchestrator.home.run_store import RunStore
from orchestrator.home.seals import flaw_of
from tests.engine.test_campaign import GOOD
from tests.families import Firing
from trainables.probes.embeddings import Similarity


def test_a_later_result_replaces_an_older_one_with_its_arrays(tmp_path: Path) -> None:
    result = ProbeResult("firing", 1, {"mean": 0.25})
    write_result(tmp_path, result, {"by_room": np.arange(3.0)})
    assert read_results(tmp_path) == {"firing": result}
    assert numbers_of(tmp_path) == {"probe/firing/mean": 0.25}
    assert sorted(path.name for path in (tmp_path / "probes").iterdir()) == ["firing.json", "firing.npz"]
    write_result(tmp_path, ProbeResult("firing", 2, error="Traceback\nValueError: no\n"), {})
    assert read_arrays(tmp_path) == {}
    assert read_results(tmp_path)["firing"].reason == "ValueError: no"
    assert numbers_of(tmp_path) == {}


def test_a_later_result_does_not_damage_the_run(tmp_path: Path) -> None:
    """A worker's result is stored with its run; `probe` may replace it."""
    runs, files = (
        RunStore(Home(tmp_path)),
        result_files(ProbeResult("firing", 1, error="no"), {"by_room": np.arange(3.0)}),
    )
    runs.put("key", GOOD, {**files, WEIGHTS: b"weights"})
    directory = runs.directory("key")
    write_result(directory, ProbeResult("firing", 2, {"mean": 0.25}), {"by_room": np.arange(4.0)})
    assert flaw_of(directory) == ""
    (directory / WEIGHTS).write_bytes(b"wights")
    assert "does not match" in flaw_of(directory)


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "file"])
@pytest.mark.parametrize("arrays", [{}, {"by_room": np.arange(3.0)}])
def test_a_result_replaces_what_is_in_the_place_of_its_directory(
    kind: str, arrays: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]], tmp_path: Path
) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run.mkdir()
    if kind != "dangling link":
        elsewhere.mkdir()
        (elsewhere / "firing.npz").write_text("precious")
    if kind == "pipe":
        os.mkfifo(run / "probes")
    elif kind == "file":
        (run / "probes").write_text("")
    else:
        (run / "probes").symlink_to(elsewhere)
    write_result(run, ProbeResult("firing", 1, {"mean": 0.25}), arrays)
    assert numbers_of(run) == {"probe/firing/mean": 0.25}
    assert [path.read_text() for path in elsewhere.glob("*")] == ([] if kind == "dangling link" else ["precious"])


def test_arrays_of_the_family_come_before_arrays_of_probes(tmp_path: Path) -> None:
    assert (read_results(tmp_path), read_arrays(tmp_path)) == ({}, {})
    np.savez(tmp_path / ARRAYS, embedding=np.eye(2))
    write_result(tmp_path, ProbeResult("b", 1), {"embedding": np.ones(1), "similarity": np.full(1, 2.0)})
    write_result(tmp_path, ProbeResult("c", 1), {"similarity": np.full(1, 3.0)})
    arrays = read_arrays(tmp_path)
    assert set(arrays) == {"embedding", "b/embedding", "similarity", "c/similarity"}
    assert arrays["embedding"].shape == (2, 2)
    assert (arrays["similarity"][0], arrays["c/similarity"][0]) == (2.0, 3.0)


@pytest.mark.parametrize("text", ["", "{", '{"name": "firing"}', "[]"])
def test_a_damaged_result_is_reported_and_its_probe_is_due_again(tmp_path: Path, text: str) -> None:
    write_result(tmp_path, ProbeResult("firing", 1, {"mean": 0.25}), {})
    (tmp_path / "probes" / "firing.json").write_text(text)
    assert read_results(tmp_path)["firing"].error.startswith("firing.json cannot be read")
    assert is_due(Firing(), tmp_path)


def test_a_probe_is_due_without_a_current_result(tmp_path: Path) -> None:
    assert is_due(Firing(), tmp_path)
    for version, error, due in ((0, "", False), (1, "", True), (0, "broken", True)):
        result = ProbeResult("firing", Firing.version + version, error=error)
        write_result(tmp_path, result, {})
        assert is_due(Firing(), tmp_path) is due


@pytest.mark.parametrize(("source", "due"), [("", False), (Firing().source, False), ("0123456789abcdef", True)])
def test_a_probe_is_due_if_other_code_made_its_result(source: str, due: bool, tmp_path: Path) -> None:
    assert re.fullmatch("[0-9a-f]{16}", Firing().source)
    assert Similarity().source == ""
    write_result(tmp_path, ProbeResult("firing", Firing.version, {"mean": 0.25}, source=source), {})
    assert (is_due(Firing(), tmp_path), is_outdated(Firing(), tmp_path)) == (due, due)
    write_result(tmp_path, ProbeResult("firing", Firing.version, error="broken", source=source), {})
    assert (is_due(Firing(), tmp_path), is_outdated(Firing(), tmp_path)) == (True, due)
