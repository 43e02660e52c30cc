"""Runs and sweeps of an archive are shown as imported, even if it says otherwise, and never count as own results."""

from __future__ import annotations

import csv
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import orchestrator as o
from orchestrator.catalog.reading import find_run, read_sweep
from orchestrator.history.archive_members import FOREIGN_MARK, CopyCounts
from orchestrator.history.export_archive import export_home
from orchestrator.history.import_archive import import_home
from orchestrator.history.journal import Answered, Asked, Ended, Journal, read_journal
from orchestrator.history.resume import find_unfinished, newest_sweep
from orchestrator.history.sweeps import ANSWER_FILE, REPORT_FILE
from orchestrator.home.directories import Home
from orchestrator.home.new_home import make_home
from orchestrator.home.ownership import trust_home
from orchestrator.home.run_store import UNKNOWN_SWEEP, RunStore
from orchestrator.home.seals import CONTENTS, seal
from orchestrator.site.pages import SweepPages
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.probe_stored_runs import probe_runs
from tests.catalog.fabricated import leave_run, outcome_of, runs_of, write_sweep
from tests.cli.program import Program
from tests.families import Firing
from tests.history.test_archive import contents
from tests.home.test_damage import Stopped, stopped, undisturbed
from tests.sweep.sweeps import interrupt_after, printed, quiet, run_here, spec
from tests.sweep.test_tuning import tuned_spec, tuning_runs

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
    return {entry.key: entry.trained_for for entry in entries if isinstance(entry, Ended)}


@pytest.mark.parametrize("is_resumed", [True, False], ids=["of this sweep", "of another sweep of this home"])
def test_an_imported_run_is_never_one_that_was_trained_here(is_resumed: bool, tmp_path: Path) -> None:
    """An archive names the unfinished sweep that is resumed, or a finished one whose runs a new sweep reuses."""
    home, wanted = Home(tmp_path / "home"), spec()
    own = write_sweep(home, wanted, runs=runs_of(wanted)[:3], answered=not is_resumed)
    before = set(RunStore(home).stored_keys())
    file, keys = forged(tmp_path, own.id, wanted)
    assert import_home(home, file, pytest.fail) == CopyCounts(len(keys - before), 0)
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


def test_a_run_that_is_imported_while_it_trains_does_not_replace_the_one_that_was_trained_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home, wanted = Home(tmp_path / "home"), spec(mixes=["add"], sizes=[8], seeds=1)
    file, [key] = forged(tmp_path, "other-20260101-000000-0000", wanted)
    make_home(home.root, pytest.fail)
    store = RunStore(home, "new")
    assert store.claim(key)
    import_home(home, file, pytest.fail)
    forged_outcome = store.find(key)
    [config] = runs_of(wanted)
    own = replace(outcome_of(config), steps=77)
    assert store.put(key, own, {}) == own != forged_outcome
    assert (store.is_imported(key), store.trained_for(key)) == (False, "")
    assert f"run {key} was imported while it trained here: the run that was trained here is kept" in caplog.messages
    assert store.put(key, forged_outcome or own, {}) == own


@pytest.mark.parametrize("change", ["journal", "checkpoint", "answer"])
def test_a_sweep_that_was_begun_here_does_not_continue_from_an_archive(
    change: str, stopped: Stopped, tmp_path: Path, run: Program
) -> None:
    """Somebody who was given a sweep adds pairs, runs or an answer, or weights of their own to train on from."""
    given, back, theirs = tmp_path / "given.tar.gz", tmp_path / "back.tar.gz", Home(tmp_path / "theirs")
    export_home(stopped.home, given)
    import_home(theirs, given, pytest.fail)
    files, shown = theirs.sweep(stopped.files.id), ("status", stopped.files.id, "--home", stopped.home.root)
    if change == "checkpoint":
        [checkpoint] = files.checkpoints.iterdir()
        shutil.copytree(checkpoint, checkpoint.with_name(f"{checkpoint.stem}.999999"))
    else:
        with Journal(files.journal) as journal:
            journal.append(Asked(()) if change == "journal" else Answered())
        (files.directory / ANSWER_FILE).write_text("forged")
    export_home(theirs, back)
    before = contents(stopped.home)
    warnings: list[str] = []
    assert import_home(stopped.home, back, warnings.append) == CopyCounts(0, 0)
    assert warnings == [
        f"{files.id} was begun or continued here, so its continuation in {back} is not imported. If you made "
        "that file, import it with --mine"
    ]
    assert contents(stopped.home) == before
    assert "\ninterrupted, started" in run(*shown).succeeded()


