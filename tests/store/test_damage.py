"""Old, damaged and foreign files, through the command line: each is named, and all the rest of a home goes on."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.space.spec import SweepSpec
from orchestrator.store.files import Home, SweepFiles
from orchestrator.store.records import ARRAYS
from orchestrator.store.remains import OUTCOME
from orchestrator.store.storage import kept_runs
from tests.catalogue.fabricated import leave_run, outcome_of, runs_of, write_sweep
from tests.commands.program import Ended, Program, program, separate
from tests.drive.sweeps import ended, spec

KEPT = 5
"""Runs in the journal of the sweep that is damaged; it is unfinished."""


@dataclass(frozen=True)
class Place:
    """A home with two sweeps: ``whole`` of another space, ``hurt`` to be damaged."""

    root: Path
    whole: str
    hurt: str
    space: Path

    @property
    def files(self) -> SweepFiles:
        return Home(self.root).sweep(self.hurt)


def hurt_spec() -> SweepSpec:
    return spec(name="hurt")


def whole_spec() -> SweepSpec:
    """It has no run in common with the other."""
    return spec(name="whole", sizes=[24, 48], settings={"curve": {"midpoint": 30.0}})


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Made once, with its record; each test damages a copy."""
    root = tmp_path_factory.mktemp("pattern")
    home = Home(root / "home")
    asked = hurt_spec()
    hurt = write_sweep(home, asked, runs=runs_of(asked)[:KEPT], answered=False)
    whole = write_sweep(home, whole_spec())
    (root / "hurt.yaml").write_text(asked.to_yaml())
    return Place(home.root, whole.id, hurt.id, root / "hurt.yaml")


@pytest.fixture
def place(pattern: Place, tmp_path: Path) -> Place:
    shutil.copytree(pattern.root, tmp_path / "home")
    return Place(tmp_path / "home", pattern.whole, pattern.hurt, pattern.space)


