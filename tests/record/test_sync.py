"""A store rebuilt from the journals alone equals the first one, except for MLflow's own IDs."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from orchestrator.history import foreign_time
from orchestrator.history.export_archive import export_home
from orchestrator.history.import_archive import import_home
from orchestrator.home.directories import DATABASE, Home
from orchestrator.home.ownership import trust_home
from orchestrator.record.inspection import foreign_records
from orchestrator.record.mlflow_store import URI_VARIABLE
from orchestrator.record.mlflow_tracker import MlflowTracker
from orchestrator.record.sync import rebuild
from orchestrator.record.tracker import Content, StoreError
from orchestrator.sweep import answering
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.several_sweeps import run_sweep
from orchestrator.system import reading_time
from orchestrator.system.errors import UserError
from tests.catalog.fabricated import outcome_of, runs_of, write_sweep
from tests.cli.program import Program, command, separate
from tests.copies import own_copy
from tests.record.hostile_database import leave_journal
from tests.record.servers import free_port
from tests.sweep.sweeps import interrupt_after, quiet, spec
from trainables.base import Evaluation

SIZES = [16, 64]
PARENT = "mlflow.parentRunId"


@pytest.fixture(scope="module", name="swept")
def swept_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a finished sweep and an interrupted one."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answering, "INTERRUPTED_TIMEOUT_S", 120.0)
        run_sweep(spec(sizes=SIZES), RunOptions(home=home, engine="local"), quiet())
        interrupt_after(5, patch)
        with pytest.raises(KeyboardInterrupt):
            run_sweep(spec(sizes=SIZES, seed=7), RunOptions(home=home, engine="local"), quiet())
    return home


def everything(home: Path) -> dict[str, Any]:
    """Return the contents of a store, with records named by their tags.

    The store is copied first, because MLflow keeps files open that a process has read, even after they are moved."""
    copy = Path(tempfile.mkdtemp(dir=home.parent)) / DATABASE
    shutil.copyfile(home / DATABASE, copy)
    client = MlflowClient(f"sqlite:///{copy}")
    content: dict[str, Any] = {}
    for experiment in client.search_experiments():
        if experiment.name == "Default":
            continue
        content[experiment.name] = experiment.tags
        runs = client.search_runs([experiment.experiment_id], max_results=1000)
        names = {run.info.run_id: name_of(run) for run in runs}
        assert len(set(names.values())) == len(runs)
        for run_id, run in zip(names, runs, strict=True):
            histories = {name: client.get_metric_history(run_id, name) for name in run.data.metrics}
            files = [Path(client.download_artifacts(run_id, file.path)) for file in client.list_artifacts(run_id)]
            content[names[run_id]] = {
                "tags": run.data.tags | {PARENT: names.get(run.data.tags.get(PARENT, ""))},
                "info": (run.info.run_name, run.info.status, run.info.start_time, run.info.end_time),
                "params": run.data.params,
                "metrics": {
                    name: sorted((metric.step, metric.timestamp, metric.value) for metric in history)
                    for name, history in histories.items()
                },
                "artifacts": {path.name: path.read_bytes() for path in files if path.is_file()},
            }
    return content


def name_of(run: Run) -> str:
    tags = run.data.tags
    return f"{tags['sweep']} {tags['kind']} {tags.get('mix', '')}{tags.get('run_key', '')}"


@pytest.fixture(scope="module", name="first")
def first_content(swept: Path) -> dict[str, Any]:
    return everything(swept)


def test_a_rebuilt_store_equals_the_first(swept: Path, first: dict[str, Any]) -> None:
    assert "former-store-" in separate("sync", "--rebuild", "--home", swept).succeeded()
    again = everything(swept)
    assert again.keys() == first.keys()
    for name, content in first.items():
        for part, value in content.items():
            assert again[name][part] == value, f"{name}: {part}"
    kinds = [name.split()[1] for name in first if " " in name]
    assert kinds.count("sweep") == 2
    assert kinds.count("run") > 6
    assert kinds.count("transition") >= 3
    assert {content["info"][1] for name, content in first.items() if " sweep " in name} == {"FINISHED", "KILLED"}


def test_a_store_is_not_rebuilt_while_a_sweep_is_running(swept: Path) -> None:
    before = sorted(path.name for path in swept.iterdir())
    with Home(swept).sweep(Home(swept).sweep_ids()[-1]).driving(), pytest.raises(UserError, match="another"):
        rebuild(swept, quiet())
    assert sorted(path.name for path in swept.iterdir()) == before


def test_the_store_of_a_server_is_not_replaced(swept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URI_VARIABLE, "http://someone:secret@example.invalid:5000")
    with pytest.raises(UserError, match="empty database") as refused:
        rebuild(swept, quiet())
    assert "secret" not in str(refused.value)


def test_a_missing_store_is_recreated_without_sweeps_that_are_running(
    swept: Path, first: dict[str, Any], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    for folder in ("sweeps", "runs"):
        shutil.copytree(swept / folder, home / folder)
    trust_home(home)
    second = Home(home).sweep_ids()[1]
    with Home(home).sweep(second).driving():
        output = command("sync", "--home", home).succeeded()
    assert f"{second} is running, so its own process records it" in output
    assert command("sync", "--home", home).code == 0
    assert everything(home).keys() == first.keys()


def test_settings_and_axes_of_any_name_are_recorded(tmp_path: Path) -> None:
    sweep = write_sweep(Home(tmp_path), spec(family="tests.families:NamedFamily", sizes=SIZES, seeds=1))
    command("sync", "--home", tmp_path).succeeded()
    content = everything(tmp_path)
    run = next(record for name, record in content.items() if name.startswith(f"{sweep.id} run "))
    assert run["params"]["target"] == "add"
    assert run["params"]["settings.target"] == "wall"
    assert run["params"]["budget"] == "3"
    assert run["params"]["width _units_"] in map(str, SIZES)
    assert content[f"{sweep.id} transition add"]["params"]["settings.verdict"] == "none"


def test_a_sweep_that_cannot_be_recorded_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad, newer = (write_sweep(Home(tmp_path), spec(sizes=[16], seeds=1, seed=seed)) for seed in (0, 1, 2))
    begin = MlflowTracker.begin

    def fail(tracker: MlflowTracker, sweep: Content) -> None:
        if sweep.sweep == bad.id:
            raise StoreError("the experiment belongs to another user")
        begin(tracker, sweep)

    monkeypatch.setattr(MlflowTracker, "begin", fail)
    ended = command("sync", "--home", tmp_path)
    assert ended.code == 1
    assert "1 of 3 sweeps cannot be recorded" in ended.err
    assert f"{bad.id}: the experiment belongs to another user" in ended.err
    assert ended.err.rstrip().endswith("The others are recorded.")
    recorded = {name.split()[0] for name in everything(tmp_path)}
    assert {good.id, newer.id} <= recorded
    assert bad.id not in recorded


def test_others_are_said_to_be_recorded_only_if_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps = [write_sweep(Home(tmp_path), spec(sizes=[16], seeds=1, seed=seed)) for seed in (0, 1)]
    monkeypatch.setattr(MlflowTracker, "begin", Mock(side_effect=StoreError("the experiment belongs to another user")))
    for count in (2, 1):
        ended = command("sync", "--home", tmp_path)
        assert ended.code == 1
        assert f"{count} of {count} sweeps cannot be recorded" in ended.err
        assert ended.err.rstrip().endswith("the experiment belongs to another user")
        shutil.rmtree(sweeps.pop().files.directory)


@pytest.mark.parametrize("points", [1, 2000], ids=["many runs", "long curves"])
def test_a_sweep_of_others_that_takes_long_to_record_does_not_stop_the_others(
    points: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small archive may contain learning curves with a million values."""
    home, wanted = Home(tmp_path), spec(mixes=["add"], sizes=[16, 32, 64, 96], seeds=1)
    ended = [outcome_of(config) for config in runs_of(wanted)]
    long = {
        place: replace(one, curve=tuple(Evaluation(step, 1.0, one.accuracy) for step in range(1, points + 1)))
        for place, one in enumerate(ended)
    }
    later, slow, own = (write_sweep(home, wanted, outcomes=long) for _ in range(3))
    for sweep in (later, slow):
        sweep.files.imported.touch()
    for age, sweep in enumerate((own, slow, later)):
        os.utime(sweep.files.journal, (time.time() - age, time.time() - age))
    passed_s, log_batch = 0.0, MlflowClient.log_batch

    def log_slowly(*arguments: Any, **named: Any) -> Any:
        nonlocal passed_s
        passed_s += 25.0
        return log_batch(*arguments, **named)

    clock = SimpleNamespace(monotonic=lambda: passed_s)
    monkeypatch.setattr(MlflowClient, "log_batch", log_slowly)
    for module in (reading_time, foreign_time):
        monkeypatch.setattr(module, "time", clock)
    synced = command("sync", "--home", tmp_path)
    assert (synced.code, synced.out) == (1, f"{own.id}: 4 runs in sqlite:///{tmp_path / DATABASE}\n")
    message = " ".join(synced.err.split())
    assert "2 of 3 sweeps cannot be recorded" in message
    assert f"{slow.id} (imported) cannot be read: reading what others may have written took more than 60 s." in message
    before = "it was not read, because sweeps of others before it took more than 20 s. Repeat `sync` to record it"
    assert f"{later.id} (imported) cannot be read: {before}" in message
    content = {name: record["info"][1] for name, record in everything(tmp_path).items() if name != "logistic"}
    assert sum(name.startswith(f"{own.id} run ") for name in content) == 4
    states = [state for name, state in content.items() if name.startswith(f"{slow.id} (imported) run ")]
    assert states == (["FINISHED"] * 3 if points == 1 else ["RUNNING"])
    assert content[f"{slow.id} (imported) sweep "] == "FINISHED"
    assert not any(name.startswith(later.id) for name in content)


