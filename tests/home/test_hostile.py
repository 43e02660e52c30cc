"""Homes, archives and records made by another user: no traceback, no hang, and nothing outside is touched."""

from __future__ import annotations

import random
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from orchestrator.home.directories import Home
from orchestrator.home.inspection import foreign_things
from orchestrator.site.pages import SweepPages
from tests.cli.program import command
from tests.home.hostile import Place, changed_archive, made

KINDS = ("space", "journal", "journal torn", "outcome", "contents", "origin", "arrays", "probe", "members", "progress")
MORE = ("checkpoint", "stop", "weights", "answer", "report")
WITHIN_S, WAIT_S = 10, 280
"""Seconds of the processor for a command, and seconds in all on a busy machine."""
FORBIDDEN = re.compile("Traceback|should not happen|[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@contextmanager
def in_time() -> Iterator[None]:
    """Fail if a block takes longer than :data:`WITHIN_S` of the processor, or waits longer than :data:`WAIT_S`."""

    def late(number: int, frame: FrameType | None) -> None:
        busy = number == signal.SIGPROF
        pytest.fail(f"it took {WITHIN_S} s of the processor" if busy else f"it took {WAIT_S} s")

    kinds = ((signal.SIGALRM, signal.ITIMER_REAL, WAIT_S), (signal.SIGPROF, signal.ITIMER_PROF, WITHIN_S))
    before = [signal.signal(number, late) for number, _, _ in kinds]
    for _, timer, seconds in kinds:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(kinds, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def told(*words: object, why: object = "") -> str:
    """Run a command, which may refuse but not break. Return its output."""
    with in_time():
        ended = command(*words)
    assert ended.code in (0, 1, 2), (why, words, ended)
    assert not (found := FORBIDDEN.search(ended.out + ended.err)), (
        why,
        words,
        found,
        ended.out[-3000:],
        ended.err[-3000:],
    )
    return ended.out + ended.err


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return made(tmp_path_factory.mktemp("hostile"))


def looked_at(place: Place, why: object, *, pages: bool) -> None:
    """List the sweeps of a home; with ``pages``, use every command that reads it."""
    home = place.home.root
    listed = told("sweeps", "--home", home, why=why)
    assert place.begun in listed, why
    assert place.finished in listed, why
    if pages:
        for sweep_id in (place.finished, place.begun):
            told("status", sweep_id, "--runs", "--home", home, why=why)
            told("explain", sweep_id, "--home", home, why=why)
        told("plan", place.home.sweep(place.finished).spec, why=why)
        told("report", place.finished, "--home", home, why=why)
        told("sweeps", "--json", "--home", home, why=why)
        told("home", "export", home.parent / "again.tar.gz", "--home", home, why=why)
        with in_time():
            assert not re.search("<script>alert|\x1b", SweepPages(place.home).index()), why
    assert [(path.name, path.read_text()) for path in place.victim.iterdir()] == [("file", "nothing may touch this")]


def mutate(place: Place, kind: str, count: int, first: int = 0) -> None:
    """Change a file of this kind in ``count`` random ways, one after another, and look at the home each time."""
    path, change = place.files()[kind]
    directory = path.parent
    saved = directory.with_name("saved")
    shutil.copytree(directory, saved)
    try:
        for number in range(first, first + count):
            change(path, random.Random(f"{kind} {number}"))
            looked_at(place, (kind, number), pages=number % 10 == 0)
            shutil.rmtree(directory)
            shutil.copytree(saved, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        saved.rename(directory)


@pytest.mark.parametrize("kind", [*KINDS, *MORE])
def test_a_home_with_a_changed_file_is_shown_or_refused(kind: str, place: Place) -> None:
    mutate(place, kind, 3)


@pytest.mark.night
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", [*KINDS, *MORE])
def test_a_home_with_a_file_changed_in_500_ways_is_shown_or_refused(kind: str, place: Place) -> None:
    mutate(place, kind, 500, first=3)


def imported(place: Place, count: int, directory: Path, first: int = 0) -> None:
    file, new = directory / "home.tar.gz", Home(directory / "new")
    told("home", "export", file, "--home", place.home.root)
    original = file.read_bytes()
    (directory / "victim").write_text("nothing may touch this")
    for number in range(first, first + count):
        file.write_bytes(original)
        changed_archive(file, random.Random(f"archive {number}"))
        told("home", "import", file, "--home", new.root, why=number)
        told("sweeps", "--home", new.root, why=number)
        assert foreign_things(new) == []
        assert {path.name for path in directory.iterdir()} <= {"home.tar.gz", "new", "victim"}
        assert (directory / "victim").read_text() == "nothing may touch this"
        shutil.rmtree(new.root, ignore_errors=True)


def test_a_changed_archive_is_imported_or_refused(place: Place, tmp_path: Path) -> None:
    imported(place, 6, tmp_path)


@pytest.mark.night
@pytest.mark.timeout(3600)
def test_an_archive_changed_in_500_ways_is_imported_or_refused(place: Place, tmp_path: Path) -> None:
    imported(place, 500, tmp_path, first=6)
