"""What an archive brings is shown as imported, whatever it says of itself, and is never taken for a result of here."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from orchestrator.home.archive import Copied, export_home, import_home
from orchestrator.home.directories import Home
from orchestrator.home.journal import Asked, Ended, Journal, read_journal
from orchestrator.home.run_store import RunStore
from orchestrator.space.spec import SweepSpec
from tests.catalog.fabricated import leave_run, outcome_of, runs_of, write_sweep
from tests.cli.program import Program
from tests.home.test_damage import Stopped, stopped, undisturbed
from tests.sweep.sweeps import printed, quiet, run_here, spec

__all__ = ["stopped", "undisturbed"]


def forged(place: Path, sweep_id: str, settings: SweepSpec) -> tuple[Path, set[str]]:
    """Return an archive of all runs of a search space, each of which says that a sweep has trained it, and their
    keys."""
    theirs, family = Home(place / "theirs"), settings.make_family()
    for config in runs_of(settings):
        leave_run(RunStore(theirs, sweep_id), family.key(config), config, outcome_of(config))
    export_home(theirs, place / "forged.tar.gz")
    return place / "forged.tar.gz", set(RunStore(theirs).stored_keys())


def origins(home: Home, sweep_id: str) -> dict[str, str]:
    """Return where each run of a sweep was trained, by key."""
    entries = read_journal(home.sweep(sweep_id).journal)
    return {entry.key: entry.reused_from for entry in entries if isinstance(entry, Ended)}


@pytest.mark.parametrize("is_resumed", [True, False], ids=["of this sweep", "of another sweep of this home"])
def test_an_imported_run_is_never_one_that_was_trained_here(is_resumed: bool, tmp_path: Path) -> None:
    """An archive names the unfinished sweep that is resumed, or a finished one whose runs a new sweep reuses."""
    home, wanted = Home(tmp_path / "home"), spec()
    own = write_sweep(home, wanted, runs=runs_of(wanted)[:3], answered=not is_resumed)
    before = set(RunStore(home).stored_keys())
    file, keys = forged(tmp_path, own.id, wanted)
    assert import_home(home, file, pytest.fail) == Copied(len(keys - before), 0)
    console = quiet()
    run_here(wanted, home.root, console=console, resume=own.id if is_resumed else None)
    trained_for = origins(home, home.sweep_ids()[0])
    assert {trained_for[key] for key in trained_for.keys() - before} == {f"{own.id} (imported)"}
    assert {trained_for[key] for key in trained_for.keys() & before} <= {"" if is_resumed else own.id}
    assert f"trained for {own.id} (imported)" in printed(console)


def test_a_run_that_is_trained_again_is_one_of_this_home(tmp_path: Path) -> None:
    home, wanted = Home(tmp_path / "home"), spec(mixes=["add"], sizes=[8], seeds=1)
    file, [key] = forged(tmp_path, "other-20260101-000000-0000", wanted)
    import_home(home, file, pytest.fail)
    store = RunStore(home, "new")
    assert (store.is_imported(key), store.trained_for(key)) == (True, "other-20260101-000000-0000 (imported)")
    export_home(home, tmp_path / "again.tar.gz")
    import_home(Home(tmp_path / "third"), tmp_path / "again.tar.gz", pytest.fail)
    assert RunStore(Home(tmp_path / "third")).is_imported(key)
    store.delete(key)
    [config] = runs_of(wanted)
    leave_run(store, key, config, outcome_of(config))
    assert (store.is_imported(key), store.trained_for(key)) == (False, "")


@pytest.mark.parametrize("change", ["journal", "checkpoint"])
def test_a_sweep_that_continues_from_an_archive_is_shown_as_imported(
    change: str, stopped: Stopped, tmp_path: Path, run: Program
) -> None:
    """Somebody who was given a sweep adds pairs or runs, or weights of their own to train on from."""
    given, back, theirs = tmp_path / "given.tar.gz", tmp_path / "back.tar.gz", Home(tmp_path / "theirs")
    export_home(stopped.home, given)
    import_home(theirs, given, pytest.fail)
    files, shown = theirs.sweep(stopped.files.id), ("status", stopped.files.id, "--home", stopped.home.root)
    if change == "journal":
        with Journal(files.journal) as journal:
            journal.append(Asked(()))
    else:
        [checkpoint] = files.checkpoints.iterdir()
        shutil.copytree(checkpoint, checkpoint.with_name(f"{checkpoint.stem}.999999"))
    export_home(theirs, back)
    assert "\ninterrupted, started" in run(*shown).succeeded()
    warnings: list[str] = []
    assert import_home(stopped.home, back, warnings.append) == Copied(0, 1)
    expected = f"{files.id} was begun here and now continues from {back}, so it is shown as imported"
    assert warnings == [expected]
    assert "\nimported, interrupted, started" in run(*shown).succeeded()
    assert f"Sweep {files.id}, imported\n" in run("explain", *shown[1:]).succeeded()
    assert import_home(stopped.home, back, pytest.fail) == Copied(0, 0)