def test_a_database_with_another_name_is_not_written(swept: Path, tmp_path: Path) -> None:
    """As in a home that was copied with ``cp -al``: what is recorded there would be recorded in the original, too."""
    copied = tmp_path / "copied"
    subprocess.run(["cp", "-al", swept, copied], check=True)
    trust_home(copied)
    before = (swept / DATABASE).read_bytes()
    for words in (["sync"], ["ui", "--port", free_port()]):
        done = command(*words, "--home", copied)
        assert (done.code, "is a hard link" in done.err) == (1, True), done
        assert "sync --rebuild" in done.err
    command("sync", "--rebuild", "--home", copied).succeeded()
    assert (copied / DATABASE).stat().st_nlink == 1
    assert (swept / DATABASE).read_bytes() == before
    command("sync", "--home", copied).succeeded()


def test_without_sweeps_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no sweep yet"):
        rebuild(tmp_path, quiet())
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def recorded(swept: Path, tmp_path: Path) -> Path:
    """A copy of a home with its record, next to a directory that nothing may touch."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "file").write_text("mine")
    return own_copy(swept, tmp_path / "home")


def metrics_of(content: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics of every record. MLflow looks for the artifacts of a copied home in the original."""
    return {name: record["metrics"] for name, record in content.items() if "metrics" in record}


