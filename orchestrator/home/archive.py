"""A home in one file: a compressed tar file of its runs, sweeps and checkpoints, and its way into another home.

Claims, locks, requests to stop, Ray's own files and the record of MLflow stay behind. Runs are merged by key. A sweep
that both homes have is taken over if the file's journal continues this home's.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

from orchestrator.errors import UserError
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.driver_lock import driving, is_driven
from orchestrator.home.files import (
    ABANDONED_S,
    PROBES,
    Home,
    SweepFiles,
    flaw_of,
    make_home,
    whole_directory,
)
from orchestrator.home.journal import SCHEMA, Begun, read_journal
from orchestrator.home.run_claims import removal_lock
from orchestrator.home.run_files import Storage, read_run
from trainables.files import write_whole

MARK = "transition-sweeps.json"
"""The first member of every such file: the version of its layout."""
LAYOUT = 1
NAME = re.compile(r"\w[\w.-]*")
"""Keys of runs and ids of sweeps."""
FOLDERS = ("runs", "sweeps")
LEFT_BEHIND = (".lock", ".log", "stop.jsonl")
"""Endings of the files of a sweep that belong to a machine."""
TRIES = 5
"""Reads of a checkpoint that a running sweep replaces meanwhile."""
DAMAGED = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)
"""Errors at a file that is damaged, cut off, or of another kind."""
Content = list[tuple[str, bytes]]
"""Files by their paths in the archive."""


@dataclass(frozen=True)
class Exported:
    """Numbers of runs and sweeps in a file."""

    runs: int
    sweeps: int


@dataclass(frozen=True)
class Imported:
    """Numbers of runs and sweeps that were new in a home or continued one, and of those that it had already."""

    runs: int
    sweeps: int
    known_runs: int
    known_sweeps: int


def export_home(home: Home, path: Path, say: Callable[[str], object]) -> Exported:
    """Write a home to one file, which appears whole or not at all. A sweep may be running: its copy is what a crash at
    this moment would leave. ``say`` reports damaged runs, which are left out.

    Raises :class:`UserError` for a home without runs and sweeps.
    """
    kept, sweep_ids = Storage(home.runs), home.sweep_ids()
    if not (sweep_ids or kept.list()):
        raise UserError(f"{home.root} has no runs and no sweeps: name another --home")
    runs = sweeps = 0
    with _aside(path) as aside, tarfile.open(aside, "w:gz", compresslevel=1) as archive:
        _add(archive, [(MARK, json.dumps({"layout": LAYOUT}).encode())])
        # Runs come last, so that no journal is ahead of them.
        for content in map(_sweep_content, map(home.sweep, sweep_ids)):
            _add(archive, content)
            sweeps += bool(content)
        for key in kept.list():
            if flaw := flaw_of(kept.get(key)):
                if kept.has(key):  # Else it was removed meanwhile.
                    say(f"{kept}/{key} is damaged ({flaw}): it is left out")
                continue
            _add(archive, _files(kept.get(key), f"runs/{key}"))
            runs += 1
    return Exported(runs, sweeps)


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """A file to write that takes the place of ``path`` when the block ends well."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield aside
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _add(archive: tarfile.TarFile, content: Content) -> None:
    """Add files that name no user."""
    for name, data in content:
        member = tarfile.TarInfo(name)
        member.size, member.mtime = len(data), int(time.time())
        archive.addfile(member, io.BytesIO(data))


def _files(directory: Path, name: str) -> Content:
    """All files beneath a directory, except those being written."""
    paths = (path.relative_to(directory) for path in sorted(directory.rglob("*")) if path.is_file())
    shown = [path for path in paths if not any(part.startswith(".") for part in path.parts)]
    return [(f"{name}/{path.as_posix()}", (directory / path).read_bytes()) for path in shown]