@pytest.mark.parametrize("rest", [b"", b"x" * 300_000], ids=["whole lines", "an incomplete line"])
def test_an_imported_sweep_that_was_continued_here_does_not_continue_from_an_archive(
    rest: bytes, stopped: Stopped, tmp_path: Path
) -> None:
    """An incomplete line at the end, which is dropped here, does not hide the lines that are added."""
    with stopped.files.journal.open("ab") as file:
        file.write(rest)
    export_home(stopped.home, tmp_path / "first.tar.gz")
    here, theirs = Home(tmp_path / "here"), Home(tmp_path / "theirs")
    import_home(here, tmp_path / "first.tar.gz", pytest.fail)
    files = here.sweep(stopped.files.id)
    with Journal(files.journal) as journal:
        journal.append(Asked(()))
    export_home(here, tmp_path / "shared.tar.gz")
    import_home(theirs, tmp_path / "shared.tar.gz", pytest.fail)
    with Journal(theirs.sweep(files.id).journal) as journal:
        journal.append(Answered())
    (theirs.sweep(files.id).directory / ANSWER_FILE).write_text("forged")
    export_home(theirs, tmp_path / "back.tar.gz")
    before = contents(here)
    warnings: list[str] = []
    assert import_home(here, tmp_path / "back.tar.gz", warnings.append) == CopyCounts(0, 0)
    assert [f"{files.id} was begun or continued here" in line for line in warnings] == [True]
    assert contents(here) == before


