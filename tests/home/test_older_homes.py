"""Homes of earlier versions (tests/data/homes) are read completely or refused in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from orchestrator.catalog.reading import StoredSweep, read_sweeps
from orchestrator.history.sweeps import UnreadableError
from orchestrator.home.directories import Home
from tests.cli.program import Program
from trainables.base import Status

HOMES = Path(__file__).resolve().parents[1] / "data" / "homes"
OUTCOMES = {
    "schema-2": {("add", 4, 0): 1 / 6, ("add", 8, 0): 1 / 3, ("add+prod", 4, 0): 1 / 3, ("add+prod", 8, 0): 1 / 3},
    "schema-2-pairs": {
        ("add", 8, 0): 1 / 3,
        ("add", 8, 1): 1 / 6,
        ("add", 16, 0): 0.0,
        ("add", 16, 1): 1 / 6,
        ("add+prod", 8, 0): 1 / 3,
        ("add+prod", 8, 1): 1 / 6,
        ("add+prod", 16, 0): 1 / 3,
        ("add+prod", 16, 1): 1 / 6,
    },
}
"""ADD's accuracy of every run by mix, size and seed, as printed by the version that trained it."""
EVIDENCE = {"schema-2": None, "schema-2-pairs": (4, 1 / 3.2)}
"""Pairs and evidence of the comparison, as printed by the version that trained the runs."""


@pytest.fixture(params=sorted(OUTCOMES))
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a home from an earlier version."""
    return Path(shutil.copytree(HOMES / request.param, tmp_path / request.param))


def test_every_stored_home_is_tested() -> None:
    assert {path.name for path in HOMES.iterdir() if path.is_dir()} == set(OUTCOMES)


def test_an_older_home_is_read_completely_or_refused_in_one_line(older: Path) -> None:
    for sweep in read_sweeps(Home(older)):
        if isinstance(sweep, UnreadableError):
            assert "was written by another version of the program" in str(sweep)
            assert len(str(sweep).splitlines()) == 1
            continue
        assert_whole(sweep, older)


def assert_whole(sweep: StoredSweep, older: Path) -> None:
    assert sweep.damage == ()
    assert (sweep.state.value, sweep.training) == ("finished", ())
    result = {(run.config.label, run.config.size, run.config.seed): run.outcome.accuracy["add"] for run in sweep.runs}
    assert result == pytest.approx(OUTCOMES[older.name])
    assert {run.outcome.status for run in sweep.runs} == {Status.FINISHED}
    assert {row.name for row in older.joinpath("runs").iterdir()} == {run.key for run in sweep.runs}
    # The keys have not changed, so another sweep would find the same runs.
    family, spec = sweep.spec.make_family(), sweep.spec
    requests = [request for request in spec.requests() if (request.mix, request.size, request.seed) in result]
    assert {family.key(spec.config(request)) for request in requests} == {run.key for run in sweep.runs}
    assert all(run.directory.is_dir() for run in sweep.runs)
    assert [mix.runs for mix in sweep.answer.mixes] == [len(OUTCOMES[older.name]) // 2] * 2
    comparison = sweep.answer.mixes[1].comparison
    assert (comparison is None) == (EVIDENCE[older.name] is None)
    if comparison is not None:
        assert (comparison.pairs, comparison.evidence) == pytest.approx(EVIDENCE[older.name], rel=0.05)


def test_every_command_reads_an_older_home_or_refuses_it_in_one_line(older: Path, run: Program, tmp_path: Path) -> None:
    sweep_id = next(older.joinpath("sweeps").iterdir()).name
    commands = (
        ("sweeps",),
        ("status", sweep_id),
        ("explain", sweep_id),
        ("report", sweep_id, "--output", tmp_path / "report.html"),
        ("export", sweep_id, "--output", tmp_path / "tables"),
        ("compare", sweep_id, sweep_id),
        ("logs", next(older.joinpath("runs").iterdir()).name),
        ("probe", sweep_id),
    )
    for words in commands:
        ended = run(*words, "--home", older)
        assert "should not happen" not in ended.err, words
        assert "Traceback" not in ended.err, words
        errors = [line for line in ended.err.strip().splitlines() if not line.startswith("note: ")]
        assert ended.code == 0 or len(errors) == 1, (words, ended.err)


def test_a_new_sweep_does_not_retrain_runs_of_an_older_home(older: Path, run: Program) -> None:
    [sweep] = read_sweeps(Home(older))
    if isinstance(sweep, UnreadableError):
        pytest.skip("this version refuses it")
    run("home", "trust", older).succeeded()
    before = {path.name: json.loads((path / "origin.json").read_text()) for path in older.joinpath("runs").iterdir()}
    run("run", sweep.sweep.files.spec, "--engine=local", "--home", older).succeeded()
    after = {path.name: json.loads((path / "origin.json").read_text()) for path in older.joinpath("runs").iterdir()}
    assert after == before