def test_a_record_of_an_earlier_version_gets_what_is_new(recorded: Path, first: dict[str, Any]) -> None:
    """An earlier version recorded other metrics, so another digest, and no views."""
    sql(
        recorded,
        *(
            f"DELETE FROM {table} WHERE key LIKE '%midpoint%' OR key LIKE 'slope%' OR key = 'interval'"
            for table in ("metrics", "latest_metrics")
        ),
        "UPDATE tags SET value = '0' WHERE key = 'digest' AND run_uuid IN "
        "(SELECT run_uuid FROM tags WHERE key = 'kind' AND value = 'transition')",
        "DELETE FROM experiment_tags WHERE key LIKE 'mlflow.sharedViewState.%'",
    )
    assert metrics_of(everything(recorded)) != metrics_of(first)
    command("sync", "--home", recorded).succeeded()
    again = everything(recorded)
    assert metrics_of(again) == metrics_of(first)
    assert again["logistic"] == first["logistic"]
    transitions = [record["metrics"] for name, record in first.items() if " transition " in name]
    assert any({"midpoint", "midpoint_low", "slope_high", "interval"} <= metrics.keys() for metrics in transitions)
    assert len([name for name in first["logistic"] if name.startswith("mlflow.sharedViewState.")]) == 2


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


def sql(home: Path, *statements: str) -> None:
    with closing(sqlite3.connect(home / DATABASE)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize("run_id", ["{victim}", "../../../victim"])
def test_an_id_in_the_record_that_leads_elsewhere_is_refused(run_id: str, recorded: Path, tmp_path: Path) -> None:
    sweep_id = Home(recorded).sweep_ids()[0]
    evil = run_id.format(victim=tmp_path / "victim")
    tables = ("tags", "params", "metrics", "latest_metrics")
    [(old,)] = sqlite3.connect(recorded / DATABASE).execute(
        f"SELECT run_uuid FROM tags WHERE key = 'kind' AND value = 'sweep' AND run_uuid IN "
        f"(SELECT run_uuid FROM tags WHERE key = 'sweep' AND value = '{sweep_id}')"
    )
    sql(recorded, *(f"UPDATE {table} SET run_uuid = '{evil}' WHERE run_uuid = '{old}'" for table in ("runs", *tables)))
    for words in (("sync",), ("rm", sweep_id, "--yes")):
        ended = command(*words, "--home", recorded)
        assert (ended.code, "is not the id of a record" in ended.err) == (1, True), ended
        assert "sync --rebuild" in ended.err
        assert (tmp_path / "victim" / "file").read_text() == "mine"
        assert len(list((tmp_path / "victim").iterdir())) == 1
    assert any("has a record with the id" in thing for thing in foreign_records(recorded / DATABASE))
    assert separate("sync", "--rebuild", "--home", recorded).code == 0  # This process knows the old store.
    assert separate("rm", sweep_id, "--yes", "--home", recorded).code == 0


@pytest.mark.parametrize("link", ["artifacts", "artifacts/logistic"])
def test_a_link_among_artifacts_is_not_followed(link: str, recorded: Path, tmp_path: Path) -> None:
    sweep_id = Home(recorded).sweep_ids()[0]
    (recorded / link).rename(tmp_path / "moved")
    (recorded / link).symlink_to(tmp_path / "moved")
    before = sorted(tmp_path.joinpath("moved").rglob("*"))
    ended = command("rm", sweep_id, "--yes", "--home", recorded)
    assert (ended.code, "is a link" in ended.err) == (1, True), ended
    assert sorted(tmp_path.joinpath("moved").rglob("*")) == before


def leave_hostile_journal(home: Path, victim: Path) -> None:
    leave_journal(home / DATABASE, victim / "file")


def link_log(home: Path, victim: Path) -> None:
    (home / f"{DATABASE}-wal").symlink_to(victim / "file")


def leave_pipe(home: Path, victim: Path) -> None:
    os.mkfifo(home / f"{DATABASE}-journal")


@pytest.mark.parametrize("leave", [leave_hostile_journal, link_log, leave_pipe])
def test_files_next_to_the_record_do_not_lead_elsewhere(
    leave: Callable[[Path, Path], None], recorded: Path, tmp_path: Path
) -> None:
    """SQLite deletes the file that a journal names."""
    leave(recorded, tmp_path / "victim")
    assert any(f"{DATABASE} cannot be read" in thing for thing in foreign_records(recorded / DATABASE))
    for words in (("sync",), ("rm", Home(recorded).sweep_ids()[0], "--yes"), ("ui",)):
        ended = command(*words, "--home", recorded)
        assert (ended.code, "sync --rebuild" in ended.err, "Traceback" in ended.err) == (1, True, False), ended
        assert (tmp_path / "victim" / "file").read_text() == "mine"
    assert command("sync", "--rebuild", "--home", recorded).code == 0
    assert (tmp_path / "victim" / "file").read_text() == "mine"


OWN = ("sqlite_of_mlflow", "sqlite_stat1")
"""Names that SQLite refuses in statements, but not in its table of the schema."""


def write_schema(kind: str, name: str, definition: str) -> str:
    """Return a statement that adds to the table of the schema, as if the file had been edited."""
    values = f"'{kind}', '{name}', 'runs', 0, 'CREATE {kind.upper()} {name} {definition}'"
    return f"INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql) VALUES ({values})"


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE tags RENAME TO other", f"CREATE VIEW tags AS SELECT other.* FROM other, ({ENDLESS})"),
        (f"CREATE TRIGGER x BEFORE UPDATE ON runs BEGIN INSERT INTO tags SELECT i, i, i FROM ({ENDLESS}); END",),
        ("ALTER TABLE runs ADD COLUMN x TEXT CHECK (length(hex(zeroblob(400000000))) > 0)",),
        *(
            (
                "PRAGMA writable_schema = ON",
                write_schema("trigger", name, f"BEFORE UPDATE ON runs BEGIN SELECT i FROM ({ENDLESS}); END"),
            )
            for name in OWN
        ),
    ],
)
def test_a_record_with_views_or_triggers_of_somebody_else_is_refused(
    statements: tuple[str, ...], recorded: Path
) -> None:
    sql(recorded, "PRAGMA legacy_alter_table = ON", *statements)
    for words in (("sync",), ("rm", Home(recorded).sweep_ids()[0], "--yes"), ("ui",)):
        ended = command(*words, "--home", recorded)
        assert (ended.code, "has tables that MLflow" in ended.err) == (1, True), ended
    assert command("sync", "--rebuild", "--home", recorded).code == 0


