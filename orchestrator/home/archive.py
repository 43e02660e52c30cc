"""Export of a home to one file, and import of such a file into another home.

The compressed tar file contains runs, sweeps and checkpoints, but no claims, locks, stop requests, files of Ray or
MLflow records. Runs are merged by key. If the home already has a sweep, the archive's version replaces it if the
archive's journal extends the home's, or if the journals are equal and the archive's checkpoints are further along.
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
from orchestrator.home.files import PROBES, Home, SweepDirectory, flaw_of, make_home, remove_abandoned, whole_directory
from orchestrator.home.journal import SCHEMA, Begun, read_journal
from orchestrator.home.run_files import read_run
from orchestrator.home.run_store import RunStore
from trainables.files import flush, write_whole

MARK = "transition-sweeps.json"
"""First member of an archive, with the version of the layout."""
LAYOUT = 1
NAME = re.compile(r"\w[\w.-]*")
"""Key of a run or id of a sweep."""
FOLDERS = ("runs", "sweeps")
LEFT_OUT = (".lock", ".log", "stop.jsonl")
"""Suffixes of a sweep's files that are useful only on one machine."""
DAMAGED = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)
"""Errors raised for a file that is damaged, truncated or not an archive."""
Content = list[tuple[str, bytes]]
"""Files by path in the archive."""


@dataclass(frozen=True)
class Exported:
    """Numbers of runs and sweeps in an archive."""

    runs: int
    sweeps: int


@dataclass(frozen=True)
class Imported:
    """Numbers of runs and sweeps that a home received, including continued sweeps, and that it already had."""

    runs: int
    sweeps: int
    known_runs: int
    known_sweeps: int


