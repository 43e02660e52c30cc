"""Another user who owns a home replaces its files by links while a command of ours checks and uses them."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import tarfile
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from orchestrator.catalog import export
from orchestrator.history import archive_members, export_archive, import_archive
from orchestrator.history.export_archive import export_home
from orchestrator.history.import_archive import import_home
from orchestrator.history.journal import Asked, Journal
from orchestrator.home.checkpoints import Checkpoints, StackNotes, note_progress
from orchestrator.home.directories import Home, SweepDirectory
from orchestrator.home.run_files import OUTCOME, ProbeResult, write_result
from orchestrator.home.run_store import RunStore
from orchestrator.home.safe_writing import open_plain
from orchestrator.record import mlflow_tracker
from orchestrator.record.json_lines import JsonLinesTracker
from orchestrator.report.figures import style
from orchestrator.sweep.deletion import delete_sweep, finish_deletions
from orchestrator.system.errors import UserError
from orchestrator.system.files import locked, opened_parent, remove_tree, replace_whole, whole_directory
from tests.catalog.fabricated import write_sweep
from tests.cli.program import Program
from tests.history.test_archive import contents
from tests.record.suite import sweep_record
from trainables.base import Evaluation

PRECIOUS = "a file of this user\n"
RACED_S = 1.0
WRITERS: dict[str, Callable[[Path], object]] = {
    "stop.jsonl": lambda path: Home(path.parents[2]).sweep(path.parent.name).request_stop("add"),
    "journal.jsonl": lambda path: _append(path),
    "progress.jsonl": lambda path: note_progress(path.parent, [("key", Evaluation(1, 1.0, {"add": 1.0}))]),
    "key": lambda path: RunStore(Home(path.parents[1]), "sweep").claim("key"),
    "probes/odd.json": lambda path: write_result(path.parents[1], ProbeResult("odd", 1), {}),
}
"""Writes to files of a home, by the name of the file."""


def _append(path: Path) -> None:
    with Journal(path) as journal:
        journal.append(Asked(()))


def _exchange(path: Path, target: Path, until: float) -> None:
    """Put a link and a file in the place of a path, in turn."""
    link, plain = path.with_name("link"), path.with_name("plain")
    while time.time() < until:
        for aside in (plain, link):
            with suppress(OSError):
                aside.symlink_to(target) if aside == link else aside.touch()
                aside.replace(path)


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_written_never_goes_through_a_link(name: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text(PRECIOUS)
    folder = {"key": "claims", "probes/odd.json": "runs/key"}.get(name, "sweeps/odd")
    path = tmp_path / "home" / folder / name
    path.parent.mkdir(parents=True)
    until = time.time() + RACED_S
    other = multiprocessing.get_context("fork").Process(target=_exchange, args=(path, precious, until))
    other.start()
    while time.time() < until:
        with suppress(OSError, ValueError):  # It may say that the file is a link.
            WRITERS[name](path)
    other.join()
    assert precious.read_text() == PRECIOUS


RECORDS: dict[str, Callable[[Path], object]] = {
    "runs.jsonl": lambda path: JsonLinesTracker(path).begin(sweep_record()),
    "report.html": lambda path: mlflow_tracker._copy(path.parents[2] / "drawn", path.parent),
}
"""Writes to files of a record, by the name of the file."""


@pytest.mark.parametrize("name", [*WRITERS, *RECORDS])
def test_a_file_with_another_name_is_copied_before_it_is_written(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a home that was copied with ``cp -al``."""
    precious, drawn = tmp_path / "precious", tmp_path / "drawn" / "report.html"
    precious.write_text("a line\n")
    drawn.parent.mkdir()
    drawn.write_text("a report\n")
    folders = {"key": "claims", "probes/odd.json": "runs/key", "runs.jsonl": "", "report.html": "artifacts"}
    path = tmp_path / "home" / folders.get(name, "sweeps/odd") / name
    path.parent.mkdir(parents=True)
    path.hardlink_to(precious)
    write = (WRITERS | RECORDS)[name]
    write(path)
    assert precious.read_text() == "a line\n"
    written = path.read_text()
    assert len(written) >= len("sweep")
    assert written.startswith("a line\n") is name.endswith(".jsonl")
    assert ("was a hard link. It is now a copy" in caplog.text) is (name != "probes/odd.json")  # Replaced as a whole.
    write(path)
    assert path.stat().st_nlink == 1


