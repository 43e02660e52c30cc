"""Homes exported to a single file: an import is complete, happens once, and takes nothing else."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.history import archive_members, export_archive, foreign_time, import_archive
from orchestrator.history.archive_members import LAYOUT_MEMBER, CopyCounts
from orchestrator.history.export_archive import export_home
from orchestrator.history.import_archive import import_home
from orchestrator.history.journal import Asked, Journal, recall
from orchestrator.home.directories import Home
from orchestrator.home.ownership import HOME_ID_FILE
from orchestrator.home.run_files import ORIGIN, OUTCOME
from orchestrator.home.run_store import RunStore
from orchestrator.home.seals import CONTENTS, seal
from orchestrator.jobs.state import State
from orchestrator.system.errors import SweepError, UserError
from tests.catalog.fabricated import runs_of, write_sweep
from tests.cli.program import Program, command, started
from tests.copies import own_copy
from tests.home.test_damage import Stopped, flip, rewrite, stopped, undisturbed
from tests.scripted import trained
from tests.sweep.sweeps import remembered, spec, table_of
from tests.waiting import wait_for

__all__ = ["stopped", "undisturbed"]


def contents(home: Home) -> dict[str, bytes]:
    """Return all files of runs and sweeps, except locks and the mark of an imported sweep."""
    paths = [path for folder in ("runs", "sweeps") for path in (home.root / folder).rglob("*") if path.is_file()]
    results = [path for path in paths if not path.name.endswith((".lock", ".imported"))]
    return {str(path.relative_to(home.root)): path.read_bytes() for path in results}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a home, of a finished sweep and an unfinished one, and its exported file."""
    place = tmp_path_factory.mktemp("original")
    result, wanted_spec = Home(place / "home"), spec(name="begun", sizes=[24, 48])
    write_sweep(result, spec(name="whole"))
    write_sweep(result, wanted_spec, runs=runs_of(wanted_spec)[:3], answered=False)
    export_home(result, place / "home.tar.gz")
    return place


@pytest.fixture
def home(original: Path, tmp_path: Path) -> Home:
    return Home(own_copy(original / "home", tmp_path / "home"))


@pytest.fixture
def file(original: Path, tmp_path: Path) -> Path:
    return shutil.copyfile(original / "home.tar.gz", tmp_path / "home.tar.gz")


def test_an_exported_home_is_imported_unchanged_and_once(home: Home, file: Path, tmp_path: Path) -> None:
    (home.root / "claims").mkdir(exist_ok=True)
    (home.root / "claims" / "key").write_text("begun-1")
    (home.root / "mlflow.db").write_bytes(b"a database")
    runs, new = len(RunStore(home).stored_keys()), Home(tmp_path / "new")
    assert export_home(home, file) == CopyCounts(runs, 2)
    assert import_home(new, file, pytest.fail) == CopyCounts(runs, 2)
    assert contents(new) == contents(home) != {}
    assert all(new.sweep(sweep_id).imported.is_file() for sweep_id in new.sweep_ids())
    assert sorted(path.name for path in new.root.iterdir()) == [HOME_ID_FILE, ".runs.lock", "runs", "sweeps"]
    assert {recall(new.sweep(item)).state for item in new.sweep_ids()} == {State.FINISHED, State.INTERRUPTED}
    assert import_home(new, file, pytest.fail) == CopyCounts(0, 0)
    assert contents(new) == contents(home)


def test_runs_are_merged_by_key_and_damaged_ones_are_replaced_or_left_out(
    home: Home, file: Path, tmp_path: Path
) -> None:
    other = Home(tmp_path / "other")
    write_sweep(other, spec(name="other", sizes=[8, 12, 20]))
    mine, theirs = RunStore(other), RunStore(home)
    shared = sorted(set(mine.stored_keys()) & set(theirs.stored_keys()))
    [new, *_] = sorted(set(theirs.stored_keys()) - set(mine.stored_keys()))
    flip(mine.directory(shared[0]) / OUTCOME)
    flip(theirs.directory(new) / OUTCOME)
    before = (mine.directory(shared[1]) / OUTCOME).stat().st_mtime_ns
    export_home(home, file)
    warnings: list[str] = []
    result = import_home(other, file, warnings.append)
    assert [new in line for line in warnings] == [True]
    assert result == CopyCounts(len(theirs.stored_keys()) - len(shared), 2)
    assert set(theirs.stored_keys()) - set(mine.stored_keys()) == {new}
    assert (mine.directory(shared[0]) / OUTCOME).read_bytes() == (theirs.directory(shared[0]) / OUTCOME).read_bytes()
    assert (mine.directory(shared[1]) / OUTCOME).stat().st_mtime_ns == before
    assert len(other.sweep_ids()) == 3