@pytest.fixture(name="run")
def run_program(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return program(capsys)


def resume(run: Program, place: Place, *words: object) -> Ended:
    return run("run", place.space, "--local-debug", "--home", place.root, *words)


def well(done: Ended) -> str:
    """What a command said that ended well."""
    assert done.code == 0, done.err
    return done.out


def the_rest_works(run: Program, place: Place, tmp_path: Path) -> None:
    """Every command that looks at the whole sweep does, and says nothing of the other."""
    asked = whole_spec()
    key = asked.make_family().key(runs_of(asked)[0])
    for words in (
        ("status", place.whole),
        ("status", "whole"),
        ("report", place.whole, "--output", tmp_path / "report.html"),
        ("compare", place.whole),
        ("export", place.whole, "--output", tmp_path / "tables"),
        ("logs", key),
        ("sync", place.whole),
    ):
        done = run(*words, "--home", place.root)
        assert (done.code, done.err) == (0, ""), (words, done.err)
        assert place.hurt not in done.out
    assert place.whole in well(run("sweeps", "--home", place.root))
    well(run("plan", place.space, "--home", place.root))


def rewrite(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def newer(files: SweepFiles) -> None:
    files.about.write_text(json.dumps(json.loads(files.about.read_text()) | {"schema": 2}))


UNREADABLE: dict[str, tuple[Callable[[SweepFiles], object], str]] = {
    "specification torn": (lambda files: files.spec.write_text("name: [hurt"), "not readable as YAML"),
    "specification empty": (lambda files: files.spec.write_text(""), "space.yaml is empty"),
    "specification gone": (lambda files: files.spec.unlink(), "space.yaml is missing"),
    "specification no text": (lambda files: files.spec.write_bytes(b"\xff\xfe\x00"), "space.yaml is no text"),
    "specification of something else": (lambda files: files.spec.write_text("shopping: [milk]"), "means nothing to"),
    "newer version": (newer, "a newer version of the program wrote the sweep (schema 2"),
    "beginning torn": (lambda files: files.about.write_text('{"id": "hu'), "sweep.json is not readable as JSON"),
    "beginning gone": (lambda files: files.about.unlink(), "sweep.json is missing"),
    "tuning torn": (lambda files: files.tunings.write_text('[{"mix"'), "tunings.json is not readable as JSON"),
    "newer journal": (
        lambda files: rewrite(files.journal, '"schema":1', '"schema":2'),
        "journal.jsonl was written by another version",
    ),
    "family gone": (
        lambda files: rewrite(files.spec, "tests.families:LogisticFamily", "gone.away:Family"),
        "family 'gone.away:Family' cannot be imported: ModuleNotFoundError",
    ),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_unreadable_sweep_is_named_and_the_rest_works(kind: str, run: Program, place: Place, tmp_path: Path) -> None:
    damage, why = UNREADABLE[kind]
    damage(place.files)
    the_rest_works(run, place, tmp_path)
    listed = " ".join(well(run("sweeps", "--home", place.root)).split())
    assert place.hurt in listed
    assert why in listed
    each = {one["id"]: one for one in json.loads(well(run("sweeps", "--home", place.root, "--json")))}
    assert why in each[place.hurt]["why"]
    assert each[place.hurt]["remedy"]
    for words in (("status",), ("report",), ("compare",), ("export", "--output", tmp_path / "none"), ("sync",)):
        done = run(words[0], place.hurt, *words[1:], "--home", place.root)
        assert done.code == 1
        assert place.hurt in done.err
        assert why in done.err
        assert "Traceback" not in done.err


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["specification torn", "newer journal", "family gone"])
def test_all_others_are_recorded_resumed_and_shown(kind: str, run: Program, place: Place) -> None:
    damage, why = UNREADABLE[kind]
    older = write_sweep(Home(place.root), hurt_spec(), runs=[], answered=False)
    ids = Home(place.root).sweep_ids()
    rename = "hurt-20200101-000000-abcd"  # Older than the one that is damaged.
    shutil.move(Home(place.root).sweep(older.id).directory, Home(place.root).sweep(rename).directory)
    damage(place.files)
    synced = run("sync", "--home", place.root)
    assert synced.code == 1
    assert f"{place.whole}: 8 runs are in" in synced.out
    assert f"{rename}: 0 runs are in" in synced.out
    assert "1 of 3 sweeps cannot be read" in synced.err
    assert why in synced.err
    resumed = resume(run, place, "--resume")
    assert f"sweep {rename}" in well(resumed)
    assert f"passed over: {place.hurt} cannot be read" in resumed.out
    # Without a name, the newest that can be read is shown.
    shutil.rmtree(Home(place.root).sweep(place.whole).directory)
    shown = run("status", "--home", place.root)
    assert rename in well(shown)
    assert f"passed over: {place.hurt}" in shown.err
    assert place.hurt in ids


def test_a_sweep_without_its_family_shows_what_its_journal_knows(run: Program, place: Place) -> None:
    UNREADABLE["family gone"][0](place.files)
    shown = run("status", place.hurt, "--home", place.root)
    assert shown.code == 1
    for entry in ended(place.root, place.hurt):
        assert entry.key in shown.out
    data = json.loads(run("status", place.hurt, "--home", place.root, "--json").out)
    assert (data["state"], len(data["runs"])) == ("interrupted", KEPT)
    listed = {each["id"]: each for each in json.loads(well(run("sweeps", "--home", place.root, "--json")))}
    assert listed[place.hurt]["state"] == "interrupted"


def test_an_unreadable_sweep_can_be_deleted(run: Program, place: Place) -> None:
    UNREADABLE["specification torn"][0](place.files)
    said = well(run("rm", place.hurt, "--yes", "--home", place.root))
    assert "not readable as YAML" in said
    assert f"deleted {place.hurt}" in said
    assert Home(place.root).sweep_ids() == [place.whole]


@pytest.mark.slow
def test_rebuild_names_what_cannot_be_read_and_records_the_others(run: Program, place: Place) -> None:
    well(run("sync", "--home", place.root))
    UNREADABLE["specification torn"][0](place.files)
    said = separate("sync", "--rebuild", "--home", place.root)
    assert said.code == 1
    assert f"{place.hurt} cannot be read" in said.err
    assert recorded(place.root) == {place.whole}
    assert len(list(place.root.glob("former-store-*/mlflow.db"))) == 1  # It has both, and is kept.


def recorded(home: Path) -> set[str]:
    """The sweeps in the store, read past MLflow."""
    with sqlite3.connect(home / "mlflow.db") as store:
        return {value for (value,) in store.execute("SELECT DISTINCT value FROM tags WHERE key = 'sweep'")}


def spoil_line(journal: Path, number: int) -> str:
    """Overwrite part of a journal's line; the line as it was."""
    lines = journal.read_text().splitlines()
    was, lines[number - 1] = lines[number - 1], lines[number - 1][:40] + "\x00" * 20 + lines[number - 1][60:]
    journal.write_text("\n".join([*lines, ""]))
    return was


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False], ids=["adopted", "trained again"])
def test_a_bad_journal_line_is_named_and_mended(whole: bool, run: Program, place: Place, tmp_path: Path) -> None:
    lost = ended(place.root, place.hurt)[1]
    outcome = kept_runs(place.files).get(lost.key) / OUTCOME
    was = spoil_line(place.files.journal, 3)
    spoiled = place.files.journal.read_bytes()
    the_rest_works(run, place, tmp_path)
    listed = " ".join(well(run("sweeps", "--home", place.root)).split())
    assert "journal.jsonl, line 3, is no journal entry" in listed
    shown = run("status", place.hurt, "--home", place.root, "--json")
    data = json.loads(well(shown))
    assert len(data["runs"]) == KEPT - 1
    assert "line 3" in data["damage"][0]
    assert "line 3" in shown.err
    assert f"--resume {place.hurt}" in shown.err
    synced = well(run("sync", "--home", place.root))
    assert "line 3" in synced
    assert f"{place.hurt}: {KEPT - 1} runs" in synced
    assert place.files.journal.read_bytes() == spoiled  # Readers mend nothing.
    if not whole:
        outcome.write_text("")
    resumed = well(resume(run, place, "--resume", place.hurt))
    assert "line 3, is no journal entry" in resumed
    [aside] = place.files.directory.glob("journal.jsonl.damaged-*")
    assert aside.read_bytes() == spoiled
    keys = [entry.key for entry in ended(place.root, place.hurt)]
    assert len(keys) == len(set(keys))
    assert lost.key in keys or not whole  # A search need not ask for the same run again.
    said = was.partition(',"at":')[0]  # All but when it was journalled.
    assert said in place.files.journal.read_text() or not whole
    asides = list(outcome.parent.parent.glob(f"{lost.key}.damaged-*"))
    assert len(asides) == (0 if whole else 1)
    assert run("status", place.hurt, "--home", place.root).err == ""


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def leave_weights(directory: Path) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    save_file({"embedding": np.ones((6, 8), np.float32)}, directory / "weights.safetensors")