def test_a_link_in_the_place_of_the_lock_is_replaced(recorded: Path, tmp_path: Path) -> None:
    (recorded / DATABASE).unlink()
    (recorded / f".{DATABASE}.lock").unlink(missing_ok=True)
    (recorded / f".{DATABASE}.lock").symlink_to(tmp_path / "victim" / "file")
    command("sync", "--home", recorded).succeeded()
    assert (tmp_path / "victim" / "file").read_text() == "mine"


def test_a_sweep_deleted_in_mlflow_is_restored_with_its_nested_records(recorded: Path) -> None:
    """As on MLflow's page, which deletes the records of a sweep but not those nested in it."""
    before = of_home(recorded)
    sweep_id = Home(recorded).sweep_ids()[0]
    client = MlflowClient(f"sqlite:///{recorded / DATABASE}")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    runs = client.search_runs(experiments, f"tags.sweep = '{sweep_id}'", max_results=1000)
    [parent] = [run for run in runs if run.data.tags["kind"] == "sweep"]
    client.delete_run(parent.info.run_id)
    command("sync", "--home", recorded).succeeded()
    assert of_home(recorded) == before
    assert client.get_run(parent.info.run_id).info.lifecycle_stage == "active"


def of_home(home: Path) -> set[tuple[str, str, str]]:
    """Return the id, the parent and the name of every active record."""
    client = MlflowClient(f"sqlite:///{home / DATABASE}")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    runs = client.search_runs(experiments, "", max_results=1000)
    return {(run.info.run_id, run.data.tags.get(PARENT, ""), run.info.run_name) for run in runs}


