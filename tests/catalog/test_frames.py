"""Tables and exports: stable columns, numbers that agree with the answer, and complete files or none."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from orchestrator.catalog import export as frames
from orchestrator.catalog.export import export
from orchestrator.catalog.reading import StoredSweep, read_sweep
from orchestrator.home.directories import Home
from orchestrator.system.errors import UserError
from tests.catalog.fabricated import EVALUATIONS, diverged, failed, runs_of, write_sweep
from tests.sweep.sweeps import spec

RUNS = (
    *("sweep", "space", "variant", "profile", "key", "mix", "size", "seed", "status", "steps"),
    *("seconds", "accuracy", "floor", "parameters", "core_parameters", "reused_from"),
)
TRANSITIONS = (
    *("sweep", "space", "variant", "profile", "size_axis", "mix", "recipe", "task", "is_target", "verdict"),
    *("transition", "low", "high"),
    *("transition_parameters", "low_parameters", "high_parameters"),
    *("transition_core_parameters", "low_core_parameters", "high_core_parameters"),
    *("transition_absolute", "low_absolute", "high_absolute"),
    *("p_above", "p_below", "tested_from", "tested_to", "runs", "diverged", "failed"),
    *("decided", "claim", "claim_from", "claim_to"),
    *("evidence", "evidence_highest", "at_least", "at_least_core", "pairs"),
    *("synergy", "synergy_low", "synergy_high"),
    *("words", "asymptote", "p_levels_off", "imported_runs"),
)
"""Column names that notebooks depend on."""


@pytest.fixture(scope="module", name="stored")
def stored_sweep(tmp_path_factory: pytest.TempPathFactory) -> StoredSweep:
    home = Home(tmp_path_factory.mktemp("frames"))
    runs = runs_of(spec())
    return read_sweep(home, write_sweep(home, outcomes={0: failed(), 1: diverged(runs[1])}).id)


def test_the_table_of_runs_has_a_row_per_run(stored: StoredSweep) -> None:
    frame = frames.runs_frame(stored)
    assert tuple(frame.columns[: len(RUNS)]) == RUNS
    assert list(frame["key"]) == [run.key for run in stored.runs]
    assert list(frame["status"][:3]) == ["failed", "diverged", "finished"]
    assert pd.isna(frame["accuracy"][0])
    assert frame["accuracy"][1] == frame["floor"][1]
    assert (frame["accuracy"][1:] == frame["test_accuracy/add"][1:]).all()
    assert frame["parameters"][0] == 8 * 8 + 8
    assert set(frame["sweep"]) == {stored.id}


def test_the_table_of_curves_has_a_row_per_evaluation_and_task(stored: StoredSweep) -> None:
    frame = frames.curves_frame(stored)
    assert tuple(frame.columns) == frames.CURVE_COLUMNS
    last = stored.runs[-1]
    mine = frame[(frame["key"] == last.key) & (frame["task"] == "prod")]
    assert list(mine["step"]) == list(range(1, EVALUATIONS + 1))
    assert mine["accuracy"].iloc[-1] == last.outcome.accuracy["prod"]


def test_the_table_of_transitions_agrees_with_the_answer(stored: StoredSweep) -> None:
    frame = frames.transitions_frame(stored)
    assert tuple(frame.columns) == TRANSITIONS
    assert list(frame["mix"] + ": " + frame["task"]) == ["add: add", "add+prod: add", "add+prod: prod"]
    mix = stored.answer.mix("add+prod")
    row = frame.iloc[1]
    assert row["transition"] == mix.target.transition.relative.value
    assert row["low_parameters"] == mix.target.total.low
    assert mix.synergy is not None
    assert row["synergy_low"] == mix.synergy.low
    assert mix.comparison is not None
    assert (row["decided"], row["pairs"]) == (mix.comparison.decided or "", mix.comparison.pairs)
    assert row["evidence"] == mix.comparison.evidence
    assert frame.loc[[0, 2], ["decided", "evidence", "pairs"]].isna().all(axis=None)
    assert list(frame["is_target"]) == [True, True, False]


def test_without_ended_runs_tables_are_empty_with_the_same_columns(home: Home) -> None:
    stored = read_sweep(home, write_sweep(home, runs=[], answered=False).id)
    assert tuple(frames.runs_frame(stored).columns) == RUNS
    assert frames.curves_frame(stored).empty
    frame = frames.transitions_frame(stored)
    assert list(frame["verdict"]) == ["undecided"] * 3
    unknown = [name for name in TRANSITIONS if name.startswith(("transition", "low", "high", "synergy", "evidence"))]
    assert {str(dtype) for dtype in frame[unknown].dtypes} == {"float64"}


def test_exported_tables_are_explained_and_read_back_unchanged(stored: StoredSweep, tmp_path: Path) -> None:
    paths = export(stored, tmp_path / "tables")
    explanations = (tmp_path / "tables" / "columns.txt").read_text()
    for name in (*RUNS, *frames.CURVE_COLUMNS):
        assert f"``{name}``" in explanations
    for name in TRANSITIONS:
        base = name
        for unit in ("_core_parameters", "_parameters", "_absolute"):
            base = base.removesuffix(unit)
        assert f"``{base}``" in explanations
    files = {f"{name}.{suffix}" for name in ("curves", "runs", "transitions") for suffix in ("csv", "parquet")}
    assert {path.name for path in paths} == files | {"columns.txt"}
    made = {
        "runs": frames.runs_frame(stored),
        "curves": frames.curves_frame(stored),
        "transitions": frames.transitions_frame(stored),
    }
    for name, frame in made.items():
        read = pd.read_parquet(tmp_path / "tables" / f"{name}.parquet")
        pd.testing.assert_frame_equal(read, frame, check_dtype=False)
        assert list(pd.read_csv(tmp_path / "tables" / f"{name}.csv").columns) == list(frame.columns)


def test_an_export_is_complete_or_leaves_nothing(
    stored: StoredSweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(UserError, match="already exists"):
        export(stored, tmp_path / "there")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    with pytest.raises(OSError, match="No space"):
        export(stored, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_directory_that_somebody_else_made_in_the_meantime_is_no_result(
    stored: StoredSweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shared directory, another user could be first, with tables of their own."""
    chmod = Path.chmod

    def make_another(path: Path, mode: int) -> None:
        (tmp_path / "tables").mkdir()
        (tmp_path / "tables" / "runs.csv").write_text("forged")
        chmod(path, mode)

    monkeypatch.setattr(Path, "chmod", make_another)
    with pytest.raises(OSError, match=r"not empty|exists"):
        export(stored, tmp_path / "tables")
    assert [path.name for path in (tmp_path / "tables").iterdir()] == ["runs.csv"]