@pytest.mark.parametrize("change", ["accuracy", "steps"])
def test_runs_with_other_results_are_reported(change: str, home: Home, file: Path, tmp_path: Path) -> None:
    """Programs without a seed, for example, have other results on each machine, and a sweep would change its answer."""
    other = Home(own_copy(home.root, tmp_path / "other"))
    store = RunStore(other)
    changed, slower, *_ = keys = sorted(store.stored_keys())
    for key in (changed, slower):
        outcome = json.loads((store.directory(key) / OUTCOME).read_text())
        if key == slower:
            outcome["measures"]["seconds"] = 1e6
        elif change == "steps":
            outcome["steps"] += 1
        else:
            outcome["accuracy"] = dict.fromkeys(outcome["accuracy"], 0.125)
        (store.directory(key) / OUTCOME).write_text(json.dumps(outcome))
        (store.directory(key) / CONTENTS).unlink()
        seal(store.directory(key))
    before, warnings = contents(other), list[str]()
    assert import_home(other, file, warnings.append) == CopyCounts(0, 0)
    assert contents(other) == before
    [line] = warnings
    assert line.startswith(f"Some runs in {file} differ from the runs here (")
    assert changed in line
    assert slower not in line
    assert len(keys) > 2


@pytest.mark.parametrize("name", [f"sweeps/x/{'b' * 240}", f"runs/{'é' * 128}/outcome.json", f"sweeps/{'é' * 130}/x"])
def test_a_name_that_no_disk_can_keep_is_refused_before_anything_is_imported(name: str, tmp_path: Path) -> None:
    path = tmp_path / "long.tar.gz"
    with tarfile.open(path, "w:gz") as archive_file:
        add(archive_file, LAYOUT_MEMBER, archive_members.LAYOUT)
        add(archive_file, name, b"x")
    with pytest.raises(UserError, match="nothing was imported"):
        import_home(Home(tmp_path / "new"), path, pytest.fail)
    assert contents(Home(tmp_path / "new")) == {}


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def flipped(path: Path) -> None:
    """Change one bit of stored content, which only the final checksum can detect."""
    with gzip.open(path) as stream:
        data = bytearray(stream.read())
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=0) as stream:
        stream.write(data)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)


def later(path: Path) -> None:
    with tarfile.open(path, "w:gz") as new:
        add(new, LAYOUT_MEMBER, b'{"layout": 2}')


def add(archive: tarfile.TarFile, name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, "/etc/passwd", len(data)
    archive.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (truncated, "damaged"),
        (flipped, "damaged"),
        (lambda path: path.write_bytes(b""), "damaged or not an exported home"),
        (lambda path: path.write_bytes(b"PK\x03\x04 a zip file"), "damaged or not an exported home"),
        (lambda path: path.unlink(), "there is no file"),
        (later, "later version"),
    ],
)
def test_nothing_is_imported_from_a_damaged_file(
    damage: Callable[[Path], object], why: str, home: Home, file: Path
) -> None:
    damage(file)
    before = contents(home)
    with pytest.raises(UserError, match=why):
        import_home(home, file, pytest.fail)
    assert contents(home) == before


@pytest.mark.parametrize(
    "name", ["../outside", "runs/../../outside", "/tmp/outside", "runs/key/.x", "claims/key/x", "runs/key/link"]
)
def test_a_file_with_unsafe_paths_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "home.tar.gz"
    with tarfile.open(file, "w:gz") as new:
        add(new, LAYOUT_MEMBER, b'{"layout": 1}')
        add(new, name, b"", tarfile.SYMTYPE if name.endswith("link") else tarfile.REGTYPE)
    with pytest.raises(UserError, match=r"not a (plain )?file"):
        import_home(Home(tmp_path / "new"), file, pytest.fail)
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "outside").exists()