OTHER_REVISIONS = {"older": "0a8213491aaa", "unknown": "ffffffffffff"}


@pytest.mark.parametrize("name", ["sync", "ui"])
@pytest.mark.parametrize("which", OTHER_REVISIONS)
def test_a_database_of_another_version_of_mlflow_is_named_with_the_remedy(
    which: str, name: str, recorded: Path
) -> None:
    revision = OTHER_REVISIONS[which]
    sql(recorded, f"UPDATE alembic_version SET version_num = '{revision}'")
    ended = command(name, "--home", recorded)
    assert (ended.code, ended.out) == (1, "")
    assert f"has the revision {revision}, but that of MLflow {mlflow.__version__} is " in ended.err
    assert "`sync --rebuild` makes a new one from the home" in ended.err
    [line] = foreign_records(recorded / DATABASE)
    assert f"has the revision {revision}, but" in line
    assert separate("sync", "--rebuild", "--home", recorded).code == 0  # This process knows the old store.
    assert foreign_records(recorded / DATABASE) == []


def test_a_named_database_of_another_version_of_mlflow_is_upgraded_by_mlflow(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may use it, so this program makes no new one."""
    sql(recorded, "UPDATE alembic_version SET version_num = '0a8213491aaa'")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{recorded / DATABASE}")
    ended = command("sync", "--home", recorded)
    assert (ended.code, "run `mlflow db upgrade`" in ended.err, "--rebuild" in ended.err) == (1, True, False), ended


def answers_in(place: Path) -> dict[str, str]:
    """Return the answer of each sweep in a store of MLflow, by its id there."""
    client = MlflowClient(f"sqlite:///{place}")
    experiments = [one.experiment_id for one in client.search_experiments()]
    records = client.search_runs(experiments, "tags.kind = 'sweep'")
    return {record.data.tags["sweep"]: record.data.tags["answer"] for record in records}


def test_records_of_an_imported_sweep_say_so_and_leave_those_of_its_author(
    tmp_path: Path, run: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both homes record in the same store, and the archive has another answer under the same id."""
    theirs, home, place = Home(tmp_path / "theirs"), Home(tmp_path / "home"), tmp_path / "team.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{place}")
    own = write_sweep(theirs, runs=runs_of(spec())[:8])
    run("sync", "--home", theirs.root).succeeded()
    before = answers_in(place)
    assert list(before) == [own.id]
    export_home(theirs, tmp_path / "theirs.tar.gz")
    import_home(home, tmp_path / "theirs.tar.gz", pytest.fail)
    run("sync", "--home", home.root).succeeded()
    with_imported = before | {f"{own.id} (imported)": before[own.id]}
    assert answers_in(place) == with_imported
    place_of = (own.id, "--home", home.root)
    status = json.loads(run("status", *place_of, "--json").succeeded())
    assert (status["imported"], status["imported_runs"]) == (True, 0)
    run("export", *place_of, "--output", tmp_path / "tables").succeeded()
    table = (tmp_path / "tables" / "runs.csv").read_text().splitlines()
    assert all(line.startswith(f"{own.id} (imported),") for line in table[1:])
    assert f"{own.id} (imported)" in run("logs", status["runs"][0]["key"], "--home", home.root).succeeded()
    removed = run("rm", own.id, "--yes", "--home", home.root)
    assert removed.code == 0
    assert "others may have made them" in removed.err  # A colleague could have imported the sweep and recorded it.
    assert answers_in(place) == with_imported
