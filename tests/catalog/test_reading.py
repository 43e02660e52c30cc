"""Sweeps and runs are found by the names users type, and read from disk in every state."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from orchestrator.catalog.reading import find_run, find_sweep, find_variants, read_arrays, read_sweep
from orchestrator.home.directories import Home, SweepDirectory
from orchestrator.home.run_files import directory_bytes
from orchestrator.jobs.state import State
from orchestrator.system.errors import UserError
from tests.catalog.fabricated import failed, leave_stack, runs_of, write_sweep
from tests.cli.program import imported
from tests.sweep.sweeps import spec


def test_a_finished_sweep_is_read_completely(home: Home) -> None:
    sweep = write_sweep(home)
    stored = read_sweep(home, "logistic")
    assert stored.id == sweep.id
    assert stored.spec == sweep.spec
    assert stored.state is State.FINISHED
    assert [run.config for run in stored.runs] == runs_of(sweep.spec)
    assert stored.training == ()
    assert {run.trained_for for run in stored.runs} <= {""}
    value = stored.answer.mix("add").target.transition.relative.value
    assert value is not None
    assert 35 < value < 60
    assert datetime.now(UTC) - stored.begun < timedelta(minutes=5)
    assert stored.changed >= stored.begun
    os.utime(sweep.files.journal, (0, 0))
    assert read_sweep(home, "logistic").changed == stored.changed, "a copied home shows the same times"


@pytest.mark.parametrize(
    ("answered", "failures", "state"),
    [(True, 0, State.FINISHED), (False, 0, State.INTERRUPTED), (False, 1, State.INTERRUPTED), (False, 2, State.FAILED)],
)
def test_the_state_of_a_sweep_is_read(home: Home, answered: bool, failures: int, state: State) -> None:
    outcomes = {place: failed() for place in range(failures)}
    sweep = write_sweep(home, runs=runs_of(spec())[:2], outcomes=outcomes, answered=answered)
    with home.sweep(sweep.id).driving():
        assert read_sweep(home, sweep.id).state is State.RUNNING
    assert read_sweep(home, sweep.id).state is state


def test_runs_in_training_show_their_progress(home: Home) -> None:
    runs = runs_of(spec())
    sweep = write_sweep(home, runs=runs[:3], answered=False)
    keys = leave_stack(home, sweep, runs[2:5], evaluations=4)
    with (home.sweep(sweep.id).stacks / "stack" / "progress.jsonl").open("a") as file:
        file.write('{"key": "torn", "st')
    training = read_sweep(home, sweep.id).training
    assert [run.key for run in training] == keys[1:]  # The first run of the stack has ended.
    assert [run.step for run in training] == [4, 4]
    assert training[0].curve[-1].accuracy["add"] == pytest.approx(0.4)


def test_arrays_of_a_run_are_read_unless_it_failed(home: Home) -> None:
    runs = runs_of(spec())[:2]
    stored = read_sweep(home, write_sweep(home, runs=runs, outcomes={1: failed()}).id)
    arrays = read_arrays(stored.runs[0])
    assert arrays["embedding"].shape == (6, runs[0].size)
    assert np.diagonal(arrays["similarity"]) == pytest.approx(np.ones(6), abs=1e-5)
    with pytest.raises(UserError, match="has no arrays: it failed"):
        read_arrays(stored.runs[1])


def test_a_run_of_two_arms_is_stored_and_found_once(tmp_path: Path) -> None:
    home, sweep_spec = Home(tmp_path), spec(mixes=["add", {"name": "same", "mix": "add"}])
    sweep = write_sweep(home, sweep_spec)
    stored = read_sweep(home, sweep.id)
    assert len(stored.runs) == 2 * len({run.key for run in stored.runs})
    key = stored.runs[0].key
    assert stored.run(key).key == key
    _, holder, names = find_run(home, key)
    assert (holder.id, names) == (sweep.id, [sweep.id])
    assert stored.disk_bytes == directory_bytes(sweep.files.directory) + directory_bytes(home.runs)


def test_reading_loads_neither_torch_nor_ray_nor_mlflow(home: Home, tmp_path: Path) -> None:
    write_sweep(home, runs=runs_of(spec())[:1])
    code = (
        "from pathlib import Path\n"
        "from orchestrator.catalog.reading import read_sweep\nfrom orchestrator.home.directories import Home\n"
        "from orchestrator.catalog.summary import summarize\n"
        f"summarize(read_sweep(Home(Path({str(tmp_path)!r})), 'logistic'))"
    )
    assert imported(code, "torch", "ray", "mlflow", "pandas", "matplotlib", "scipy.stats") == []


IDS = (
    "alone-20260101-000000-aaaa",
    "logistic-20260101-000000-bbbb",
    "logistic-20260102-000000-cccc",
    "logistic_two-20260103-000000-dddd",
)


@pytest.fixture
def named(tmp_path: Path) -> Home:
    for name in IDS:
        directory = tmp_path / "sweeps" / name
        directory.mkdir(parents=True)
        (directory / "journal.jsonl").touch()
    return Home(tmp_path)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (IDS[1], IDS[1]),
        ("logistic", IDS[2]),
        ("logistic_two", IDS[3]),
        ("logistic-20260101", IDS[1]),
    ],
)
def test_id_space_and_prefix_find_a_sweep(named: Home, given: str, expected: str) -> None:
    assert find_sweep(named, given) == expected


def test_an_imported_sweep_is_the_newest_only_among_imported_ones(named: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The author of an archive chooses the times in a journal."""
    assert find_sweep(named, None) == IDS[3]
    named.sweep(IDS[2]).imported.touch()
    named.sweep(IDS[3]).imported.touch()
    assert (find_sweep(named, None), find_sweep(named, "logistic")) == (IDS[1], IDS[1])
    assert (find_sweep(named, IDS[2]), find_sweep(named, "logistic-20260102")) == (IDS[2], IDS[2])
    assert find_sweep(named, "logistic_two") == IDS[3]
    for sweep_id in IDS:
        named.sweep(sweep_id).imported.touch()
    assert (find_sweep(named, None), find_sweep(named, "logistic")) == (IDS[3], IDS[2])

    def refuse(files: SweepDirectory) -> bool:
        raise PermissionError(errno.EACCES, "denied", str(files.directory))

    monkeypatch.setattr(SweepDirectory, "is_imported", property(refuse))
    assert find_sweep(named, None) == IDS[3]