@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_file_that_gets_another_name_in_this_moment_is_not_written(mode: str, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text(PRECIOUS)
    (tmp_path / "file").hardlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="A file with several names"):
        open(tmp_path / "file", mode, opener=open_plain)  # noqa: SIM115
    assert (tmp_path / "precious").read_text() == PRECIOUS


@pytest.mark.parametrize("command", ["report", "figure"])
def test_a_link_that_appears_while_a_report_is_drawn_is_replaced(
    command: str, run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, precious = Home(tmp_path / "home"), tmp_path / "precious"
    precious.write_text(PRECIOUS)
    files = write_sweep(home).files
    written = files.directory / {"report": "report.html", "figure": "figure.pdf"}[command]
    place, drawing = {"report": (export, "page_of"), "figure": (style, "settle")}[command]
    draw = getattr(place, drawing)

    def drawn(*given: object) -> object:
        written.symlink_to(precious)
        return draw(*given)

    monkeypatch.setattr(place, drawing, drawn)
    run(command, files.id, "--home", home.root).succeeded()
    assert precious.read_text() == PRECIOUS
    assert (written.is_symlink(), written.is_file()) == (False, True)


@pytest.mark.parametrize("folder", ["runs", "sweeps"])
def test_rm_deletes_nothing_of_another_home(
    folder: str, run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder becomes a link to that of a home with the same runs, once everything has been checked."""
    theirs, own = Home(tmp_path / "theirs"), Home(tmp_path / "own")
    files = write_sweep(theirs).files
    shutil.copytree(theirs.root, own.root)
    before, own_keys = contents(own), RunStore.own_keys

    def exchanged(store: RunStore) -> list[str]:
        keys = own_keys(store)
        (theirs.root / folder).rename(theirs.root / "aside")
        (theirs.root / folder).symlink_to(own.root / folder)
        return keys

    monkeypatch.setattr(RunStore, "own_keys", exchanged)
    done = run("rm", files.id, "--yes", "--home", theirs.root)
    assert contents(own) == before != {}
    assert "should not happen" not in done.err


@pytest.mark.parametrize("exchanged", ["sweeps/ID", "sweeps/ID/checkpoints/stack.5", "runs/KEY", "runs", "sweeps"])
def test_an_archive_has_no_files_of_a_folder_that_a_link_leads_to(
    exchanged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of the home exchanges a directory for a link, once it is known to be a directory."""
    home, own, file = Home(tmp_path / "home"), tmp_path / "own", tmp_path / "home.tar.gz"
    files = write_sweep(home).files
    (files.checkpoints / "stack.5").mkdir(parents=True)
    (files.checkpoints / "stack.5" / "model.safetensors").touch()
    key = RunStore(home).stored_keys()[0]
    place = home.root / exchanged.replace("ID", files.id).replace("KEY", key)
    shutil.copytree(place, own)
    for path in (own, *own.rglob("*")):
        if path.is_dir():
            (path / "secret").write_text(PRECIOUS)
    is_driven, stored_keys, listed = SweepDirectory.is_driven, RunStore.stored_keys, os.listdir

    def exchange() -> None:
        if not place.is_symlink():
            place.rename(tmp_path / "aside")
            place.symlink_to(own)

    def driven(files: SweepDirectory) -> bool:
        answer = is_driven(files)
        exchange()
        return answer

    def keys(store: RunStore) -> list[str]:
        answer = stored_keys(store)
        exchange()
        return answer

    def names(directory: int) -> list[str]:
        answer: list[str] = listed(directory)
        if "stack.5" in answer:
            exchange()
        return answer

    if exchanged.startswith("runs"):
        monkeypatch.setattr(RunStore, "stored_keys", keys)
    elif exchanged.endswith("stack.5"):
        monkeypatch.setattr(os, "listdir", names)
    else:
        monkeypatch.setattr(SweepDirectory, "is_driven", driven)
    try:
        export_home(home, file)
    except UserError as error:
        assert "was replaced by a link" in str(error)  # noqa: PT017
        assert not file.exists()
    else:
        with tarfile.open(file) as written:
            assert [name for name in written.getnames() if name.endswith("secret")] == []
    assert place.is_symlink()


NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make links of another user")
REMOVERS: dict[str, Callable[[SweepDirectory], object]] = {
    "checkpoints/stack.1/file": lambda files: Checkpoints(files.checkpoints).clear(),
    "checkpoints/stack.1/members.json": lambda files: Checkpoints(files.checkpoints).drop("stack"),
    "stacks/stack/file": lambda files: StackNotes(files.stacks).end("stack"),
    "stop.jsonl": lambda files: files.delete_stop_requests(),
}
"""Removals of files in a sweep's directory, by the path of a file."""


def _of_somebody_else(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    os.lchown(link, NOBODY, NOBODY)


@as_root
@pytest.mark.parametrize("name", WRITERS)
def test_nothing_is_written_through_a_directory_that_somebody_else_exchanged(name: str, tmp_path: Path) -> None:
    """The owner of a home puts a link in the place of a sweep's directory once it has been checked."""
    folder = {"key": "claims", "probes/odd.json": "runs/key"}.get(name, "sweeps/odd")
    precious, path = tmp_path / "precious", tmp_path / "home" / folder / name
    (precious / name).parent.mkdir(parents=True)
    (precious / name).write_text(PRECIOUS)
    _of_somebody_else(tmp_path / "home" / folder, precious)
    with suppress(OSError, ValueError):
        WRITERS[name](path)
    for written in (path.with_name("report.html"), path):
        with pytest.raises(OSError, match="The path has a link of another user"):
            replace_whole(written, "other")
    assert [path for path in precious.rglob("*") if path.is_file()] == [precious / name]
    assert (precious / name).read_text() == PRECIOUS


@as_root
@pytest.mark.parametrize("folder", ["artifacts", "artifacts/logistic"])
def test_no_directory_of_a_record_is_made_through_a_link_of_somebody_else(folder: str, tmp_path: Path) -> None:
    """Others can exchange directories of a store that they share."""
    drawn, private, record = tmp_path / "drawn", tmp_path / "private", Path("artifacts/logistic/run/artifacts")
    (drawn / "probes").mkdir(parents=True)
    (drawn / "probes" / "bars.npz").write_text("array")
    private.mkdir()
    _of_somebody_else(tmp_path / "store" / folder, private)
    with pytest.raises(OSError, match="The path has a link of another user"):
        mlflow_tracker._copy(drawn, tmp_path / "store" / record)
    assert list(private.iterdir()) == []
    mlflow_tracker._copy(drawn, tmp_path / "own" / record)
    assert (tmp_path / "own" / record / "probes" / "bars.npz").read_text() == "array"


@as_root
@pytest.mark.parametrize("name", REMOVERS)
def test_nothing_is_removed_through_a_directory_that_somebody_else_exchanged(name: str, tmp_path: Path) -> None:
    """It may lead to a sweep of this user that has checkpoints."""
    files, own = Home(tmp_path / "home").sweep("odd"), Home(tmp_path / "own").sweep("own")
    file = own.directory / name
    file.parent.mkdir(parents=True)
    file.write_text(PRECIOUS)
    _of_somebody_else(files.directory, own.directory)
    with suppress(OSError):
        REMOVERS[name](files)
    assert file.read_text() == PRECIOUS
    REMOVERS[name](own)
    assert not file.exists()


USERS_OF_FOLDERS: dict[str, Callable[[SweepDirectory], object]] = {
    "delete": lambda files: RunStore(files.home).delete(RunStore(files.home).stored_keys()[0]),
    "delete_sweep": lambda files: delete_sweep(files, pytest.fail),
    "finish_deletions": lambda files: finish_deletions(files.home),
    "export_home": lambda files: export_home(files.home, files.home.root.parents[1] / "home.tar.gz"),
}
"""Functions that open the folder of runs or sweeps of a home, by their names."""


@as_root
@pytest.mark.parametrize("name", USERS_OF_FOLDERS)
def test_nothing_below_a_link_of_somebody_else_is_deleted_or_exported(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of a directory above the home exchanges it. With a link of one's own, such as to another disk, the
    home is used as before."""
    files = write_sweep(Home(tmp_path / "real" / "home")).files
    removed = files.directory.with_name(".removed-odd-20260101-000000-0000")
    (removed / "checkpoints").mkdir(parents=True)
    # `delete_sweep` opens a lock first, which would refuse the link too.
    monkeypatch.setattr(SweepDirectory, "driving", lambda files: nullcontext())
    monkeypatch.setattr(SweepDirectory, "is_driven", lambda files: False)
    before = contents(files.home)
    _of_somebody_else(tmp_path / "theirs", tmp_path / "real")
    with pytest.raises(OSError, match="The path has a link of another user"):
        USERS_OF_FOLDERS[name](Home(tmp_path / "theirs" / "home").sweep(files.id))
    assert contents(files.home) == before
    assert removed.is_dir()
    (tmp_path / "own").symlink_to(tmp_path / "real")
    USERS_OF_FOLDERS[name](Home(tmp_path / "own" / "home").sweep(files.id))
    assert (contents(files.home) == before) is (name in ("export_home", "finish_deletions"))
    assert removed.is_dir() is (name != "finish_deletions")


@as_root
@pytest.mark.parametrize("what", ["run", "checkpoint", "parent"])
def test_a_directory_is_filled_where_it_was_made(what: str, tmp_path: Path) -> None:
    """The owner of a home exchanges a directory that is being filled, or the one around it."""
    home, own = Home(tmp_path / "home"), Home(tmp_path / "own")
    precious = own.runs / "key"
    precious.mkdir(parents=True)
    (precious / OUTCOME).write_text(PRECIOUS)
    target = home.runs / "key" if what != "checkpoint" else home.sweep("odd").checkpoints / "stack.1"
    target.parent.mkdir(parents=True)
    with suppress(OSError), whole_directory(target) as directory:
        [aside] = target.parent.iterdir()
        if what == "parent":
            home.runs.rename(tmp_path / "moved")
            (own.runs / aside.name).mkdir()
            _of_somebody_else(home.runs, own.runs)
        else:
            aside.rename(target.with_name("moved"))
            _of_somebody_else(aside, precious)
        (directory / OUTCOME).write_text("other")
        (directory / "weights").write_bytes(b"other")
    assert {path.name for path in own.runs.rglob("*") if path.is_file()} == {OUTCOME}
    assert (precious / OUTCOME).read_text() == PRECIOUS


@as_root
@pytest.mark.parametrize("name", ["driver.lock", ".runs.lock"])
def test_no_lock_is_made_in_a_directory_that_somebody_else_exchanged(name: str, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    _of_somebody_else(tmp_path / "exchanged", tmp_path / "precious")
    with (
        pytest.raises(OSError, match="The path has a link of another user"),
        locked(tmp_path / "exchanged" / name, 0.1),
    ):
        pass
    assert list((tmp_path / "precious").iterdir()) == []
    with locked(tmp_path / name), pytest.raises(TimeoutError), locked(tmp_path / name, 0.1):
        pass
    with locked(tmp_path / name, 0.1):  # It is free again.
        (tmp_path / name).write_text(PRECIOUS)
    (tmp_path / "link").symlink_to(tmp_path / name)
    with pytest.raises(OSError, match="link"), locked(tmp_path / "link"):
        pass
    assert (tmp_path / name).read_text() == PRECIOUS


def test_a_full_disk_names_the_directory_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left") as full, whole_directory(tmp_path / "run") as directory:
        raise OSError(errno.ENOSPC, "No space left on device", str(directory / "below" / "file"))
    named = Path(full.value.filename)
    assert (named.parents[2 - 1], named.name) == (tmp_path / named.parts[-3], "file")
    assert named.parts[-3].startswith(".run-")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_link_of_this_user_on_the_way_is_followed(
    is_absolute: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    Path("link").symlink_to(tmp_path / "there" if is_absolute else Path("..", tmp_path.name, "there"))
    replace_whole(Path("link/below/file"), "text")
    assert (tmp_path / "there" / "below" / "file").read_text() == "text"
    remove_tree(Path("link/below"))
    assert list((tmp_path / "there").iterdir()) == []
    Path("circle").symlink_to("circle")
    with pytest.raises(OSError, match="link"), opened_parent(Path("circle/file")):
        pass


@pytest.mark.parametrize("command", ["import", "export"])
def test_an_archive_is_written_where_its_directory_was_made(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others can write the directory. They rename the hidden directory in it, and put one with links in its place."""
    home, file, precious = Home(tmp_path / "home"), tmp_path / "shared" / "home.tar.gz", tmp_path / "precious"
    write_sweep(home)
    precious.write_text(PRECIOUS)
    new = Home(tmp_path / "new")
    export_home(home, tmp_path / "before.tar.gz")
    with tarfile.open(tmp_path / "before.tar.gz") as exported:
        names = exported.getnames() if command == "import" else [file.name]
    place = new.root if command == "import" else file.parent
    place.mkdir()
    add: Any = export_archive._add if command == "export" else archive_members.unpack

    def exchanged(*given: object) -> object:
        if not (tmp_path / "taken").exists():
            [aside] = place.glob(".*-*")
            aside.rename(tmp_path / "taken")
            for name in names:
                (aside / name).parent.mkdir(parents=True, exist_ok=True)
                (aside / name).symlink_to(precious)
                (aside / "whole" / name).parent.mkdir(parents=True, exist_ok=True)
                (aside / "whole" / name).symlink_to(precious)
        result: object = add(*given)
        return result

    monkeypatch.setattr(export_archive if command == "export" else import_archive, add.__name__, exchanged)
    if command == "import":
        import_home(new, tmp_path / "before.tar.gz", pytest.fail)
        assert contents(new) == contents(home) != {}
    else:
        export_home(home, file)
        assert (file.is_symlink(), tarfile.is_tarfile(file)) == (False, True)
        assert file.stat().st_mode & 0o077 == 0
    assert (tmp_path / "taken").exists()
    assert precious.read_text() == PRECIOUS


@as_root
def test_no_hidden_directory_of_somebody_else_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They replace it by their own before it is opened."""
    make = os.mkdir

    def exchanged(path: str, *given: int, dir_fd: int | None = None) -> None:
        make(path, *given, dir_fd=dir_fd)
        if str(path).startswith(".run-"):
            os.chown(path, NOBODY, NOBODY, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", exchanged)
    with pytest.raises(OSError, match="replaced by a directory of another user"), whole_directory(tmp_path / "run"):
        pytest.fail("it was opened")


@as_root
def test_no_directory_is_made_through_a_link_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    _of_somebody_else(tmp_path / "home" / "stacks", tmp_path / "precious")
    path = tmp_path / "home" / "stacks" / "stack1" / "members.json"
    with pytest.raises(OSError, match="The path has a link of another user"):
        replace_whole(path, "x")
    with pytest.raises(OSError, match="The path has a link of another user"), whole_directory(path):
        pytest.fail("it was opened")
    assert list((tmp_path / "precious").iterdir()) == []


@as_root
@pytest.mark.parametrize("words", [["rm", "logistic", "-y"], ["home", "export", "FILE"], ["sync"], ["sweeps"]])
def test_a_home_behind_a_link_of_somebody_else_is_no_home(words: list[str], tmp_path: Path, run: Program) -> None:
    """It may lead to another home of this user, which they did not mean."""
    files = write_sweep(Home(tmp_path / "private")).files
    before = contents(files.home)
    _of_somebody_else(tmp_path / "team" / "results", files.home.root)
    given = [tmp_path / "home.tar.gz" if word == "FILE" else word for word in words]
    for place in (tmp_path / "team" / "results", tmp_path / "team" / ".." / "team" / "results"):
        refused = run(*given, "--home", place).refused()
        assert "team/results is a link of another user (nobody), which is not followed: pass the directory" in refused
    assert "is a link of another user" in run("home", "trust", tmp_path / "team" / "results").refused()
    assert contents(files.home) == before
    os.lchown(tmp_path / "team" / "results", 0, 0)  # A link of one's own is followed.
    assert files.id in run("sweeps", "--home", tmp_path / "team" / "results").succeeded()