def export_home(home: Home, path: Path, warn: Callable[[str], object]) -> Exported:
    """Write a home to one file atomically. ``warn`` reports damaged runs, which are left out.

    If a sweep is running, the file has its finished runs but not its checkpoints.

    Raises:
        UserError: if the home has no runs and no sweeps.
    """
    store, sweep_ids = RunStore(home), home.sweep_ids()
    if not (sweep_ids or store.stored_keys()):
        raise UserError(f"{home.root} has no runs and no sweeps: name another --home")
    runs = sweeps = 0
    with _aside(path) as aside, tarfile.open(aside, "w:gz", compresslevel=1) as archive:
        _add(archive, [(MARK, json.dumps({"layout": LAYOUT}).encode())])
        for sweep_id in sweep_ids:
            content = _sweep_content(home.sweep(sweep_id))
            _add(archive, content)
            sweeps += bool(content)
        for key in store.stored_keys():  # After the sweeps, so that the archive has every run in a journal.
            directory = store.directory(key)
            if flaw := flaw_of(directory):
                if store.has(key):  # Otherwise it was just removed.
                    warn(f"{directory} is damaged ({flaw}) and was not exported")
                continue
            _add(archive, _files(directory, f"runs/{key}"))
            runs += 1
    return Exported(runs, sweeps)


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """Yield a temporary file, which replaces ``path`` if the block succeeds."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield aside
        flush(aside)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _add(archive: tarfile.TarFile, content: Content) -> None:
    """Add files without user names."""
    for name, data in content:
        member = tarfile.TarInfo(name)
        member.size, member.mtime = len(data), int(time.time())
        archive.addfile(member, io.BytesIO(data))


def _files(directory: Path, name: str) -> Content:
    paths = (path.relative_to(directory) for path in sorted(directory.rglob("*")) if path.is_file())
    whole = [path for path in paths if not any(part.startswith(".") for part in path.parts)]
    return [(f"{name}/{path.as_posix()}", (directory / path).read_bytes()) for path in whole]


def _sweep_content(files: SweepDirectory) -> Content:
    name, running = f"sweeps/{files.id}", files.is_driven()
    try:
        journal = files.journal.read_bytes()
        content = [(f"{name}/{files.journal.name}", journal[: journal.rfind(b"\n") + 1])]
        for path in sorted(files.directory.glob("[!.]*")):
            if path.is_file() and path != files.journal and not path.name.endswith(LEFT_OUT):
                content.append((f"{name}/{path.name}", path.read_bytes()))
        for directory in () if running else (files.checkpoints, files.stacks):
            content += _files(directory, f"{name}/{directory.name}")
    except FileNotFoundError:
        # The driver of a resumed sweep may have replaced a checkpoint.
        return _sweep_content(files) if files.is_driven() and not running else []
    return content


class _Relation(StrEnum):
    NEW = "the home does not have it"
    LONGER = "it continues the home's"
    SAME = "the journals are equal"
    KNOWN = "the home's continues it"
    PARTED = "they continued separately"


def import_home(home: Home, path: Path, warn: Callable[[str], object]) -> Imported:
    """Import an archive into a home. ``warn`` reports sweeps that were continued in both homes and stay unchanged.

    Everything is checked first. Runs come before the sweeps that name them, so an interrupted import can be repeated.

    Raises:
        UserError: if the file is damaged or not an archive, or if it continues a sweep that is running here.
    """
    make_home(home.root)
    remove_abandoned(home.root, ".import-*")
    with tempfile.TemporaryDirectory(prefix=".import-", dir=home.root) as directory:
        staged = Home(Path(directory))
        _unpack(path, staged)
        _check(path, staged)
        sweeps = {sweep_id: _relation(staged.sweep(sweep_id), home.sweep(sweep_id)) for sweep_id in staged.sweep_ids()}
        for sweep_id, relation in sweeps.items():
            if relation is _Relation.LONGER and home.sweep(sweep_id).is_driven():
                raise UserError(
                    f"{sweep_id} is running here, and {path} has a longer version of it: stop it, then import"
                )
        taken = [_take_run(RunStore(staged).directory(key), RunStore(home)) for key in RunStore(staged).stored_keys()]
        new = 0
        for sweep_id, relation in sweeps.items():
            theirs, ours = staged.sweep(sweep_id), home.sweep(sweep_id)
            if relation is _Relation.PARTED:
                warn(f"{sweep_id} was continued both here and in {path}: its runs are imported, the sweep here is kept")
            elif relation in (_Relation.NEW, _Relation.LONGER):
                _take_sweep(theirs, ours)
                new += 1
            elif relation is _Relation.SAME and not ours.is_driven():
                new += _take_checkpoints(theirs, ours)
    return Imported(sum(taken), new, len(taken) - sum(taken), len(sweeps) - new)


def _unpack(path: Path, staged: Home) -> None:
    """Write the members of an archive below a directory. Raises :class:`UserError` if the file is damaged or not an
    archive, or contains anything except files of runs and sweeps."""
    try:
        with gzip.open(path) as stream:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for number, member in enumerate(archive):
                    data = archive.extractfile(member) if member.isfile() else None
                    if number == 0:
                        _check_mark(path, member.name, b"" if data is None else data.read())
                        continue
                    if data is None or not _is_plain(member.name):
                        raise UserError(f"{path} contains {member.name!r}, which is not a file of a run or a sweep")
                    target = staged.root / member.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("wb") as file:
                        shutil.copyfileobj(data, file)
            while stream.read(1 << 20):  # The checksum is at the very end.
                pass
    except DAMAGED as error:
        raise UserError(f"{path} is damaged or not an exported home ({error}); nothing was imported") from error
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        if str(error.filename) != str(path):
            raise
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def _check_mark(path: Path, name: str, content: bytes) -> None:
    """Raise :class:`UserError` unless this is the first member of an archive with the current layout."""
    try:
        layout = json.loads(content)["layout"] if name == MARK else None
    except (ValueError, KeyError, TypeError):
        layout = None
    if layout is None:
        raise UserError(f"{path} is not an exported home: it begins with {name!r}")
    if layout != LAYOUT:
        raise UserError(f"{path} was written by a later version of the program; this one reads layout {LAYOUT}")


def _is_plain(name: str) -> bool:
    """Return True for a relative path without hidden parts or ".."."""
    parts = PurePosixPath(name).parts
    if len(parts) < 3 or parts[0] not in FOLDERS or not NAME.fullmatch(parts[1]):
        return False
    return "/".join(parts) == name and not any(part.startswith(".") or "\\" in part for part in parts)


def _check(path: Path, staged: Home) -> None:
    """Raise :class:`UserError` unless every run is whole and this version can read every sweep."""
    for key in RunStore(staged).stored_keys():
        if isinstance(flaw := read_run(RunStore(staged).directory(key), whole=True), str):
            raise UserError(f"{path} is damaged: run {key}: {flaw}; nothing was imported")
    for directory in sorted(staged.root.glob("sweeps/*")):
        files = SweepDirectory(directory)
        begun = next(read_journal(files.journal), None)
        other_version = isinstance(begun, Begun) and begun.schema != SCHEMA
        if begun is None or other_version or not files.spec.is_file():
            raise UserError(
                f"{path}: sweep {files.id} cannot be read by this version of the program; nothing was imported"
            )


def _relation(theirs: SweepDirectory, ours: SweepDirectory) -> _Relation:
    """Compare the journals of a sweep in two homes, except incomplete last lines."""
    if not ours.journal.is_file():
        return _Relation.NEW
    their_journal, our_journal = (files.journal.read_bytes() for files in (theirs, ours))
    our_journal = our_journal[: our_journal.rfind(b"\n") + 1]
    if our_journal == their_journal:
        return _Relation.SAME
    if our_journal.startswith(their_journal):
        return _Relation.KNOWN
    return _Relation.LONGER if their_journal.startswith(our_journal) else _Relation.PARTED


def _take_run(source: Path, store: RunStore) -> bool:
    """Import a run, or only its new probe results if the home has the run. Return True for a whole run."""
    target = store.directory(source.name)
    with store.locked():
        if store.has(source.name) and not isinstance(read_run(target, whole=True), str):
            for file in sorted((source / PROBES).glob("*"), key=lambda path: path.suffix, reverse=True):  # npz, json
                if not (target / PROBES / file.name).exists():
                    write_whole(target / PROBES / file.name, file.read_bytes())
            return False
        store.delete(source.name)
        _move(source, target)
    return True


def _take_sweep(theirs: SweepDirectory, ours: SweepDirectory) -> None:
    """Import a sweep, or the continuation of a sweep. The journal is written last."""
    if not ours.directory.is_dir():
        _move(theirs.directory, ours.directory)
        return
    with ours.driving():
        for source, target in ((theirs.checkpoints, ours.checkpoints), (theirs.stacks, ours.stacks)):
            shutil.rmtree(target, ignore_errors=True)
            if source.is_dir():
                _move(source, target)
        for file in sorted(path for path in theirs.directory.iterdir() if path.is_file()):
            if file != theirs.journal:
                write_whole(ours.directory / file.name, file.read_bytes())
        write_whole(ours.journal, theirs.journal.read_bytes())


def _take_checkpoints(theirs: SweepDirectory, ours: SweepDirectory) -> bool:
    """Import the checkpoints that are further along in the archive. Return True if there are any. The journals are
    equal, and a stack's checkpoints are numbered in order."""
    pairs = [
        [Checkpoints(files.checkpoints).newest(stack_id) for files in (theirs, ours)]
        for stack_id in Checkpoints(theirs.checkpoints).stacks()
    ]
    further = [(source, existing) for source, existing in pairs if source and _number(source) > _number(existing)]
    if further:
        with ours.driving():
            for source, existing in further:
                _move(source, ours.checkpoints / source.name)
                if existing is not None:
                    shutil.rmtree(existing)
    return bool(further)


def _number(checkpoint: Path | None) -> int:
    return 0 if checkpoint is None else int(checkpoint.name.rpartition(".")[2])


def _move(source: Path, target: Path) -> None:
    """Move a directory atomically."""
    with whole_directory(target) as directory:
        for path in source.iterdir():
            shutil.move(path, directory / path.name)
