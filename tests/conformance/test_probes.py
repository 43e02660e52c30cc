"""Conformance suite of probes, run over every built-in one."""

from __future__ import annotations

import inspect
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from orchestrator.home.directories import PROBES
from orchestrator.home.run_files import ARRAYS, WEIGHTS, is_due, read_arrays, read_results
from orchestrator.sweep.probe_stored_runs import probe_stored_run
from tests.trainables.conftest import data_cache
from tests.trainables.stacks import PERMUTATIONS, config, family_of, last_reports, make_learner
from trainables.base import Mix, RunConfig
from trainables.probes.base import BUILT_IN, RESULT_NAME, Probe, load_probe

__all__ = ["data_cache"]

RUNS = (
    config("add", 12),
    config("add+prod", 8, seed=3),
    RunConfig(Mix.parse("product+sign"), 8, 0, PERMUTATIONS),
)


@pytest.fixture(scope="session", name="trained")
def trained_runs(tmp_path_factory: pytest.TempPathFactory, data_cache: Path) -> dict[RunConfig, Path]:
    """Small real runs with the directories of their files."""
    directories = {}
    for run in RUNS:
        ended = last_reports(make_learner([run], data_cache))[0]
        directory = tmp_path_factory.mktemp("run")
        arrays: dict[str, Any] = dict(ended.arrays)
        np.savez(directory / ARRAYS, **arrays)
        save_file(dict(ended.weights), directory / WEIGHTS)
        directories[run] = directory
    return directories


@pytest.fixture(params=BUILT_IN)
def probe(request: pytest.FixtureRequest) -> Probe:
    return load_probe(request.param)


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_results_are_repeatable_and_the_run_stays_unchanged(
    probe: Probe, run: RunConfig, trained: dict[RunConfig, Path], data_cache: Path
) -> None:
    directory = trained[run]
    before = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    family = family_of(run.settings)
    first = probe_stored_run(probe, family, run, directory, data_cache)
    arrays = read_arrays(directory)
    assert first.error == ""
    assert first.numbers or len(arrays) > 1
    assert (first.name, first.version) == (probe.name, probe.version)
    assert all(RESULT_NAME.fullmatch(name) for name in first.numbers)
    recording = directory / PROBES / f"{probe.name}.npz"
    own = np.load(recording).files if recording.is_file() else []
    assert [name for name in (*first.numbers, *own) if not is_said(name, probe, run)] == []
    assert read_results(directory)[probe.name] == first
    assert not is_due(probe, directory)
    again = probe_stored_run(type(probe)(), family, run, directory, data_cache)
    assert again == first
    for name, array in read_arrays(directory).items():
        np.testing.assert_array_equal(array, arrays[name])
    assert {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()} == before


def test_a_run_without_files_gives_a_stored_error(probe: Probe, tmp_path: Path, data_cache: Path) -> None:
    family = family_of(RUNS[0].settings)
    result = probe_stored_run(probe, family, RUNS[0], tmp_path, data_cache)
    assert f"the probe {probe.name!r} needs" in result.error
    assert read_results(tmp_path) == {probe.name: result}
    assert is_due(probe, tmp_path)


@pytest.mark.parametrize("content", [b"", b"\xff" * 8 + b"{}", b"PK\x03\x04" + bytes(40)])
@pytest.mark.parametrize("file", [ARRAYS, WEIGHTS])
def test_damaged_files_give_a_stored_error(
    file: str, content: bytes, trained: dict[RunConfig, Path], tmp_path: Path, data_cache: Path
) -> None:
    directory = shutil.copytree(trained[RUNS[0]], tmp_path / "run")
    (directory / file).write_bytes(content)
    probe = load_probe("mistakes" if file == WEIGHTS else "similarity")
    assert probe.needs_model == (file == WEIGHTS)
    result = probe_stored_run(probe, family_of(RUNS[0].settings), RUNS[0], directory, data_cache)
    assert result.error.startswith("its files are damaged: ")
    assert read_results(directory)[probe.name] == result


def test_weights_that_are_a_hole_of_terabytes_give_a_stored_error(
    trained: dict[RunConfig, Path], tmp_path: Path, data_cache: Path
) -> None:
    directory = shutil.copytree(trained[RUNS[0]], tmp_path / "run")
    with (directory / WEIGHTS).open("r+b") as file:
        file.truncate(4 << 40)
    result = probe_stored_run(load_probe("mistakes"), family_of(RUNS[0].settings), RUNS[0], directory, data_cache)
    assert result.error.startswith("its files are damaged: ValueError: weights.safetensors has 4398046511104 bytes")


def is_said(name: str, probe: Probe, run: RunConfig) -> bool:
    """Return whether a probe's docstring, which `doc probes` prints, mentions a number or an array. In it, ``TASK``
    stands for any task of the run and ``GROUPING`` for any grouping of the items."""
    stands_for = {"TASK": run.mix.tasks, "GROUPING": family_of(run.settings).groupings()}
    for pattern in re.findall("``(.+?)``", inspect.getdoc(type(probe)) or ""):
        for word, names in stands_for.items():
            pattern = pattern.replace(word, f"({'|'.join(names)})")
        if re.fullmatch(pattern, name):
            return True
    return False