def test_a_stopped_sweep_continues_elsewhere_from_its_checkpoint(stopped: Stopped, tmp_path: Path) -> None:
    """Although the first line of its journal is damaged."""
    file, new = tmp_path / "home.tar.gz", Home(tmp_path / "elsewhere")
    rewrite(stopped.files.journal, '"begun"', '"began"')
    export_home(stopped.home, file)
    shutil.rmtree(stopped.home.root)
    import_home(new, file, pytest.fail)
    done = command("run", stopped.space, "--engine=local", "--home", new.root, "--resume")
    assert done.code == 0, done.err
    output = " ".join((done.out + done.err).split())
    assert (output.count(" damaged "), "line 1, is damaged" in output) == (1, True)
    assert table_of(done.out) == stopped.table != []
    assert sum(trained(stopped.log).values()) == 12 - stopped.done
    assert not (new.sweep(new.sweep_ids()[0]).directory / "checkpoints").exists()


def test_a_name_that_no_home_imports_is_not_exported(home: Home, tmp_path: Path) -> None:
    sweep = home.sweep(home.sweep_ids()[0]).directory
    sweep.rename(sweep.with_name("my sweep"))
    with pytest.raises(
        UserError, match=r"^sweeps/my sweep/journal\.jsonl cannot be exported: rename its directory"
    ) as no:
        export_home(home, tmp_path / "new.tar.gz")
    assert "Delete" not in str(no.value)  # It is the only copy of the sweep.
    assert not (tmp_path / "new.tar.gz").exists()


def test_a_name_that_is_too_long_to_import_is_refused_once(home: Home, tmp_path: Path) -> None:
    long = "a" * 240
    [key, *_] = RunStore(home).stored_keys()
    (RunStore(home).directory(key) / long).write_text("mine")
    with pytest.raises(UserError) as refused:
        export_home(home, tmp_path / "new.tar.gz")
    why = "a name in this path has more than 230 bytes: shorten it"
    assert str(refused.value) == f"runs/{key}/{long} cannot be exported: {why}"


def test_an_export_holds_no_file_in_memory(home: Home, tmp_path: Path) -> None:
    """A stranger's home can have many huge files that take no space on the disk."""
    sweep = home.sweep(home.sweep_ids()[0])
    checkpoint = sweep.checkpoints / "stack.1"
    checkpoint.mkdir(parents=True)
    size = 32 << 20
    for index in range(4):
        with (checkpoint / f"{index}.bin").open("wb") as file:
            file.truncate(size)
    tracemalloc.start()
    try:
        export_home(home, tmp_path / "home.tar.gz")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size / 8
    with tarfile.open(tmp_path / "home.tar.gz") as exported:
        sizes = {member.name: member.size for member in exported.getmembers()}
    assert sizes[f"sweeps/{sweep.id}/checkpoints/stack.1/3.bin"] == size


