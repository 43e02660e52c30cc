"""What a disk or a crash has spoiled: found by cheap looks, put aside under a name that says so, never deleted."""

from __future__ import annotations

import itertools
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from safetensors import SafetensorError, safe_open

from orchestrator.space.spec import SweepSpec
from orchestrator.store.files import SweepFiles, write_whole
from orchestrator.store.journal import BadLine, Ended, Journal, read_journal, without
from orchestrator.store.remains import OUTCOME, read_outcome
from orchestrator.store.storage import Storage
from trainables.base import Status

MARK = ".damaged-"
"""Stands between a name and the time something was put aside under it."""
DAMAGED_ARRAYS = (ValueError, OSError, EOFError, zipfile.BadZipFile)
"""What numpy raises where a file of arrays is damaged."""
Say = Callable[[str], object]


def put_aside(path: Path) -> Path:
    """Rename a file or directory to ``NAME.damaged-YYYYMMDD-HHMMSS`` where it lies; the new path."""
    aside = _aside(path)
    path.rename(aside)
    return aside


def put_aside_in(storage: Storage, name: str) -> str:
    """The same for what is kept under a name of a storage; the new name."""
    aside = _free(name, storage.has)
    storage.move(name, aside)
    return aside


def is_aside(name: str) -> bool:
    """Whether what has this name was put aside."""
    return MARK in name


def is_whole(runs: Storage, key: str, say: Say) -> bool:
    """Whether a finished run of this key is kept, and whole. A damaged one is put aside and named."""
    if not runs.has(key):
        return False
    return _kept(runs, key, flaw_of_run(runs.get(key)), "the run is trained again", say)


def flaw_of_run(directory: Path) -> str:
    """What is wrong with the files of a finished run, ``""`` where nothing is to be seen. Of weights only the head is
    read, and their length compared with it."""
    try:
        read_outcome(directory)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        return f"{OUTCOME}: {_words(error)}"
    return _flaw_of_files(directory)


def mend_journal(files: SweepFiles, spec: SweepSpec, say: Say) -> None:
    """Rewrite a journal without the lines that cannot be read, once a copy lies aside. Only under the sweep's lock."""
    bad = [each for each in read_journal(files.journal, flaw_of(spec)) if isinstance(each, BadLine)]
    if not bad:
        return
    aside = _aside(files.journal)
    shutil.copy2(files.journal, aside)
    write_whole(files.journal, without(files.journal, bad))
    for each in bad:
        say(f"{line_words(files.journal, each)}: it is left out")
    say(f"the journal as it was lies in {aside}; runs that it may have told of are taken from disk, or trained again")


@contextmanager
def mended_journal(files: SweepFiles, spec: SweepSpec, say: Say) -> Iterator[Journal]:
    """A journal to append to, mended first. Only under the sweep's lock."""
    mend_journal(files, spec, say)
    journal = Journal(files.journal)
    try:
        yield journal
    finally:
        journal.close()


def flaw_of(spec: SweepSpec) -> Callable[[Ended], str]:
    """Says of a journalled run why it cannot be one of this specification's; ``""`` where it can."""
    mixes, target = set(spec.mix_named), spec.target

    def flaw(entry: Ended) -> str:
        if entry.request.mix not in mixes:
            return f"the sweep has no mix {entry.request.mix!r}"
        failed = entry.outcome.status is Status.FAILED
        if (
            not failed
            and not entry.request.phase
            and entry.request.until is None
            and not (target in entry.outcome.accuracy and target in entry.outcome.floor)
        ):
            return f"it does not say how well {target!r} was learned"
        return ""

    return flaw


def line_words(journal: Path, line: BadLine) -> str:
    """A bad line, for a person to read."""
    return f"{journal}, line {line.number}, is no journal entry ({line.why})"


def _flaw_of_files(directory: Path) -> str:
    """The first file that is empty, or not what its name says."""
    for path in sorted(directory.iterdir()):
        try:
            if path.is_file() and path.stat().st_size == 0:
                return f"{path.name} is empty"
            if path.suffix == ".json":
                json.loads(path.read_text(encoding="utf-8"))
            elif path.suffix == ".npz":
                with zipfile.ZipFile(path) as arrays:
                    if spoiled := arrays.testzip():
                        return f"{path.name}: {spoiled} is spoiled"
            elif path.suffix == ".safetensors":
                with safe_open(path, framework="numpy"):
                    """Opened: its head is whole, and as many bytes follow as it says."""
        except (ValueError, OSError, zipfile.BadZipFile, EOFError, SafetensorError) as error:
            return f"{path.name}: {_words(error)}"
    return ""


def _kept(storage: Storage, name: str, flaw: str, then: str, say: Say) -> bool:
    if flaw:
        say(f"{storage}/{name} is damaged ({flaw}): it lies in {put_aside_in(storage, name)} now, and {then}")
    return not flaw


def _aside(path: Path) -> Path:
    """A name that is free."""
    return path.with_name(_free(path.name, lambda name: path.with_name(name).exists()))


def _free(name: str, taken: Callable[[str], bool]) -> str:
    """A name to put this aside under."""
    first = f"{name}{MARK}{datetime.now(UTC):%Y%m%d-%H%M%S}"
    names = (f"{first}{more}" for more in itertools.chain([""], (f"-{count}" for count in itertools.count(2))))
    return next(each for each in names if not taken(each))


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().partition("\n")[0]
