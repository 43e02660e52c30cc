"""Every tracker keeps the contract of trackers, and the suite finds trackers that do not."""

from __future__ import annotations

import csv
import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.exceptions import MlflowException

from orchestrator.home.directories import DATABASE, LINES, Home
from orchestrator.home.inspection import foreign_things
from orchestrator.jobs.state import State
from orchestrator.record.json_lines import JsonLinesTracker, delete_lines
from orchestrator.record.mlflow_store import choose_store
from orchestrator.record.mlflow_tracker import ENDINGS, NOTE_TAG, MlflowTracker
from orchestrator.record.tracker import Content, StoreError
from tests.record import csv_files
from tests.record.broken_trackers import BROKEN
from tests.record.csv_files import CsvTracker, read_table
from tests.record.suite import CHECKS, FIRST, SECOND, Bench, Kept, run_record, sweep_record

Check = Callable[[Bench], None]
every_check = pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])


def lines_bench(directory: Path, tracker: type[JsonLinesTracker] = JsonLinesTracker) -> Bench:
    """Return the bench of a file of JSON lines."""
    path = directory / LINES

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
    return Bench(str(path), partial(tracker, path), lambda: read_lines(path), outage, kill, files)


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
        newest[identity] = Kept(
            identity,
            **{name: values[name] for name in ("name", "group", "note", "params", "tags")},
            state=State(values["state"]),
            started=datetime.fromisoformat(values["started"]),
            ended=datetime.fromisoformat(values["ended"]),
            curves=curves,
            artifacts=artifacts,
        )
    return list(newest.values())


def mlflow_bench(empty: Path, directory: Path) -> Bench:
    """Return the bench of a real MLflow store."""
    shutil.copyfile(empty, directory / DATABASE)
    store = choose_store(directory, {})
    client = MlflowClient(store.uri)
    states = {status: state for state, status in ENDINGS.items()} | {"RUNNING": State.RUNNING}

    def read_run(run: Run) -> Kept:
        tags = run.data.tags
        histories = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
        curves = {
            name: sorted((metric.step, metric.value) for metric in history) for name, history in histories.items()
        }
        folder = Path(run.info.artifact_uri.removeprefix("file://"))
        paths = [path for path in folder.rglob("*") if path.is_file()]
        mix = "" if tags["kind"] == "sweep" else run.data.params.get("mix", "")
        return Kept(
            identity=(tags["sweep"], tags["kind"], tags.get("run_key", ""), mix),
            name=run.info.run_name,
            group=client.get_experiment(run.info.experiment_id).name,
            note=tags[NOTE_TAG],
            state=states[run.info.status],
            started=datetime.fromtimestamp(run.info.start_time / 1000, UTC),
            ended=datetime.fromtimestamp((run.info.end_time or run.info.start_time) / 1000, UTC),
            params=run.data.params,
            tags=tags,
            curves=curves,
            artifacts={str(path.relative_to(folder)): path.read_bytes() for path in paths},
        )

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
    return Bench(store.shown, partial(MlflowTracker, store), read, outage, kill, files)


def csv_bench(directory: Path, tracker: type[CsvTracker] = CsvTracker) -> Bench:
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
        ended = datetime.fromisoformat(row["ended"])
        return Kept(
            identity=(row["sweep"], row["kind"], row["key"], row["mix"]),
            name=row["name"],
            group=row["group"],
            note=row["note"],
            state=State(row["state"]),
            started=ended - timedelta(seconds=float(row["seconds"])),
            ended=ended,
            params=json.loads(row["params"]),
            tags=json.loads(row["tags"]),
            curves=dict(curves),
            artifacts=artifacts,
        )

    files = directory / "files"
    files.mkdir()
    return Bench(
        str(store),
        partial(tracker, store),
        lambda: list(map(read_row, read_table(table).values())),
        outage,
        kill,
        files,
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


@pytest.mark.parametrize(("tracker", "name"), BROKEN, ids=[tracker.__name__ for tracker, _ in BROKEN])
def test_the_suite_finds_a_broken_tracker(
    tracker: type[JsonLinesTracker] | type[CsvTracker], name: str, tmp_path: Path
) -> None:
    [check] = [check for check in CHECKS if check.__name__ == name]
    bench = csv_bench(tmp_path, tracker) if issubclass(tracker, CsvTracker) else lines_bench(tmp_path, tracker)
    with pytest.raises((AssertionError, pytest.fail.Exception, OSError, KeyError, ValueError)):
        check(bench)


def test_a_full_disk_leaves_no_part_of_a_line(tmp_path: Path) -> None:
    tracker = JsonLinesTracker(tmp_path / LINES)
    tracker.keep(sweep_record(), run_record("k1"))
    before = (tmp_path / LINES).read_bytes()
    with patch("os.fsync", side_effect=OSError(28, "No space left on device")), pytest.raises(StoreError, match=LINES):
        tracker.keep(sweep_record(), run_record("k2"))
    assert (tmp_path / LINES).read_bytes() == before
    tracker.keep(sweep_record(), run_record("k2"))
    assert len(read_lines(tmp_path / LINES)) == 3


def test_lines_that_somebody_damaged_are_written_again(tmp_path: Path) -> None:
    path = tmp_path / LINES
    JsonLinesTracker(path).keep(sweep_record(), run_record("k1"))
    path.write_bytes(b'[1, 2]\n{"sweep": {}, "kind": 1, "key": [], "mix": "", "digest": 3}\nnull\n\xff\n{}\n')
    JsonLinesTracker(path).keep(sweep_record(), run_record("k1"))
    lines = path.read_bytes().splitlines()
    assert [json.loads(line)["kind"] for line in lines[5:]] == ["sweep", "run"]


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("precious")
    (tmp_path / LINES).symlink_to(target)
    assert foreign_things(Home(tmp_path)) == [f"{tmp_path / LINES} is a link"]
    JsonLinesTracker(tmp_path / LINES).keep(sweep_record(), run_record())
    assert target.read_text() == "precious"
    assert len(read_lines(tmp_path / LINES)) == 2


def test_a_deleted_sweep_leaves_no_lines(tmp_path: Path) -> None:
    path = tmp_path / LINES
    tracker = JsonLinesTracker(path)
    for sweep_id in (FIRST, SECOND):
        tracker.keep(sweep_record(sweep_id), run_record(sweep_id=sweep_id))
    assert delete_lines(path, FIRST) == 2
    assert {kept.identity[0] for kept in read_lines(path)} == {SECOND}
    assert delete_lines(path, FIRST) == delete_lines(tmp_path / "missing", FIRST) == 0
    tracker.keep(sweep_record(), run_record())
    assert defaultdict(int, {kept.identity[0]: 1 for kept in read_lines(path)}) == {FIRST: 1, SECOND: 1}


def test_a_line_says_when_a_run_was_trained(tmp_path: Path) -> None:
    JsonLinesTracker(tmp_path / LINES).keep(sweep_record(), run_record())
    values = json.loads((tmp_path / LINES).read_bytes().splitlines()[-1])
    took = datetime.fromisoformat(values["ended"]) - datetime.fromisoformat(values["started"])
    assert took == timedelta(seconds=60)
    assert values["metrics"] == {"test_accuracy/add": 0.5}