def _sweep_content(files: SweepFiles) -> Content:
    """The files of a sweep in an order that a crash could leave: checkpoints, then the journal, which may know more,
    then the rest, which is written before the journal speaks of it. Empty if the sweep is removed meanwhile."""
    name = f"sweeps/{files.id}"
    try:
        content = [
            each for stack in Checkpoints(files.checkpoints).stacks() for each in _checkpoint(files, stack, name)
        ]
        journal = files.journal.read_bytes()
        content.append((f"{name}/{files.journal.name}", journal[: journal.rfind(b"\n") + 1]))
        content += _progress(files, name)
        for path in sorted(files.directory.glob("[!.]*")):
            if path.is_file() and path != files.journal and not path.name.endswith(LEFT_BEHIND):
                content.append((f"{name}/{path.name}", path.read_bytes()))
    except FileNotFoundError:
        return []
    return content


def _checkpoint(files: SweepFiles, stack_id: str, name: str) -> Content:
    """The newest checkpoint of a stack; empty if the stack ends meanwhile."""
    checkpoints = Checkpoints(files.checkpoints)
    for _ in range(TRIES):
        newest = checkpoints.newest(stack_id)
        if newest is None:
            break
        try:
            content = _files(newest, f"{name}/{files.checkpoints.name}/{newest.name}")
        except FileNotFoundError:  # A newer one has taken its place.
            continue
        if newest.is_dir():
            return content
    return []


def _progress(files: SweepFiles, name: str) -> Content:
    """What stacks in training show; those that end meanwhile are left out."""
    try:
        return _files(files.stacks, f"{name}/{files.stacks.name}") if files.stacks.is_dir() else []
    except FileNotFoundError:
        return []


class _Sweep(StrEnum):
    """How a sweep of the file and the home's own of the same id are related."""

    NEW = "new"
    LONGER = "longer"
    KNOWN = "known"
    PARTED = "parted"


def import_home(home: Home, path: Path, say: Callable[[str], object]) -> Imported:
    """Take the runs and sweeps of a file into a home. Everything is read and checked before anything is taken; runs
    come before the sweeps that name them, so that an import that is cut off can be repeated.

    Raises :class:`UserError` for a file that is damaged or of another kind, and if it continues a sweep that is being
    run here. ``say`` reports sweeps that went on in both homes: this home's stay.
    """
    make_home(home.root)
    for left in home.root.glob(".import-*"):
        if time.time() - left.stat().st_mtime > ABANDONED_S:  # By a process that was killed.
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".import-", dir=home.root) as place:
        staged = Home(Path(place))
        _unpack(path, staged)
        _check(path, staged)
        sweeps = {sweep_id: _relation(staged.sweep(sweep_id), home.sweep(sweep_id)) for sweep_id in staged.sweep_ids()}
        for sweep_id, relation in sweeps.items():
            if relation is _Sweep.LONGER and is_driven(home.sweep(sweep_id)):
                raise UserError(f"{sweep_id} is being run here and {path} continues it: stop it first, then import")
        taken = [_take_run(Storage(staged.runs), home, key) for key in Storage(staged.runs).list()]
        for sweep_id, relation in sweeps.items():
            if relation is _Sweep.PARTED:
                say(f"{sweep_id} went on here and in {path}: the sweep here stays, the runs are taken over")
            elif relation is not _Sweep.KNOWN:
                _take_sweep(staged.sweep(sweep_id), home.sweep(sweep_id))
        new = sum(relation in (_Sweep.NEW, _Sweep.LONGER) for relation in sweeps.values())
    return Imported(sum(taken), new, len(taken) - sum(taken), len(sweeps) - new)


