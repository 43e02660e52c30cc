"""Every tracker keeps the contract of trackers, and the suite finds trackers that do not."""

from __future__ import annotations

import csv
import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.exceptions import MlflowException

from orchestrator.home.directories import Home
from orchestrator.home.inspection import foreign_things
from orchestrator.jobs.state import State
from orchestrator.record.json_lines import RUNS, JsonLinesTracker, remove_lines
from orchestrator.record.mlflow_store import DATABASE, choose
from orchestrator.record.mlflow_tracker import ENDINGS, MlflowTracker
from orchestrator.record.tracker import Content, StoreError
from tests.record import csv_files
from tests.record.csv_files import CsvTracker, read_table
from tests.record.suite import CHECKS, FIRST, SECOND, Bench, Kept, run_record, sweep_record

Check = Callable[[Bench], None]
every_check = pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])


def lines_bench(directory: Path, tracker: type[JsonLinesTracker] = JsonLinesTracker) -> Bench:
    """Return the bench of a file of JSON lines."""
    path = directory / RUNS

    @contextmanager
    def outage() -> Iterator[None]:
        """A directory takes the place of the file."""
        aside = path.with_suffix(".aside")
        if path.exists():
            path.rename(aside)
        path.mkdir()
        yield
        path.rmdir()
        if aside.exists():
            aside.rename(path)

    def kill(sweep: Content, record: Content) -> None:
        alone = directory / "alone.jsonl"
        JsonLinesTracker(alone).keep(sweep, record)
        whole = alone.read_bytes().splitlines()[-1]
        with path.open("ab") as file:
            file.write(whole[: len(whole) // 2])

    files = directory / "files"
    files.mkdir()
    return Bench(lambda: tracker(path), lambda: read_lines(path), outage, kill, files)


def read_lines(path: Path) -> list[Kept]:
    """Return the records as the file's documentation says."""
    newest: dict[tuple[str, str, str, str], Kept] = {}
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        values = json.loads(line)
        identity = values["sweep"], values["kind"], values["key"], values["mix"]
        curves = {name: [(step, value) for step, value in curve] for name, curve in values["curves"].items()}
        assert values["metrics"] == {name: curve[-1][1] for name, curve in curves.items()}
        artifacts = {name: text.encode() for name, text in values["texts"].items()}
        artifacts |= {name: Path(place).read_bytes() for name, place in values["files"].items()}
        ended = datetime.fromisoformat(values["ended"])
        assert datetime.fromisoformat(values["started"]) <= ended
        state = State(values["state"])
        newest[identity] = Kept(identity, state, ended, values["params"], values["tags"], curves, artifacts)
    return list(newest.values())


def mlflow_bench(empty: Path, directory: Path) -> Bench:
    """Return the bench of a real MLflow store."""
    shutil.copyfile(empty, directory / DATABASE)
    store = choose(directory, {})
    client = MlflowClient(store.uri)
    states = {status: state for state, status in ENDINGS.items()} | {"RUNNING": State.RUNNING}

    def read_run(run: Run) -> Kept:
        tags = run.data.tags
        histories = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
        curves = {
            name: sorted((metric.step, metric.value) for metric in history) for name, history in histories.items()
        }
        names = [file.path for file in client.list_artifacts(run.info.run_id)]
        artifacts = {name: Path(client.download_artifacts(run.info.run_id, name)).read_bytes() for name in names}
        mix = "" if tags["kind"] == "sweep" else run.data.params.get("mix", "")
        ended = datetime.fromtimestamp((run.info.end_time or run.info.start_time) / 1000, UTC)
        identity = tags["sweep"], tags["kind"], tags.get("run_key", ""), mix
        return Kept(identity, states[run.info.status], ended, run.data.params, tags, curves, artifacts)

    def read() -> list[Kept]:
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        kept = map(read_run, client.search_runs(experiments))
        return [record for record in kept if record.identity[1] == "sweep" or record.state is not State.RUNNING]

    @contextmanager
    def outage() -> Iterator[None]:
        def fail(*given: object, **named: object) -> None:
            raise MlflowException("the database is locked")

        with patch.multiple(MlflowClient, search_runs=fail, log_batch=fail, create_run=fail):
            yield

    def kill(sweep: Content, record: Content) -> None:
        killed = patch.object(MlflowClient, "set_terminated", side_effect=MlflowException("killed"))
        with killed, pytest.raises(StoreError):
            MlflowTracker(store).keep(sweep, record)

    files = directory / "files"
    files.mkdir()
    return Bench(lambda: MlflowTracker(store), read, outage, kill, files)


def csv_bench(directory: Path) -> Bench:
    """Return the bench of CSV files."""
    store = directory / "store"
    table = store / "records.csv"

    @contextmanager
    def outage() -> Iterator[None]:
        """A file takes the place of the directory."""
        aside = store.with_suffix(".aside")
        if store.exists():
            store.rename(aside)
        store.write_text("")
        yield
        store.unlink()
        if aside.exists():
            aside.rename(store)

    def kill(sweep: Content, record: Content) -> None:
        """The process ends when it has written the record's files, and would replace the table."""
        killed = patch.object(csv_files, "write_table", side_effect=KeyboardInterrupt)
        with killed, pytest.raises(KeyboardInterrupt):
            CsvTracker(store).keep(sweep, record)

    def read_row(row: dict[str, str]) -> Kept:
        curves = defaultdict[str, list[tuple[int, float]]](list)
        samples = (store / "content" / row["samples"]).read_text(encoding="utf-8").splitlines()[1:]
        for name, step, _, value in csv.reader(samples):
            curves[name].append((int(step), float(value)))
        artifacts = {
            name: (store / "content" / content).read_bytes() for name, content in json.loads(row["artifacts"]).items()
        }
        identity = row["sweep"], row["kind"], row["key"], row["mix"]
        ended = datetime.fromisoformat(row["ended"])
        params, tags = json.loads(row["params"]), json.loads(row["tags"])
        return Kept(identity, State(row["state"]), ended, params, tags, dict(curves), artifacts)

    files = directory / "files"
    files.mkdir()
    return Bench(
        lambda: CsvTracker(store), lambda: list(map(read_row, read_table(table).values())), outage, kill, files
    )


@every_check
def test_csv_files_keep_the_contract(check: Check, tmp_path: Path) -> None:
    check(csv_bench(tmp_path))


@every_check
def test_json_lines_keep_the_contract(check: Check, tmp_path: Path) -> None:
    check(lines_bench(tmp_path))


@every_check
def test_mlflow_keeps_the_contract(check: Check, tmp_path: Path, empty: Path) -> None:
    check(mlflow_bench(empty, tmp_path))


class WritesAtTheEnd(JsonLinesTracker):
    """It holds records back until the sweep ends."""

    def keep(self, sweep: Content, record: Content) -> None:
        return


class DropsCurves(JsonLinesTracker):
    """It keeps the last value of each metric."""

    def keep(self, sweep: Content, record: Content) -> None:
        last = {sample.name: sample for sample in record.samples}
        super().keep(sweep, replace(record, samples=tuple(last.values())))


class DropsTexts(JsonLinesTracker):
    """It keeps numbers only."""

    def keep(self, sweep: Content, record: Content) -> None:
        super().keep(sweep, replace(record, texts={}))


class KeepsFailuresAsResults(JsonLinesTracker):
    """A failed run is a finished one to it."""

    def keep(self, sweep: Content, record: Content) -> None:
        super().keep(sweep, replace(record, tags=record.tags | {"status": "finished"}))


class WritesAgain(JsonLinesTracker):
    """It does not look whether it has a record."""

    def _append(self, record: Content, state: State) -> None:
        self._written.pop(record.identity, None)
        super()._append(record, state)


class KnowsOnlyItsOwn(JsonLinesTracker):
    """It does not read what another process has written."""

    def _read(self, path: Path) -> None:
        self._bytes = path.stat().st_size if path.exists() else 0


class KeepsTheFirst(JsonLinesTracker):
    """It knows a record by its identity alone."""

    def _append(self, record: Content, state: State) -> None:
        if record.tags["kind"] == "sweep" or record.identity not in self._written:
            super()._append(record, state)


class MergesMixes(JsonLinesTracker):
    """It knows a run by its key alone."""

    def keep(self, sweep: Content, record: Content) -> None:
        super().keep(sweep, replace(record, params=record.params | {"mix": "any"}))


class OneSweepAFile(JsonLinesTracker):
    """It deletes the records of earlier sweeps."""

    def begin(self, sweep: Content) -> None:
        self._path.unlink(missing_ok=True)
        super().begin(sweep)


class NeedsTheBegin(JsonLinesTracker):
    """It records runs of sweeps that it has begun itself, and no others."""

    def keep(self, sweep: Content, record: Content) -> None:
        assert sweep.identity in self._written, "begin was not called"
        super().keep(sweep, record)


class StaysEnded(JsonLinesTracker):
    """It does not show that a sweep runs again."""

    def begin(self, sweep: Content) -> None:
        with self._locked():
            if sweep.identity not in self._written:
                self._append(sweep, State.RUNNING)


class ForgetsTheQuestion(JsonLinesTracker):
    """Its record of an answer takes the place of all that it had of the sweep."""

    def end(self, sweep: Content, answer: Content, state: State) -> None:
        super().end(replace(sweep, params={}, texts={}), answer, state)


class IgnoresFigures(JsonLinesTracker):
    """It writes an answer once, and not again when it has been drawn."""

    def _append(self, record: Content, state: State) -> None:
        if not self._written.get(record.identity, "").startswith(f"{state} {record.digest}"):
            super()._append(record, state)


class SwallowsErrors(JsonLinesTracker):
    """It says nothing when the store fails."""

    def keep(self, sweep: Content, record: Content) -> None:
        with suppress(StoreError):
            super().keep(sweep, record)


class RaisesItsOwn(JsonLinesTracker):
    """It lets the store's errors through."""

    def begin(self, sweep: Content) -> None:
        try:
            super().begin(sweep)
        except StoreError as error:
            raise OSError(str(error)) from error


class BelievesItWrote(JsonLinesTracker):
    """It notes a record before it is written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._noted: set[tuple[str, str, str, str]] = set()

    def keep(self, sweep: Content, record: Content) -> None:
        if record.identity not in self._noted:
            self._noted.add(record.identity)
            super().keep(sweep, record)


class DrawsEveryTime(JsonLinesTracker):
    """It draws before it looks whether it has the record, and keeps what it drew."""

    def keep(self, sweep: Content, record: Content) -> None:
        pictures = record.draw(self._path.parent)
        super().keep(sweep, replace(record, files={**record.files, **pictures}))


class ContinuesHalfALine(JsonLinesTracker):
    """It appends to what a crash has left."""

    def _read(self, path: Path) -> None:
        whole = path.read_bytes() if path.exists() else b""
        super()._read(path)
        path.write_bytes(whole)
        self._bytes = len(whole)


BROKEN = (
    (WritesAtTheEnd, "keeps_every_part"),
    (DropsCurves, "keeps_every_part"),
    (DropsTexts, "keeps_every_part"),
    (KeepsFailuresAsResults, "tells_a_failed_run"),
    (WritesAgain, "writes_a_record_once"),
    (KnowsOnlyItsOwn, "writes_a_record_once"),
    (KeepsTheFirst, "replaces_what_has_changed"),
    (MergesMixes, "keeps_mixes_apart"),
    (OneSweepAFile, "keeps_sweeps_apart"),
    (NeedsTheBegin, "takes_any_order"),
    (StaysEnded, "follows_the_state"),
    (ForgetsTheQuestion, "follows_the_state"),
    (IgnoresFigures, "follows_the_state"),
    (SwallowsErrors, "fails_with_a_store_error"),
    (RaisesItsOwn, "fails_with_a_store_error"),
    (BelievesItWrote, "fails_with_a_store_error"),
    (ContinuesHalfALine, "completes_what_a_crash_cut_off"),
    (DrawsEveryTime, "draws_only_what_it_writes"),
)
"""Trackers with one bug each, and the check that finds it."""


@pytest.mark.parametrize(("tracker", "name"), BROKEN, ids=[tracker.__name__ for tracker, _ in BROKEN])
def test_the_suite_finds_a_broken_tracker(tracker: type[JsonLinesTracker], name: str, tmp_path: Path) -> None:
    [check] = [check for check in CHECKS if check.__name__ == name]
    with pytest.raises((AssertionError, pytest.fail.Exception, OSError, KeyError, ValueError)):
        check(lines_bench(tmp_path, tracker))


def test_a_full_disk_leaves_no_part_of_a_line(tmp_path: Path) -> None:
    tracker = JsonLinesTracker(tmp_path / RUNS)
    tracker.keep(sweep_record(), run_record("k1"))
    before = (tmp_path / RUNS).read_bytes()
    with patch("os.fsync", side_effect=OSError(28, "No space left on device")), pytest.raises(StoreError, match=RUNS):
        tracker.keep(sweep_record(), run_record("k2"))
    assert (tmp_path / RUNS).read_bytes() == before
    tracker.keep(sweep_record(), run_record("k2"))
    assert len(read_lines(tmp_path / RUNS)) == 3


def test_lines_that_somebody_damaged_are_written_again(tmp_path: Path) -> None:
    path = tmp_path / RUNS
    JsonLinesTracker(path).keep(sweep_record(), run_record("k1"))
    path.write_bytes(b'[1, 2]\n{"sweep": {}, "kind": 1, "key": [], "mix": "", "digest": 3}\nnull\n\xff\n{}\n')
    JsonLinesTracker(path).keep(sweep_record(), run_record("k1"))
    lines = path.read_bytes().splitlines()
    assert [json.loads(line)["kind"] for line in lines[5:]] == ["sweep", "run"]


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("precious")
    (tmp_path / RUNS).symlink_to(target)
    assert foreign_things(Home(tmp_path)) == [f"{tmp_path / RUNS} is a link"]
    JsonLinesTracker(tmp_path / RUNS).keep(sweep_record(), run_record())
    assert target.read_text() == "precious"
    assert len(read_lines(tmp_path / RUNS)) == 2


def test_a_deleted_sweep_leaves_no_lines(tmp_path: Path) -> None:
    path = tmp_path / RUNS
    tracker = JsonLinesTracker(path)
    for sweep_id in (FIRST, SECOND):
        tracker.keep(sweep_record(sweep_id), run_record(sweep_id=sweep_id))
    assert remove_lines(path, FIRST) == 2
    assert {kept.identity[0] for kept in read_lines(path)} == {SECOND}
    assert remove_lines(path, FIRST) == remove_lines(tmp_path / "missing", FIRST) == 0
    tracker.keep(sweep_record(), run_record())
    assert defaultdict(int, {kept.identity[0]: 1 for kept in read_lines(path)}) == {FIRST: 1, SECOND: 1}


def test_a_line_says_when_a_run_was_trained(tmp_path: Path) -> None:
    JsonLinesTracker(tmp_path / RUNS).keep(sweep_record(), run_record())
    values = json.loads((tmp_path / RUNS).read_bytes().splitlines()[-1])
    took = datetime.fromisoformat(values["ended"]) - datetime.fromisoformat(values["started"])
    assert took == timedelta(seconds=60)
    assert values["metrics"] == {"test_accuracy/add": 0.5}