@pytest.mark.parametrize("change", ["journal", "checkpoint"])
def test_an_archive_leaves_the_checkpoints_of_an_imported_sweep_that_trains_here(
    change: str, stopped: Stopped, tmp_path: Path, run: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its journal does not grow before a run has ended."""
    here, theirs = Home(tmp_path / "here"), Home(tmp_path / "theirs")

    def train_for_a_moment(home: Home) -> None:
        interrupt_after(1, monkeypatch)
        again = ("--resume", stopped.files.id, "--home", home.root)
        assert run("run", stopped.space, "--engine=local", *again).code == 130

    train_for_a_moment(stopped.home)  # The journal has the pairs that the search has asked for.
    export_home(stopped.home, tmp_path / "first.tar.gz")
    for home in (here, theirs):
        import_home(home, tmp_path / "first.tar.gz", pytest.fail)
    files = theirs.sweep(stopped.files.id)
    before = here.sweep(files.id).journal.read_bytes()
    train_for_a_moment(here)
    assert here.sweep(files.id).journal.read_bytes() == before
    if change == "journal":
        with Journal(files.journal) as journal:
            journal.append(Asked(()))
    else:
        checkpoint = min(files.checkpoints.glob("[!.]*"))
        shutil.copytree(checkpoint, checkpoint.with_name(f"{checkpoint.stem}.999999"))
    export_home(theirs, tmp_path / "back.tar.gz")
    kept, warnings = contents(here), list[str]()
    assert import_home(here, tmp_path / "back.tar.gz", warnings.append) == CopyCounts(0, 0)
    assert [f"{files.id} was begun or continued here" in line for line in warnings] == [True]
    assert contents(here) == kept


def test_an_imported_sweep_continues_from_a_later_archive(stopped: Stopped, tmp_path: Path, run: Program) -> None:
    later, files = tmp_path / "later.tar.gz", stopped.files
    export_home(stopped.home, tmp_path / "first.tar.gz")
    import_home(Home(tmp_path / "here"), tmp_path / "first.tar.gz", pytest.fail)
    with Journal(files.journal) as journal:
        journal.append(Asked(()))
    export_home(stopped.home, later)
    assert import_home(Home(tmp_path / "here"), later, pytest.fail) == CopyCounts(0, 1)
    shown = ("status", files.id, "--home", tmp_path / "here")
    assert "\nimported, interrupted, started" in run(*shown).succeeded()
    assert f"Sweep {files.id}, imported\n" in run("explain", *shown[1:]).succeeded()
    assert import_home(Home(tmp_path / "here"), later, pytest.fail) == CopyCounts(0, 0)


def test_checkpoints_of_an_archive_do_not_change_a_sweep_that_has_its_answer(tmp_path: Path) -> None:
    home, theirs = Home(tmp_path / "home"), Home(tmp_path / "theirs")
    own = write_sweep(home)
    export_home(home, tmp_path / "given.tar.gz")
    import_home(theirs, tmp_path / "given.tar.gz", pytest.fail)
    (theirs.sweep(own.id).checkpoints / "stack.1").mkdir(parents=True)
    (theirs.sweep(own.id).checkpoints / "stack.1" / "state.bin").write_bytes(b"theirs")
    export_home(theirs, tmp_path / "back.tar.gz")
    assert import_home(home, tmp_path / "back.tar.gz", pytest.fail) == CopyCounts(0, 0)
    assert not own.files.is_imported
    assert not own.files.checkpoints.exists()


@pytest.mark.parametrize("is_known", [False, True], ids=["first import", "imported before"])
def test_what_a_user_says_is_their_own_is_not_shown_as_imported(
    is_known: bool, stopped: Stopped, tmp_path: Path, run: Program
) -> None:
    file, here, sweep_id = tmp_path / "mine.tar.gz", Home(tmp_path / "here"), stopped.files.id
    export_home(stopped.home, file)
    words = ("home", "import", file, "--home", here.root)
    if is_known:
        run(*words).succeeded()
        assert here.sweep(sweep_id).is_imported
    assert "as your own" in run(*words, "--mine").succeeded()
    store = RunStore(here, sweep_id)
    assert not here.sweep(sweep_id).is_imported
    assert [key for key in store.stored_keys() if store.is_imported(key)] == []
    assert "\ninterrupted, started" in run("status", sweep_id, "--home", here.root).succeeded()
    assert import_home(here, file, pytest.fail, mine=True) == CopyCounts(0, 0)
    assert import_home(here, file, pytest.fail) == CopyCounts(0, 0)
    assert not here.sweep(sweep_id).is_imported


@pytest.mark.parametrize("kind", ["sweep", "run"])
def test_what_a_home_has_imported_stays_so_in_another_home_of_its_owner(kind: str, tmp_path: Path) -> None:
    """Another user's sweep does not become one's own on the way through two machines."""
    theirs, first, second = (Home(tmp_path / name) for name in ("theirs", "first", "second"))
    sweep_id = write_sweep(theirs).id
    if kind == "run":
        shutil.rmtree(theirs.root / "sweeps")
    export_home(theirs, tmp_path / "one.tar.gz")
    import_home(first, tmp_path / "one.tar.gz", pytest.fail)
    own = write_sweep(first, spec(name="own", sizes=[20, 40])).id
    export_home(first, tmp_path / "two.tar.gz")
    import_home(second, tmp_path / "two.tar.gz", pytest.fail, mine=True)
    imported = {one for one in second.sweep_ids() if second.sweep(one).is_imported}
    assert imported == ({sweep_id} if kind == "sweep" else set())
    assert own in second.sweep_ids()
    for home in (first, second):
        keys = RunStore(home).stored_keys()
        assert {key for key in keys if RunStore(home).is_imported(key)} == set(RunStore(theirs).stored_keys())
        assert len(keys) > len(RunStore(theirs).stored_keys())
        assert not list(home.root.rglob(FOREIGN_MARK))


@pytest.mark.parametrize("change", ["journal", "space"])
def test_a_sweep_that_somebody_else_changed_does_not_become_ones_own(
    change: str, stopped: Stopped, tmp_path: Path
) -> None:
    """The own file has fewer lines of the journal, or another question."""
    file, changed, here, theirs = tmp_path / "mine", tmp_path / "changed", Home(tmp_path / "here"), tmp_path / "theirs"
    export_home(stopped.home, file)
    import_home(Home(theirs), file, pytest.fail)
    files = Home(theirs).sweep(stopped.files.id)
    if change == "journal":
        with Journal(files.journal) as journal:
            journal.append(Asked(()))
    else:
        files.spec.write_text(files.spec.read_text().replace("question: ", "question: Not "))
    export_home(Home(theirs), changed)
    import_home(here, changed, pytest.fail)
    warnings: list[str] = []
    import_home(here, file, warnings.append, mine=True)
    assert here.sweep(stopped.files.id).is_imported
    assert len(warnings) == (change == "space")


def test_only_an_import_can_be_ones_own(run: Program, tmp_path: Path) -> None:
    message = run("home", "export", tmp_path / "x.tar.gz", "--mine", "--home", tmp_path / "home").refused()
    assert "No such option: --mine" in message


def test_a_run_that_an_archive_brings_in_the_place_of_a_lost_one_is_shown_as_imported(
    tmp_path: Path, run: Program
) -> None:
    """The journal still says that the sweep has trained it."""
    home, wanted = Home(tmp_path / "home"), spec()
    own = write_sweep(home, wanted).id
    file, keys = forged(tmp_path, own, wanted)
    shutil.rmtree(home.runs / min(keys))
    import_home(home, file, pytest.fail)
    assert "\nfinished, 1 run imported, started" in run("status", own, "--home", home.root).succeeded()
    assert [run.trained_for for run in read_sweep(home, own).runs if run.is_imported] == [f"{own} (imported)"]


def test_what_a_sweep_trains_from_checkpoints_of_an_archive_is_imported_for_other_sweeps(
    stopped: Stopped, tmp_path: Path, run: Program
) -> None:
    """Their author may have trained those models on the answers up to the last step."""
    file, home, known = tmp_path / "theirs.tar.gz", Home(tmp_path / "here"), RunStore(stopped.home).stored_keys()
    export_home(stopped.home, file)
    import_home(home, file, pytest.fail)
    words, theirs = ("run", stopped.space, "--engine=local", "--home", home.root), stopped.files.id
    run(*words, "--resume", theirs).succeeded()
    trained = {key for key, origin in origins(home, theirs).items() if not origin} - {*known}
    assert trained
    run(*words).succeeded()
    [own] = {*home.sweep_ids()} - {theirs}
    assert {origins(home, own)[key] for key in trained} == {f"{theirs} (imported)"}
    assert {RunStore(home, theirs).trained_for(key) for key in trained} == {""}


def test_a_run_that_starts_from_the_weights_of_an_imported_one_is_imported_for_other_sweeps(tmp_path: Path) -> None:
    home, wanted = Home(tmp_path / "home"), spec(mixes=["add"], sizes=[8], seeds=1)
    file, [donor] = forged(tmp_path, "theirs-20260101-000000-0000", wanted)
    import_home(home, file, pytest.fail)
    [config] = runs_of(wanted)
    RunStore(home, "own").put("second", outcome_of(config), {}, donor=donor)
    RunStore(home, "own").put("third", outcome_of(config), {}, donor="second")
    RunStore(home, "own").put("alone", outcome_of(config), {})
    for key, elsewhere in (("second", "own (imported)"), ("third", "own (imported)"), ("alone", "own")):
        assert RunStore(home, "other").trained_for(key) == elsewhere
        assert RunStore(home, "own").trained_for(key) == ""


def brought(place: Path, home: Home, settings: SweepSpec, *, answered: bool = True, claims: str = "") -> str:
    """Import a sweep of another user with all of its runs, and return its id. If it ``claims`` a sweep, its journal
    says that another sweep has trained them."""
    theirs = Home(place / "theirs")
    files = write_sweep(theirs, settings, answered=answered).files
    if claims:
        entries = list(read_journal(files.journal))
        files.journal.unlink()
        with Journal(files.journal) as journal:
            for entry in entries:
                assert not isinstance(entry, str)
                if isinstance(entry, Ended):
                    entry = replace(entry, trained_for=claims)
                journal.append(entry)
    export_home(theirs, place / "brought.tar.gz")
    import_home(home, place / "brought.tar.gz", pytest.fail)
    return files.id


def test_an_archive_that_gives_keys_of_our_runs_to_other_runs_changes_nothing_of_them(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    own = write_sweep(home, spec()).id
    theirs = write_sweep(Home(tmp_path / "theirs"), spec()).files
    entries = [entry for entry in read_journal(theirs.journal) if not isinstance(entry, str)]
    ended = [entry for entry in entries if isinstance(entry, Ended)]
    keys = {mix: [one.key for one in ended if one.request.mix == mix] for mix in ("add", "add+prod")}
    swapped = {key: other for own_keys in keys.values() for key, other in zip(own_keys, own_keys[::-1], strict=True)}
    theirs.journal.unlink()
    with Journal(theirs.journal) as journal:
        for entry in entries:
            journal.append(replace(entry, key=swapped[entry.key]) if isinstance(entry, Ended) else entry)
    export_home(Home(tmp_path / "theirs"), tmp_path / "brought.tar.gz")
    import_home(home, tmp_path / "brought.tar.gz", pytest.fail)
    stored = read_sweep(home, theirs.id)
    moved = [one for one in stored.runs if one.key != swapped[one.key]]
    counts = probe_runs(Firing(), stored.spec, moved, again=True).counts
    assert counts == {"with keys of other code": len(moved)}
    assert len(moved) >= 8
    assert not any((one.directory / "probes").exists() for one in stored.runs)
    shown = find_run(home, ended[0].key)[1]
    assert shown.id == own
    assert [one.request for one in shown.runs if one.key == ended[0].key] == [ended[0].request]


@pytest.mark.parametrize("is_claimed", [False, True], ids=["of its sweep", "that its journal says are of this home"])
def test_a_sweep_that_extends_an_imported_one_is_shown_as_imported(
    is_claimed: bool, tmp_path: Path, run: Program
) -> None:
    """Its evidence continues with pairs and runs of another user."""
    home, wanted = Home(tmp_path / "home"), spec()
    own = write_sweep(home, spec(name="own", sizes=[20, 40])).id
    theirs = brought(tmp_path, home, wanted, claims=own if is_claimed else "")
    console = quiet()
    run_here(wanted, home.root, console=console, extend="logistic")
    [extending] = {*home.sweep_ids()} - {own, theirs}
    assert home.sweep(extending).is_imported
    assert set(origins(home, extending).values()) == {f"{theirs} (imported)"}
    assert f"trained for {theirs} (imported) (32)" in printed(console)
    assert f"{theirs} came with an archive, so {extending}, which extends it" in printed(console)
    assert "\nimported, finished" in run("status", extending, "--home", home.root).succeeded()


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "unfinished"])
def test_an_imported_sweep_never_stands_for_an_own_one(
    answered: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has the same settings and is newer. `reproduce` and `run ... --resume` look for one's own."""
    home, wanted = Home(tmp_path / "home"), spec()
    theirs = brought(tmp_path, home, wanted, answered=answered)
    assert newest_sweep(wanted, home) is None
    assert find_unfinished(wanted, home).id == theirs
    assert f"{theirs} came with an archive" in caplog.text
    own = write_sweep(home, wanted, runs=runs_of(wanted)[:3], answered=answered).id
    past = home.sweep(own).journal.stat().st_mtime - 1e6
    os.utime(home.sweep(own).journal, (past, past))
    assert home.sweep_ids() == [theirs, own]
    newest = newest_sweep(wanted, home)
    assert newest is not None
    assert (newest.id, find_unfinished(wanted, home).id) == (own, own)


def test_an_imported_sweep_that_cannot_be_read_is_shown_as_imported(tmp_path: Path, run: Program) -> None:
    home = Home(tmp_path / "home")
    make_home(home.root, pytest.fail)
    sweep_id = brought(tmp_path, home, spec())
    home.sweep(sweep_id).spec.write_text("[]")
    (home.sweep(sweep_id).directory / REPORT_FILE).write_text("<script>")
    (home.sweep(sweep_id).directory / ANSWER_FILE).write_text("forged")
    text = " ".join(run("sweeps", "--home", home.root).succeeded().split())
    assert f"{sweep_id} (imported) its stored answer, not checked: forged " in text
    assert f"{sweep_id} (imported) cannot be read: " in text
    assert text.endswith("`ui` shows its author's report.")
    [row] = json.loads(run("sweeps", "--json", "--home", home.root).succeeded())
    assert (row["state"], row["imported"]) == ("unreadable", True)
    assert f"{sweep_id} (imported) cannot be read" in run("status", sweep_id, "--home", home.root).err
    assert "imported, unreadable" in SweepPages(home).index()


def test_comparisons_and_notebooks_show_which_sweeps_were_imported(tmp_path: Path, run: Program) -> None:
    home, place = Home(tmp_path / "home"), ("--home", tmp_path / "home")
    theirs = brought(tmp_path, home, spec())
    own = write_sweep(home, spec(seed=100)).id
    assert "\nlogistic, imported  add " in run("compare", theirs, own, *place).succeeded()
    assert f"\n  {own}\n  {theirs}, imported\n" in run("compare", "--pooled", theirs, own, *place).succeeded()
    sweeps = {sweep_id: o.load(sweep_id, home.root) for sweep_id in (theirs, own)}
    assert [sweep.is_imported for sweep in sweeps.values()] == [True, False]
    assert repr(sweeps[theirs]).startswith(f"<sweep {theirs}: imported, finished, ")
    assert sweeps[theirs]._repr_html_().startswith(f"<b>{theirs}</b>, imported, finished, ")
    assert repr(sweeps[own]).startswith(f"<sweep {own}: finished, ")
    assert f"{own}, {theirs} (imported)>" in repr(o.load([theirs, own], home.root))
    assert dict(o.sweeps(home.root)[["sweep", "imported"]].to_numpy()) == {theirs: True, own: False}
    assert read_sweep(home, theirs).is_imported
    for frame in (sweeps[theirs].runs, sweeps[theirs].transitions, sweeps[theirs].posterior):
        assert set(frame["sweep"]) == {f"{theirs} (imported)"}


@pytest.mark.parametrize("is_whole", [True, False], ids=["all runs", "some runs"])
def test_a_sweep_with_runs_of_an_archive_says_so_wherever_it_is_shown(
    is_whole: bool, tmp_path: Path, run: Program
) -> None:
    """The sweep is one's own, but its evidence is what another user wrote."""
    home, wanted = Home(tmp_path / "home"), spec()
    file, keys = forged(tmp_path, "other-20260101-000000-0000", wanted)
    if not is_whole:
        write_sweep(home, wanted, runs=runs_of(wanted)[:30])
    import_home(home, file, pytest.fail)
    run_here(wanted, home.root)
    own = home.sweep_ids()[0]
    count = sum(origin.endswith("(imported)") for origin in origins(home, own).values())
    assert 0 < count <= len(keys)
    place, words = (own, "--home", home.root), f"{count} run{'s' if count > 1 else ''} imported"
    assert not home.sweep(own).is_imported
    assert f"\nfinished, {words}, started" in run("status", *place).succeeded()
    assert f"Sweep {own}, {words}\n" in run("explain", *place).succeeded()
    assert f"{own}: finished, {words}, " in repr(o.load(own, home.root))
    run("report", *place).succeeded()
    assert f"finished, {count} runs imported" in (home.sweep(own).directory / "report.html").read_text()


def test_what_a_sweep_with_runs_of_an_archive_passes_on_says_so(tmp_path: Path, run: Program) -> None:
    """Readers of these files and captions have neither the home nor the archive."""
    home, wanted = Home(tmp_path / "home"), spec()
    file, keys = forged(tmp_path, "other-20260101-000000-0000", wanted)
    write_sweep(home, wanted, runs=[one for one in runs_of(wanted) if one.label == "add"])
    import_home(home, file, pytest.fail)
    run_here(wanted, home.root)
    own = home.sweep_ids()[0]
    count = sum(origin.endswith("(imported)") for origin in origins(home, own).values())
    assert 0 < count < len(keys)
    caption = run("figure", own, "--home", home.root).succeeded()
    assert caption.endswith(f" Sweep {own}, {count} runs imported.\n")
    stored = (home.sweep(own).directory / ANSWER_FILE).read_text()
    assert stored.endswith(f"\norigin  {count} runs imported")
    [answer_file] = o.load(own, home.root).export(tmp_path / "answer.json")
    written = json.loads(answer_file.read_text())
    assert (written["imported"], written["imported_runs"]) == (False, count)
    space = tmp_path / "space.yaml"
    space.write_text(wanted.to_yaml())
    checked = run("verify", answer_file, "--space", space).succeeded()
    assert f"\norigin  {count} runs imported\nagrees  " in checked
    run("export", own, "--output", tmp_path / "tables", "--home", home.root).succeeded()
    with (tmp_path / "tables" / "transitions.csv").open() as table:
        imported = {row["mix"]: int(row["imported_runs"]) for row in csv.DictReader(table)}
    assert imported == {"add": 0, "add+prod": count}
    assert repr(o.load(own, home.root).answer).endswith(f"\norigin  {count} runs imported")


def test_a_quiet_command_says_that_runs_of_its_answer_came_with_an_archive(tmp_path: Path, run: Program) -> None:
    home, wanted = Home(tmp_path / "home"), spec()
    file, keys = forged(tmp_path, "other-20260101-000000-0000", wanted)
    import_home(home, file, pytest.fail)
    space = tmp_path / "space.yaml"
    space.write_text(wanted.to_yaml())
    words = ("run", space, "--engine", "local", "--record", "jsonl", "--home", home.root)
    answer = run(*words, "--quiet").succeeded()
    [own] = [sweep_id for sweep_id in home.sweep_ids() if not home.sweep(sweep_id).is_imported]
    count = sum(origin.endswith("(imported)") for origin in origins(home, own).values())
    assert 0 < count <= len(keys)
    assert answer.endswith(f"\norigin  {count} runs imported\n")


def test_the_answer_of_an_imported_sweep_says_so_in_its_file(tmp_path: Path, run: Program) -> None:
    home = Home(tmp_path / "home")
    theirs, own = brought(tmp_path, home, spec()), write_sweep(home, spec(seed=100)).id
    written = {sweep: o.load(sweep, home.root).export(tmp_path / f"{sweep}.json")[0] for sweep in (theirs, own)}
    assert json.loads(written[theirs].read_text())["imported"] is True
    assert "imported" not in written[own].read_text()
    space = tmp_path / "space.yaml"
    space.write_text(spec().to_yaml())
    assert "\norigin  imported\nagrees  " in run("verify", written[theirs], "--space", space).succeeded()
    assert "origin" not in run("verify", written[own], "--space", space).succeeded()
    assert run("figure", theirs, "--home", home.root).succeeded().endswith(f" Sweep {theirs} (imported).\n")


def test_a_sweep_that_was_tuned_by_runs_of_an_archive_says_so(tmp_path: Path, run: Program) -> None:
    """The author of the archive has chosen the settings of each mix."""
    theirs, home, wanted = Home(tmp_path / "theirs"), Home(tmp_path / "home"), tuned_spec(trials=2)
    run_here(wanted, theirs.root)
    trials = {entry.key for entry in tuning_runs(theirs.root)}
    store = RunStore(theirs)
    for key in set(store.stored_keys()) - trials:
        store.delete(key)
    shutil.rmtree(theirs.root / "sweeps")
    export_home(theirs, tmp_path / "trials.tar.gz")
    import_home(home, tmp_path / "trials.tar.gz", pytest.fail)
    run_here(wanted, home.root)
    [own] = home.sweep_ids()
    words = f"finished, {len(trials)} runs imported"
    assert f"\n{words}, started" in run("status", own, "--home", home.root).succeeded()
    run("report", own, "--home", home.root).succeeded()
    assert words in (home.sweep(own).directory / "report.html").read_text()
    run_here(wanted, home.root, extend=own)
    [extending] = {*home.sweep_ids()} - {own}
    assert f"\n{words}, started" in run("status", extending, "--home", home.root).succeeded()


@pytest.mark.parametrize("is_own", [False, True])
def test_rm_of_an_imported_sweep_asks_no_server(
    is_own: bool, run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a team's server, the records of that id may be those of the sweep's author."""
    theirs = write_sweep(Home(tmp_path / "theirs"))
    export_home(theirs.files.home, tmp_path / "theirs.tar.gz")
    home = Home(tmp_path / "home")
    import_home(home, tmp_path / "theirs.tar.gz", pytest.fail, mine=is_own)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    done = run("rm", theirs.id, "--yes", "--home", home.root)
    if is_own:
        assert done.code == 1
        assert home.sweep_ids() == [theirs.id]
    else:
        assert "others may have made them" in done.err
        assert done.succeeded()
        assert home.sweep_ids() == []


@pytest.mark.parametrize("origin", ["", "no json", '{"sweep": "", "ended": "2026-01-02T03:04:05+00:00", "source": ""}'])
def test_runs_in_a_copied_home_that_do_not_say_where_they_are_from_are_shown_as_such(
    origin: str, tmp_path: Path
) -> None:
    """A home can also come as a copy, without an import. Its author must not pass runs off as those of a new sweep."""
    home, wanted = Home(tmp_path / "home"), spec()
    forged(tmp_path, "theirs-20260101-000000-abcd", wanted)
    shutil.copytree(tmp_path / "theirs" / "runs", home.root / "runs")
    trust_home(home.root)
    for path in home.runs.glob("*/origin.json"):
        path.write_text(origin)
        if not origin:
            path.unlink()
        (path.parent / CONTENTS).unlink()
        seal(path.parent)
    console = quiet()
    run_here(wanted, home.root, console=console)
    trained_for = origins(home, home.sweep_ids()[0])
    assert trained_for
    assert set(trained_for.values()) == {UNKNOWN_SWEEP}
    assert f"trained for {UNKNOWN_SWEEP} ({len(trained_for)})" in printed(console)