def _unpack(path: Path, staged: Home) -> None:
    """Write the members of a file beneath a directory. Raises :class:`UserError` if it is damaged, not such a file, or
    holds anything but files of runs and sweeps."""
    try:
        with gzip.open(path) as stream:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for number, member in enumerate(archive):
                    data = archive.extractfile(member) if member.isfile() else None
                    if number == 0:
                        _check_mark(path, member.name, b"" if data is None else data.read())
                        continue
                    if data is None or not _is_plain(member.name):
                        raise UserError(f"{path} holds {member.name!r}, which is not a file of a run or a sweep")
                    target = staged.root / member.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("wb") as file:
                        shutil.copyfileobj(data, file)
            while stream.read(1 << 20):  # To its very end: there is the checksum.
                pass
    except DAMAGED as error:
        raise UserError(f"{path} is damaged or not an exported home ({error}); nothing is imported") from error
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        if str(error.filename) != str(path):
            raise
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def _check_mark(path: Path, name: str, content: bytes) -> None:
    """Raise :class:`UserError` unless the first member is that of an exported home of this layout."""
    try:
        layout = json.loads(content)["layout"] if name == MARK else None
    except (ValueError, KeyError, TypeError):
        layout = None
    if layout is None:
        raise UserError(f"{path} is not an exported home: it begins with {name!r}")
    if layout != LAYOUT:
        raise UserError(f"{path} was written by a later version of the program; this one reads layout {LAYOUT}")


def _is_plain(name: str) -> bool:
    """True for the path of a file of a run or sweep: relative, without hidden parts and ways up."""
    parts = PurePosixPath(name).parts
    if len(parts) < 3 or parts[0] not in FOLDERS or not NAME.fullmatch(parts[1]):
        return False
    return "/".join(parts) == name and not any(part.startswith(".") or "\\" in part for part in parts)


def _check(path: Path, staged: Home) -> None:
    """Raise :class:`UserError` unless every run is whole and every sweep can be read by this version."""
    runs = Storage(staged.runs)
    for key in runs.list():
        if isinstance(flaw := read_run(runs.get(key), whole=True), str):
            raise UserError(f"{path} is damaged: run {key}: {flaw}; nothing is imported")
    there = staged.root / "sweeps"
    for name in sorted(each.name for each in there.iterdir()) if there.is_dir() else ():
        begun = next(read_journal(staged.sweep(name).journal), None)
        if not isinstance(begun, Begun) or begun.schema != SCHEMA or not staged.sweep(name).spec.is_file():
            raise UserError(f"{path}: sweep {name} cannot be read by this version of the program; nothing is imported")


def _relation(theirs: SweepFiles, mine: SweepFiles) -> _Sweep:
    """Compare the journals of a sweep in two homes. A torn last line does not count."""
    if not mine.journal.is_file():
        return _Sweep.NEW
    one, other = (files.journal.read_bytes() for files in (theirs, mine))
    other = other[: other.rfind(b"\n") + 1]
    if other.startswith(one):
        return _Sweep.KNOWN
    return _Sweep.LONGER if one.startswith(other) else _Sweep.PARTED


def _take_run(staged: Storage, home: Home, key: str) -> bool:
    """Take a run over, or the results of probes that the home's own lacks; True if the home had no whole run."""
    kept, theirs = Storage(home.runs), staged.get(key)
    with removal_lock(home):
        if kept.has(key) and not isinstance(read_run(kept.get(key), whole=True), str):
            for file in sorted((theirs / PROBES).glob("*"), key=lambda each: each.suffix, reverse=True):  # npz, json
                if not (kept.get(key) / PROBES / file.name).exists():
                    kept.add(key, f"{PROBES}/{file.name}", file.read_bytes())
            return False
        kept.delete(key)
        _move(theirs, kept.get(key))
    return True


def _take_sweep(theirs: SweepFiles, mine: SweepFiles) -> None:
    """Take a new sweep over, or the continuation of one; its journal comes last."""
    if not mine.directory.is_dir():
        _move(theirs.directory, mine.directory)
        return
    with driving(mine):
        for one, other in ((theirs.checkpoints, mine.checkpoints), (theirs.stacks, mine.stacks)):
            shutil.rmtree(other, ignore_errors=True)
            if one.is_dir():
                _move(one, other)
        for file in sorted(path for path in theirs.directory.iterdir() if path.is_file()):
            if file != theirs.journal:
                write_whole(mine.directory / file.name, file.read_bytes())
        write_whole(mine.journal, theirs.journal.read_bytes())


def _move(source: Path, target: Path) -> None:
    """A directory appears whole at its place."""
    with whole_directory(target) as directory:
        for each in source.iterdir():
            shutil.move(each, directory / each.name)