SPOILED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "outcome empty": (OUTCOME, lambda path: path.write_text("")),
    "outcome torn": (OUTCOME, cut),
    "outcome of something else": (OUTCOME, lambda path: path.write_text('{"status": "finished"}')),
    "outcome gone": (OUTCOME, lambda path: path.unlink()),
    "arrays cut": (ARRAYS, cut),
    "arrays empty": (ARRAYS, lambda path: path.write_bytes(b"")),
    "weights cut": ("weights.safetensors", cut),
    "weights of something else": ("weights.safetensors", lambda path: path.write_bytes(b"weights" * 40)),
    "nothing": (OUTCOME, lambda path: None),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPOILED)
def test_a_run_is_adopted_from_disk_only_whole(kind: str, run: Program, place: Place, tmp_path: Path) -> None:
    name, spoil = SPOILED[kind]
    asked = hurt_spec()
    family = asked.make_family()
    config = next(each for each in runs_of(asked)[KEPT:] if each.size == 32)
    directory = kept_runs(place.files).get(family.key(config))
    leave_run(directory, config, outcome_of(config), place.hurt)
    leave_weights(directory)
    spoil(directory / name)
    left = {path.name: path.read_bytes() for path in directory.iterdir()}
    said = well(resume(run, place, "--resume", place.hurt))
    asides = list(directory.parent.glob(f"{directory.name}.damaged-*"))
    if kind == "nothing":
        assert asides == []
        assert family.key(config) in [entry.key for entry in ended(place.root, place.hurt)]
        return
    [aside] = asides
    assert f"{directory} is damaged ({name}" in said
    assert aside.name in said
    assert {path.name: path.read_bytes() for path in aside.iterdir()} == left
    assert "finished" in well(run("status", place.hurt, "--home", place.root))


@pytest.mark.slow
def test_a_damaged_store_stops_only_the_record(run: Program, place: Place) -> None:
    (place.root / "mlflow.db").write_text("no database, but a text of some length" * 200)
    for words in (("ui",), ("sync",), ("rm", place.hurt, "--yes")):
        done = run(*words, "--home", place.root)
        assert done.code == 1, words
        assert "file is not a database. If the file is damaged, `sync --rebuild` makes it again." in done.err
    well(run("sweeps", "--home", place.root))
    resumed = well(resume(run, place, "--resume", place.hurt))
    assert "the sweep goes on, and `sync` records it later" in resumed
    assert "records wait for `python -m orchestrator sync`" in resumed
    assert "the former store is in" in well(separate("sync", "--rebuild", "--home", place.root))
    assert recorded(place.root) == {place.whole, place.hurt}


@pytest.mark.slow
def test_what_is_no_sweep_is_left_alone(run: Program, place: Place, tmp_path: Path) -> None:
    before = well(run("sweeps", "--home", place.root))
    sweeps = place.root / "sweeps"
    (sweeps / "notes-of-a-visitor").mkdir()
    (sweeps / "notes-of-a-visitor" / "readme.txt").write_text("hello")
    (sweeps / "photo.png").write_bytes(b"\x89PNG")
    (sweeps / ".hidden").mkdir()
    (sweeps / "zebra-from-the-zoo").mkdir()
    (sweeps / "zebra-from-the-zoo" / "space.yaml").write_text("stripes: 12")
    assert well(run("sweeps", "--home", place.root)) == before
    (sweeps / "another-zoo-z-z" / "runs").mkdir(parents=True)
    (sweeps / "another-zoo-z-z" / "sweep.json").write_text("[]")
    listed = well(run("sweeps", "--home", place.root))
    assert "another-zoo-z-z cannot be read" in " ".join(listed.split())
    assert run("status", "--home", place.root).err == ""  # It is not taken for the newest.
    the_rest_works(run, place, tmp_path)
    well(resume(run, place, "--resume"))


def test_damaged_arrays_of_one_run_are_named_in_the_report(run: Program, place: Place, tmp_path: Path) -> None:
    arrays = sorted(Path(Home(place.root).runs_at).glob(f"*/{ARRAYS}"))
    assert arrays
    for path in arrays:
        cut(path)
    report = tmp_path / "report.html"
    well(run("report", place.whole, "--output", report, "--home", place.root))
    assert "are damaged" in report.read_text()
