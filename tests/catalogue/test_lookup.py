"""Names typed by users find the sweep or run they mean, or give a helpful error."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.catalogue.reading import find_run, find_sweep
from orchestrator.errors import UserError
from orchestrator.home.files import Home
from tests.catalogue.fabricated import leave_stack, runs_of, write_sweep
from tests.sweep.sweeps import spec

IDS = (
    "alone-20260101-000000-aaaa",
    "logistic-20260101-000000-bbbb",
    "logistic-20260102-000000-cccc",
    "logistic_two-20260103-000000-dddd",
)


@pytest.fixture(name="home")
def home_of_ids(tmp_path: Path) -> Home:
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
        ("al", IDS[0]),
        ("logistic-20260101", IDS[1]),
        ("logistic_", IDS[3]),
    ],
)
def test_id_space_and_prefix_find_a_sweep(home: Home, given: str, expected: str) -> None:
    assert find_sweep(home, given) == expected


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("logist", ["matches 3 sweeps", *IDS[1:]]),
        ("logistic-2026", ["matches 2 sweeps"]),
        ("lgistic", ["there is no sweep 'lgistic'", "Did you mean 'logistic'?", IDS[0]]),
        ("", ["there is no sweep ''"]),
        ("../sweeps/" + IDS[0], ["there is no sweep"]),
    ],
)
def test_names_that_match_none_or_several_are_explained(home: Home, given: str, parts: list[str]) -> None:
    with pytest.raises(UserError) as raised:
        find_sweep(home, given)
    for part in parts:
        assert part in str(raised.value)


def test_a_run_is_found_in_every_sweep_that_has_it_and_while_it_trains(tmp_path: Path) -> None:
    home = Home(tmp_path)
    sweep_spec = spec()
    first, second = runs_of(sweep_spec)[:2]
    sweeps = [write_sweep(home, sweep_spec, runs=[first]).id for _ in range(2)]
    (training,) = leave_stack(home, write_sweep(home, sweep_spec, runs=[], answered=False), [second], 2)
    key = sweep_spec.make_family().key(first)
    key_found, holding = find_run(home, key[:8])
    assert key_found == key
    assert {sweep.id for sweep in holding} == set(sweeps)
    assert find_run(home, training)[0] == training
    with pytest.raises(UserError, match="there is no run 'zz'"):
        find_run(home, "zz")
    with pytest.raises(UserError, match="there is no run ''"):
        find_run(home, "")
