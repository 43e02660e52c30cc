"""Damaged and foreign files on the command line: each is named, and the table equals that of an undamaged sweep."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.engine.worker import StackWorker
from orchestrator.history.journal import Begun, to_line
from orchestrator.history.sweeps import UnreadableError, load_sweep
from orchestrator.home.directories import Home, SweepDirectory
from orchestrator.home.run_files import ARRAYS, OUTCOME, WEIGHTS
from orchestrator.home.run_store import RunStore
from orchestrator.home.seals import flaw_of
from orchestrator.search.base import Request
from orchestrator.space.spec import SweepSpec
from tests.catalog.fabricated import leave_stack, runs_of, write_sweep
from tests.cli.program import Program, command
from tests.copies import own_copy
from tests.engine.jobs import job_for
from tests.home.hostile import signed
from tests.scripted import FAMILY, trained
from tests.sweep.sweeps import ended, remembered, spec, table_of

KEPT = 5
"""Journalled runs of the damaged sweep, which is unfinished."""


@dataclass(frozen=True)
class Place:
    """A home with two sweeps: ``whole``, of another space, and ``hurt``, to be damaged."""

    root: Path
    whole: str
    hurt: str

    @property
    def files(self) -> SweepDirectory:
        return Home(self.root).sweep(self.hurt)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    home, wanted_spec = Home(tmp_path / "home"), spec(name="hurt")
    hurt = write_sweep(home, wanted_spec, runs=runs_of(wanted_spec)[:KEPT], answered=False)
    whole = write_sweep(home, spec(name="whole", sizes=[24, 48], settings={"curve": {"midpoint": 30.0}}))
    return Place(home.root, whole.id, hurt.id)


def test_trouble_of_the_machine_is_not_taken_for_damage(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RunStore(Home(place.root))
    keys = store.stored_keys()

    opened: Callable[..., int] = os.open

    def stale(path: Path, *given: Any, **named: Any) -> int:
        if str(path).startswith(str(place.root / "runs")):
            raise OSError(errno.ESTALE, "Stale file handle", str(path))
        return opened(path, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", stale)
        for key in keys:
            with pytest.raises(OSError, match="Stale file handle"):
                store.find(key)
    assert store.stored_keys() == keys


def the_rest_works(run: Program, place: Place) -> None:
    """Check that commands about the whole sweep work and do not mention the damaged one."""
    for words in (("status", place.whole), ("status", "whole"), ("compare", place.whole)):
        done = run(*words, "--home", place.root)
        assert (done.code, done.err) == (0, ""), (words, done.err)
        assert place.hurt not in done.out
    assert place.whole in run("sweeps", "--home", place.root).out


def rewrite(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def newer(files: SweepDirectory) -> None:
    first, *lines = files.journal.read_bytes().splitlines(keepends=True)
    data = json.loads(first)
    begun = Begun(data["created"], data["environment"], schema=data["schema"] + 1)
    files.journal.write_bytes(b"".join([to_line(begun), *lines]))


def gone(files: SweepDirectory) -> None:
    """Change the family of a sweep to one that cannot be imported."""
    rewrite(files.spec, "tests.families:LogisticFamily", "gone.away:Family")


UNREADABLE: dict[str, tuple[Callable[[SweepDirectory], object], str]] = {
    "specification torn": (lambda files: files.spec.write_text("name: [hurt"), "not valid YAML"),
    "specification gone": (lambda files: files.spec.unlink(), "space.yaml: No such file"),
    "newer version": (newer, "journal.jsonl was written by another version"),
    "journal empty": (lambda files: files.journal.write_text(""), "no readable first line"),
    "family gone": (gone, "'gone.away:Family' cannot be imported: no module named 'gone.away' was found"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_unreadable_sweep_is_reported_with_its_reason(kind: str, place: Place) -> None:
    damage, why = UNREADABLE[kind]
    damage(place.files)
    with pytest.raises(UnreadableError) as unreadable:
        load_sweep(Home(place.root), place.hurt)
    assert why in str(unreadable.value)


def test_every_command_names_an_unreadable_sweep_and_shows_the_others(
    run: Program, place: Place, tmp_path: Path
) -> None:
    damage, why = UNREADABLE["specification torn"]
    damage(place.files)
    the_rest_works(run, place)
    listed = " ".join(run("sweeps", "--home", place.root).out.split())
    assert place.hurt in listed
    assert why in listed
    item = {entry["id"]: entry for entry in json.loads(run("sweeps", "--home", place.root, "--json").out)}
    assert why in item[place.hurt]["why"]
    for words in (("status",), ("report",), ("compare",), ("export", "--output", tmp_path / "none")):
        done = run(words[0], place.hurt, *words[1:], "--home", place.root)
        assert done.code == 1
        assert place.hurt in done.err
        assert why in done.err
        assert "Traceback" not in done.err


@pytest.mark.slow
def test_other_sweeps_are_recorded_and_an_unreadable_one_can_be_deleted(run: Program, place: Place) -> None:
    UNREADABLE["specification torn"][0](place.files)
    synced = run("sync", "--home", place.root)
    assert synced.code == 1
    assert f"{place.whole}: 8 runs in" in synced.out
    assert "1 of 2 sweeps cannot be recorded" in synced.err
    done = run("rm", place.hurt, "--yes", "--home", place.root)
    assert "not valid YAML" in done.out
    assert f"deleted {place.hurt}" in done.out
    assert Home(place.root).sweep_ids() == [place.whole]


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def flip_line(journal: Path, number: int) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace(b'"seed":0', b'"seed":1').replace(b'"seed":1', b'"seed":2')
    assert b'"seed":2' in lines[number - 1]
    journal.write_bytes(b"".join(lines))


READERS: dict[str, Callable[[Place, str], object]] = {
    "outcome flipped": lambda place, key: flip(place.root / "runs" / key / OUTCOME),
    "run gone": lambda place, key: shutil.rmtree(place.root / "runs" / key),
    "line": lambda place, key: flip_line(place.files.journal, 3),
}


@pytest.mark.parametrize("kind", READERS)
def test_readers_name_a_damaged_run_and_leave_it_out(kind: str, run: Program, place: Place) -> None:
    key = ended(place.root, place.hurt)[1].key
    READERS[kind](place, key)
    before = {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file()}
    the_rest_works(run, place)
    shown = run("status", place.hurt, "--home", place.root, "--json")
    assert shown.code == 0
    assert ("journal.jsonl, line 3, is damaged" if kind == "line" else f"{key} is damaged") in shown.err
    assert f"--resume {place.hurt}" in shown.err
    assert len(json.loads(shown.out)["runs"]) == KEPT - 1
    after = {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file()}
    assert after == before  # Readers do not repair files.


def test_damaged_arrays_are_named_and_left_out_of_the_report(
    run: Program, place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = list(Home(place.root).runs.glob(f"*/{ARRAYS}"))
    for path in files:
        path.write_bytes(path.read_bytes()[:100])
    assert run("report", place.whole, "--output", tmp_path / "report.html", "--home", place.root).code == 0
    assert any(f"The arrays in {path.parent} are damaged" in caplog.text for path in files)


# Real sweeps, resumed over damaged files.


def counted(log: Path) -> SweepSpec:
    grid = {"sizes": [16, 32, 64], "seeds": 2, "search": {"method": "grid"}}
    return spec(family=FAMILY, settings={"log": str(log), "steps": 4}, **grid)


@dataclass(frozen=True)
class Stopped:
    """A home whose only sweep was killed after ``done`` of its 12 runs, with two more in training."""

    home: Home
    space: Path
    log: Path
    table: list[str]
    done: int = 6

    @property
    def files(self) -> SweepDirectory:
        return self.home.sweep(self.home.sweep_ids()[0])

    @property
    def run(self) -> Path:
        """Directory of a run in the journal."""
        return self.home.runs / ended(self.home.root, self.home.sweep_ids()[0])[2].key

    @property
    def checkpoint(self) -> Path:
        [actual] = (self.files.directory / "checkpoints").glob("[!.]*/checkpoint")
        return actual


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """A finished sweep, cut back to its state after a kill."""
    root = tmp_path_factory.mktemp("undisturbed")
    (root / "space.yaml").write_text(counted(root / "log").to_yaml())
    output = command("run", root / "space.yaml", "--engine=local", "--home", root / "home").succeeded()
    actual = Stopped(Home(root / "home"), root / "space.yaml", root / "log", table_of(output))
    lines = actual.files.journal.read_bytes().splitlines(keepends=True)
    late = ended(actual.home.root, actual.files.id)[actual.done :]
    actual.files.journal.write_bytes(b"".join(lines[: 1 + actual.done]))
    for entry in late:
        shutil.rmtree(actual.home.runs / entry.key)
    sweep = load_sweep(actual.home, actual.files.id)
    requests = tuple(entry.request for entry in late[:2] if entry.request.size == late[0].request.size)
    often = sweep.spec.resources.model_copy(update={"checkpoint_every_s": 1e-9})
    left = StackWorker(replace(job_for(sweep, requests), resources=often))
    left.advance()
    left.close()
    assert actual.checkpoint.is_dir()
    return actual


@pytest.fixture
def stopped(undisturbed: Stopped, tmp_path: Path) -> Stopped:
    own_copy(undisturbed.home.root, tmp_path / "home")
    undisturbed.log.unlink(missing_ok=True)
    return Stopped(Home(tmp_path / "home"), undisturbed.space, undisturbed.log, undisturbed.table)


def claim(stopped: Stopped) -> None:
    wanted_spec = load_sweep(stopped.home, stopped.files.id).spec
    key = wanted_spec.make_family().key(wanted_spec.config(Request("add+prod", 64, 1)))
    stopped.home.claims.mkdir(exist_ok=True)
    (stopped.home.claims / key).write_bytes(b"\xff\x00/..")


DAMAGE: dict[str, tuple[Callable[[Stopped], object], int, str]] = {
    "nothing": (lambda stopped: None, 0, ""),
    "weights flipped": (lambda stopped: flip(stopped.run / WEIGHTS), 1, WEIGHTS),
    "run gone": (lambda stopped: shutil.rmtree(stopped.run), 1, "is damaged"),
    "line": (lambda stopped: flip_line(stopped.files.journal, 4), 0, "line 4, is damaged"),
    "claim": (claim, 0, ""),
    "checkpoint flipped": (
        lambda stopped: flip(next(stopped.checkpoint.rglob("*.json"))),
        0,
        "begin again at step 0",
    ),
}


@pytest.mark.parametrize("above", ["../..", "../../.."])
def test_a_resumed_sweep_leaves_directories_to_which_a_key_leads(above: str, stopped: Stopped) -> None:
    root = stopped.home.root
    victims = [place / f"victim-of-{root.parent.name}" for place in (root.parent, root.parent.parent)]
    key = f"{above}/{victims[0].name}"
    for victim in victims:
        victim.mkdir()
        (victim / "file").write_text("mine")
    values = {"kind": "ended", "key": key, "request": {"mix": "add", "size": 8, "seed": 0}, "reused_from": ""}
    with stopped.files.journal.open("ab") as file:
        file.write(signed({**values, "at": "2026-01-01T00:00:00+00:00"}) + b"\n")
    done = command("run", stopped.space, "--engine=local", "--home", root, "--resume")
    assert done.code == 0, done.err
    assert f"'{key}' is not a key" in " ".join((done.out + done.err).split())
    assert table_of(done.out) == stopped.table
    assert [[path.name for path in victim.iterdir()] for victim in victims] == [["file"], ["file"]]


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_resumed_sweep_names_damage_and_has_the_same_table(kind: str, stopped: Stopped) -> None:
    damage, again, named = DAMAGE[kind]
    damage(stopped)
    done = command("run", stopped.space, "--engine=local", "--home", stopped.home.root, "--resume")
    assert done.code == 0, done.err
    output = " ".join((done.out + done.err).split())
    assert output.count(" damaged ") == int(bool(named))
    assert named in output
    assert table_of(done.out) == stopped.table != []
    assert sum(trained(stopped.log).values()) == 12 - stopped.done + again
    assert set(trained(stopped.log).values()) == {1}
    runs = [path for path in stopped.home.runs.iterdir() if not path.name.startswith(".")]
    assert len(runs) == 12
    assert [flaw_of(path) for path in runs] == [""] * 12
    memory = remembered(stopped.home.root, stopped.files.id)
    assert (len(memory.ended), memory.answered, len(memory.damaged)) == (12, True, int("line" in kind))


def test_a_stack_with_damaged_files_is_named(run: Program, place: Place) -> None:
    sweep = load_sweep(Home(place.root), place.hurt)
    leave_stack(Home(place.root), sweep, runs_of(sweep.spec)[KEPT : KEPT + 1], 3)
    (place.files.stacks / "stack" / "members.json").write_text('{"requests": [')
    the_rest_works(run, place)
    shown = run("status", place.hurt, "--home", place.root)
    assert (shown.code, "cannot be read" in shown.err) == (0, True)