def test_a_file_that_becomes_shorter_during_an_export_is_named(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_plain = archive_members.is_plain

    def shorten(name: str) -> bool:
        """Is called after the file was opened, and before it is stored."""
        if name.endswith(OUTCOME):
            os.truncate(home.root / name, 1)
        return is_plain(name)

    monkeypatch.setattr(export_archive, "is_plain", shorten)
    with pytest.raises(SweepError, match=rf"runs/\w+/{OUTCOME} changed while it was exported"):
        export_home(home, tmp_path / "home.tar.gz")
    assert not (tmp_path / "home.tar.gz").exists()


def test_an_import_replaces_checkpoints_of_earlier_steps(stopped: Stopped, tmp_path: Path) -> None:
    """The older homes have no checkpoint, or one of an earlier step. No run has ended since."""
    file = tmp_path / "home.tar.gz"
    export_home(stopped.home, file)
    expected = contents(stopped.home)
    [checkpoint] = stopped.files.checkpoints.iterdir()
    unsaved, earlier = Home(tmp_path / "unsaved"), Home(tmp_path / "earlier")
    for older in (unsaved, earlier):
        own_copy(stopped.home.root, older.root)
    shutil.rmtree(unsaved.sweep(stopped.files.id).checkpoints)
    old = earlier.sweep(stopped.files.id).checkpoints / checkpoint.name
    old.rename(old.with_suffix(".0"))
    for older in (unsaved, earlier):
        with older.sweep(stopped.files.id).driving():
            assert import_home(older, file, pytest.fail, mine=True).sweeps == 0
        before = contents(older)
        warnings: list[str] = []
        assert import_home(older, file, warnings.append).sweeps == 0
        assert [line.endswith("that file, import it with --mine") for line in warnings] == [True]
        assert contents(older) == before
        assert import_home(older, file, pytest.fail, mine=True).sweeps == 1
        assert contents(older) == expected
        assert import_home(older, file, pytest.fail).sweeps == 0


def test_an_import_updates_continued_sweeps_and_keeps_diverged_ones(stopped: Stopped, tmp_path: Path) -> None:
    """A sweep is started here, finished on another machine and brought back. An earlier copy is finished
    independently."""
    out, back, existing = tmp_path / "out.tar.gz", tmp_path / "back.tar.gz", Home(tmp_path / "existing")
    early = tmp_path / "early"
    export_home(stopped.home, out)
    import_home(existing, out, pytest.fail, mine=True)
    own_copy(stopped.home.root, early)
    assert command("run", stopped.space, "--engine=local", "--home", existing.root, "--resume").code == 0
    export_home(existing, back)
    with stopped.files.driving(), pytest.raises(UserError, match="another process"):
        import_home(stopped.home, back, pytest.fail, mine=True)
    warnings: list[str] = []
    assert import_home(stopped.home, back, pytest.fail, mine=True) == CopyCounts(0, 1)
    memory = remembered(stopped.home.root, stopped.files.id)
    assert (len(memory.ended), memory.answered, memory.damaged) == (12, True, ())
    assert not stopped.files.checkpoints.exists()
    assert import_home(stopped.home, out, pytest.fail) == CopyCounts(0, 0)
    journal = Home(early).sweep(stopped.files.id).journal
    with Journal(journal) as other:
        other.append(Asked(()))  # The same runs could end in the same second in both homes.
    assert command("run", stopped.space, "--engine=local", "--home", early, "--resume").code == 0
    warnings.clear()
    before = journal.read_bytes()
    assert import_home(Home(early), back, warnings.append) == CopyCounts(0, 0)
    assert len(warnings) == 1
    assert "the sweep here is kept" in warnings[0]
    assert journal.read_bytes() == before


def test_a_running_sweep_can_be_exported_and_resumed(undisturbed: Stopped, tmp_path: Path) -> None:
    home, file, log = Home(tmp_path / "here"), tmp_path / "home.tar.gz", tmp_path / "log"
    space = tmp_path / "space.yaml"
    text = undisturbed.space.read_text().replace(str(undisturbed.log), str(log)).replace("pace_s: 0.0", "pace_s: 0.3")
    assert "pace_s: 0.3" in text
    space.write_text(text)
    running = started("run", space, "--engine=local", "--home", home.root)
    try:
        wait_for(lambda: len(RunStore(home).stored_keys()) > 1, words=lambda: str(running.poll()))
        export_home(home, file)
        assert running.poll() is None
    finally:
        running.kill()
        running.communicate()
    new = Home(tmp_path / "new")
    import_home(new, file, pytest.fail)
    memory = remembered(new.root)
    assert memory.damaged == ()
    assert 1 <= len(memory.ended) <= len(RunStore(new).stored_keys())
    done = command("run", space, "--engine=local", "--home", new.root, "--resume")
    assert done.code == 0, done.err
    assert "damaged" not in done.out + done.err
    assert table_of(done.out) == undisturbed.table


def test_an_interrupted_import_can_be_repeated(
    home: Home, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, moved = Home(tmp_path / "new"), 0
    move = import_archive._move

    def full(source: Path, target: Path) -> None:
        nonlocal moved
        moved += 1
        if moved == 3:
            raise OSError(28, "No space left on device", str(target))
        move(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(import_archive, "_move", full)
        with pytest.raises(OSError, match="No space left"):
            import_home(new, file, pytest.fail)
    assert len(RunStore(new).stored_keys()) == 2
    assert new.sweep_ids() == []
    result = import_home(new, file, pytest.fail)
    assert result == CopyCounts(len(RunStore(home).stored_keys()) - 2, 2)
    assert contents(new) == contents(home)


def test_export_and_import_commands_report_their_work(run: Program, home: Home, tmp_path: Path) -> None:
    runs = len(RunStore(home).stored_keys())
    output = run("home", "export", "kept.tar.gz", "--home", home.root).succeeded()
    assert f"wrote kept.tar.gz: 2 sweeps, {runs} runs" in output
    output = run("home", "import", "kept.tar.gz", "--home", tmp_path / "new").succeeded()
    assert f"imported 2 sweeps and {runs} runs" in output
    assert "sync --home" in output
    assert run("sweeps", "--home", tmp_path / "new").out.count("whole-") == 1
    for words, why in (
        (("export", "no/such/folder/x.tar.gz"), "in a directory that exists"),
        (("import", "none.tar.gz"), "there is no file"),
        (("export", "x.tar.gz", "--home", "empty"), "no runs and no sweeps"),
        (("copy", "x.tar.gz"), "copy"),
    ):
        given = words if "--home" in words else (*words, "--home", str(home.root))
        refused = run("home", *given)
        assert (refused.code, refused.out) == (2, "")
        assert why in refused.err


@pytest.mark.parametrize("origin", [None, "{}", '{"sweep": "", "ended": "2026-01-01T00:00:00+00:00", "source": ""}'])
def test_a_run_that_does_not_say_where_it_comes_from_is_not_imported(
    origin: str | None, home: Home, tmp_path: Path
) -> None:
    """A sweep of this home would take it for its own."""
    store, archive_file = RunStore(home), tmp_path / "forged.tar.gz"
    forged, *others = sorted(store.stored_keys())
    path = store.directory(forged) / ORIGIN
    path.unlink()
    if origin is not None:
        path.write_text(origin)
    (store.directory(forged) / CONTENTS).unlink()
    seal(store.directory(forged))
    export_home(home, archive_file)
    warnings: list[str] = []
    copied = import_home(Home(tmp_path / "own"), archive_file, warnings.append)
    assert copied.runs == len(others)
    assert sorted(RunStore(Home(tmp_path / "own")).stored_keys()) == others
    assert f"run {forged} in {archive_file} does not name the sweep that it was trained for" in warnings[0]


@pytest.mark.parametrize("change", ["question: another one", "looks: {}", "sizes: [8]"])
def test_a_continuation_does_not_change_what_a_sweep_asks(change: str, stopped: Stopped, tmp_path: Path) -> None:
    given, back = tmp_path / "given.tar.gz", tmp_path / "back.tar.gz"
    export_home(stopped.home, given)
    theirs = Home(tmp_path / "theirs")
    import_home(theirs, given, pytest.fail, mine=True)
    files = theirs.sweep(stopped.files.id)
    with Journal(files.journal) as journal:
        journal.append(Asked(()))
    key = change.partition(":")[0]
    lines = [line for line in files.spec.read_text().splitlines() if not line.startswith(f"{key}:")]
    files.spec.write_text("\n".join([*lines, change, ""]))
    export_home(theirs, back)
    before = contents(stopped.home)
    warnings: list[str] = []
    assert import_home(stopped.home, back, warnings.append, mine=True).sweeps == 0
    assert f"{stopped.files.id} has another search space in {back}: the sweep here is kept" in warnings[0]
    assert contents(stopped.home) == before


def test_continuations_that_take_long_to_compare_are_not_imported(
    stopped: Stopped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, further = tmp_path / "given.tar.gz", tmp_path / "further.tar.gz"
    export_home(stopped.home, given)
    here, theirs = Home(tmp_path / "here"), Home(tmp_path / "theirs")
    import_home(here, given, pytest.fail)
    import_home(theirs, given, pytest.fail, mine=True)
    with Journal(theirs.sweep(stopped.files.id).journal) as journal:
        journal.append(Asked(()))
    export_home(theirs, further)
    before = contents(here)
    warnings: list[str] = []
    with monkeypatch.context() as changed:
        changed.setattr(foreign_time, "LONGEST_S", -1.0)
        assert import_home(here, further, warnings.append).sweeps == 0
    assert warnings == [
        f"{stopped.files.id} was not compared with that in {further} ({foreign_time.NOT_READ}): the sweep here is kept"
    ]
    assert contents(here) == before
    assert import_home(here, further, pytest.fail).sweeps == 1


@pytest.mark.parametrize("time", ["nan", "inf", "-inf"])
def test_a_file_of_an_impossible_time_is_refused(time: str, tmp_path: Path) -> None:
    file = tmp_path / "home.tar.gz"
    with tarfile.open(file, "w:gz", format=tarfile.PAX_FORMAT) as new:
        add(new, LAYOUT_MEMBER, b'{"layout": 1}')
        member = tarfile.TarInfo("runs/0123456789abcdef/outcome.json")
        member.pax_headers = {"mtime": time}
        new.addfile(member, io.BytesIO())
    with pytest.raises(UserError, match=r"impossible time; nothing was imported|damaged or not an exported home"):
        import_home(Home(tmp_path / "new"), file, pytest.fail)
    assert not (tmp_path / "new").exists()


def test_a_file_from_before_all_time_counts_as_old(home: Home, file: Path, tmp_path: Path) -> None:
    """Its time overflows the numbers of the system."""
    with (
        tarfile.open(home.root.parent / "old.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as new,
        tarfile.open(file) as old,
    ):
        for member in old:
            member.pax_headers = {"mtime": "-1e300"}
            new.addfile(member, old.extractfile(member))
    assert import_home(Home(tmp_path / "new"), home.root.parent / "old.tar.gz", pytest.fail).sweeps == 2
    written = [path.stat().st_mtime for path in (tmp_path / "new" / "sweeps").rglob("space.yaml")]
    assert written == [0.0, 0.0]


def test_locks_and_requests_of_another_machine_are_not_imported(home: Home, file: Path, tmp_path: Path) -> None:
    """A second process could take a lock whose file is replaced while the import holds it."""
    sweep_id = home.sweep_ids()[0]
    with tarfile.open(tmp_path / "added.tar.gz", "w:gz") as new, tarfile.open(file) as old:
        for member in old:
            new.addfile(member, old.extractfile(member))
        for name in ("driver.lock", "stop.jsonl", "driver.log"):
            add(new, f"sweeps/{sweep_id}/{name}", b'{"mix": "add"}\n')
    new_home = Home(tmp_path / "new")
    assert import_home(new_home, tmp_path / "added.tar.gz", pytest.fail).sweeps == 2
    assert new_home.sweep(sweep_id).stop_requests() == []
    assert {path.name: path.read_bytes() for path in new_home.sweep(sweep_id).directory.glob("driver.*")} == {
        "driver.lock": b""
    }


@pytest.mark.parametrize("change", ["exchanged", "written"])
def test_a_file_that_changes_after_its_check_leaves_no_trace(
    change: str, home: Home, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its author puts another archive in its place, or writes into the same file."""
    other, check = tmp_path / "other.tar.gz", archive_members.checked_size
    with tarfile.open(other, "w:gz") as new:
        for name in ("stacks", "stacks/stack/file"):
            add(new, f"sweeps/{home.sweep_ids()[0]}/{name}", b"")

    def checked(*given: Any) -> int:
        size = check(*given)
        other.replace(file) if change == "exchanged" else file.write_bytes(other.read_bytes())
        return size

    monkeypatch.setattr(import_archive, "checked_size", checked)
    new_home = Home(tmp_path / "new")
    if change == "exchanged":
        assert import_home(new_home, file, pytest.fail).sweeps == 2
        return
    with pytest.raises(UserError, match="was changed while it was imported; nothing was imported"):
        import_home(new_home, file, pytest.fail)
    assert contents(new_home) == {}
    assert [path.name for path in new_home.root.iterdir() if "import" in path.name] == []