def test_variants_of_a_space_are_those_of_this_user(tmp_path: Path) -> None:
    names = [
        f"logistic-{variant}-2026010{day}-000000-aaaa" for day, variant in enumerate(("a", "b", "a", "c"), start=1)
    ]
    home = Home(tmp_path)
    for name in names:
        (tmp_path / "sweeps" / name).mkdir(parents=True)
        home.sweep(name).journal.touch()
    assert find_variants(home, "logistic") == names[1:]
    for name in names[2:]:
        home.sweep(name).imported.touch()
    assert find_variants(home, "logistic") == names[:2]


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("logist", ["matches 3 sweeps", *IDS[1:]]),
        ("lgistic", ["there is no sweep 'lgistic'", "Did you mean 'logistic'?", IDS[0]]),
    ],
)
def test_names_that_match_none_or_several_are_explained(named: Home, given: str, parts: list[str]) -> None:
    with pytest.raises(UserError) as raised:
        find_sweep(named, given)
    for part in parts:
        assert part in str(raised.value)


def test_a_run_is_found_in_every_sweep_that_has_it_and_while_it_trains(home: Home) -> None:
    sweep_spec = spec()
    first, second = runs_of(sweep_spec)[:2]
    sweeps = [write_sweep(home, sweep_spec, runs=[first]).id for _ in range(2)]
    (training,) = leave_stack(home, write_sweep(home, sweep_spec, runs=[], answered=False), [second], 2)
    key = sweep_spec.make_family().key(first)
    key_found, newest, names = find_run(home, key[:8])
    assert (key_found, newest.id) == (key, names[0])
    assert set(names) == set(sweeps)
    assert find_run(home, training)[0] == training
    with pytest.raises(UserError, match="has no run 'zz'"):
        find_run(home, "zz")
    with pytest.raises(UserError, match="has no run ''"):
        find_run(home, "")
