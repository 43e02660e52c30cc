"""Export of a home to one file, and import of such a file into another home.

The compressed tar file contains runs, sweeps and checkpoints, but no claims, locks, stop requests, files of Ray or
MLflow records. Runs are merged by key. If the home already has a sweep, the archive's version replaces it if the
archive's journal extends the home's. With equal journals, newer checkpoints are imported.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import re
import shutil
import stat
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, Self

from orchestrator.home.checkpoints import WORK, Checkpoints, number_of
from orchestrator.home.directories import IMPORTED, Home, SweepDirectory
from orchestrator.home.foreign_files import MOST_SPACE_BYTES, open_file, read_text, whole_lines
from orchestrator.home.new_home import make_home
from orchestrator.home.run_files import read_origin, read_run
from orchestrator.home.run_store import RunStore
from orchestrator.space import strict_yaml
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.files import (
    flush,
    is_file,
    opened_directory,
    remove_abandoned,
    remove_file,
    remove_tree,
    replace_whole,
    whole_directory,
)
from orchestrator.system.text import first_of
from trainables.base import Outcome

MARK = "transition-sweeps.json"
"""Member of an archive with the version of the layout."""
LAYOUT = b'{"layout": 1}'
"""Content of the mark."""
STAGED = ".orchestrator-import-"
"""Beginning of the names of directories in a home where archives are unpacked."""
FOREIGN = "was-imported"
"""Name of an empty file in the archive, next to the files of a run or sweep that the exported home had imported."""
FILE = r"[^./\\\0-\x1f\x7f][^/\\\0-\x1f\x7f]{0,254}"
PLAIN = re.compile(
    rf"runs/\w[\w.-]{{0,127}}/(probes/)?{FILE}"
    rf"|sweeps/\w[\w.-]{{0,199}}/(checkpoints/({FILE}/){{1,8}}|stacks/{FILE}/)?{FILE}"
)
"""Path of a file of a run or sweep, without hidden parts or "..", after its key or id."""
LONGEST_PART = 230
"""Bytes of a name in a path. While a file is written, its name is 18 bytes longer; disks allow 255."""
MOST_FILES, MOST_HEADER_BYTES, MOST_RATIO, LEAST_BYTES = 2_000_000, 1 << 16, 200, 256 << 20
"""Limits of an archive: files, the size of a header, and bytes of content. Content may have :data:`MOST_RATIO` times
the size of the archive (exported homes have one to ten times), or :data:`LEAST_BYTES`."""
LEFT_OUT = (".lock", ".log", "stop.jsonl")
"""Suffixes of a sweep's files that are useful only on one machine."""
DEEPEST = 12
"""Maximum number of nested directories that an export reads. An import accepts fewer."""
Content = list[tuple[str, bytes, float]]
"""Files by path in the archive, with their content and when they were written."""


OF_MACHINES = ("resources", "probes", "code")
"""Keys of a search space that a resumed sweep may have changed, because they do not change what is asked."""


class Copied(NamedTuple):
    """Numbers of runs and sweeps that an archive or a home received, including continued sweeps."""

    runs: int
    sweeps: int


def export_home(home: Home, path: Path) -> Copied:
    """Write a home to one file atomically. If a sweep is running, the file has its finished runs but not its
    checkpoints.

    Raises:
        UserError: if the home has no runs and no sweeps, or a name that an import would refuse.
        SweepError: if a part cannot be read. Then nothing is written, because an import would miss that part.
    """
    store, sweep_ids = RunStore(home), home.sweep_ids()
    if not (sweep_ids or store.stored_keys()):
        raise UserError(f"{home.root} has no runs and no sweeps: name another --home")
    refused: list[str] = []

    def add(name: str, content: Callable[[], Content]) -> None:
        try:
            _add(archive, content())
        except UserError:
            raise  # It is also a ValueError, but has its own advice.
        except ValueError as error:
            raise UserError(f"{name} cannot be exported: {error}. Delete that file if you did not make it") from error
        except NotADirectoryError as error:
            raise UserError(
                f"{name} cannot be exported: {error.filename} was replaced by a link, perhaps by its owner"
            ) from error
        except PermissionError as error:
            refused.append(f"{name} ({error.filename}: {error.strerror})")

    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as directory:
        aside = Path(directory, path.name)
        aside.touch(0o600)  # A home has logs and errors of its user.
        with tarfile.open(aside, "w:gz", compresslevel=1) as archive:
            _add(archive, [(MARK, LAYOUT, time.time())])
            for sweep_id in sweep_ids:
                add(f"sweep {sweep_id}", partial(_sweep_content, home.sweep(sweep_id)))
            keys = store.stored_keys()  # After the sweeps, so that the archive has every run in a journal.
            for key in keys:
                add(f"run {key}", partial(_run_content, store, key))
        if refused:
            raise SweepError(
                f"{len(refused)} of {len(keys)} runs and {len(sweep_ids)} sweeps cannot be read, so nothing was "
                f"exported: {first_of(refused)}. Ask their owner, or renew the login to the disk"
            )
        flush(aside)
        os.replace(aside, path)
    return Copied(len(keys), len(sweep_ids))


def _add(archive: tarfile.TarFile, content: Content) -> None:
    """Add files without user names. Raises :class:`UserError` for a name that an import would refuse."""
    for name, data, written in content:
        if name != MARK and not _is_plain(name):
            is_long = any(len(part.encode()) > LONGEST_PART for part in name.split("/"))
            long = f"a name in this path has more than {LONGEST_PART} bytes: shorten it"
            odd = "rename its directory, with letters, digits, '.', '-' and '_' only"
            raise UserError(f"{name} cannot be exported: {long if is_long else odd}")
        member = tarfile.TarInfo(name)
        member.size, member.mtime = len(data), int(written)
        archive.addfile(member, io.BytesIO(data))


def _is_plain(name: str) -> bool:
    """Return True for the path of a file of a run or sweep that every home can keep."""
    return bool(PLAIN.fullmatch(name)) and all(len(part.encode()) <= LONGEST_PART for part in name.split("/"))


def _sweep_content(files: SweepDirectory) -> Content:
    """Return the files of a sweep, without checkpoints if it is running."""
    name = f"sweeps/{files.id}"
    folders = () if files.is_driven() else (files.checkpoints.name, files.stacks.name)
    with opened_directory(files.directory.parent) as sweeps, opened_directory(files.id, sweeps) as directory:
        entry, journal, written = _entry(directory, files.journal.name, name)
        content = [(entry, journal[: journal.rfind(b"\n") + 1], written)]
        for part, is_folder in _parts(directory):
            if is_folder and part in folders:
                content += _files(directory, part, f"{name}/{part}")
            elif not is_folder and part != files.journal.name and not part.endswith(LEFT_OUT):
                content.append(_entry(directory, part, name))
    if files.is_imported:
        content.append((f"{name}/{FOREIGN}", b"", written))
    own = f"{name}/{files.checkpoints.name}/{WORK}/"
    return [one for one in content if not one[0].startswith(own)]  # Only who started a script continues it.


def _run_content(store: RunStore, key: str) -> Content:
    """Return the files of a run."""
    with opened_directory(store.home.runs) as directory:
        content = _files(directory, key, f"runs/{key}")
    return content + ([(f"runs/{key}/{FOREIGN}", b"", time.time())] if store.is_imported(key) else [])


def _files(above: int, part: str, name: str) -> Content:
    """Return the files below a directory, given by its name in an opened one. All are opened from there, so that links
    are not followed which the owner of the home puts in the place of a directory meanwhile.

    Raises ``OSError`` if this user may not read some of them.
    """
    if name.count("/") > DEEPEST:
        raise ValueError(f"{name} has more than {DEEPEST} nested directories")
    content: Content = []
    with opened_directory(part, above) as directory:
        for below, is_folder in _parts(directory):
            content += _files(directory, below, f"{name}/{below}") if is_folder else [_entry(directory, below, name)]
    return content


def _parts(directory: int) -> list[tuple[str, bool]]:
    """Return the names of files (False) and directories (True) in an opened directory, except hidden ones, links, pipes
    and devices."""
    names = sorted(name for name in os.listdir(directory) if not name.startswith("."))
    modes = [(name, os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode) for name in names]
    return [(name, stat.S_ISDIR(mode)) for name, mode in modes if stat.S_ISDIR(mode) or stat.S_ISREG(mode)]


def _entry(directory: int, file_name: str, name: str) -> tuple[str, bytes, float]:
    """Return a file of an opened directory, as it is stored below ``name`` in the archive."""
    with open_file(Path(file_name), dir_fd=directory) as file:
        return f"{name}/{file_name}", file.read(), os.fstat(file.fileno()).st_mtime


def import_home(home: Home, path: Path, warn: Callable[[str], object], *, mine: bool = False) -> Copied:
    """Import an archive into a home. ``warn`` reports damaged runs, which are left out, and sweeps that were continued
    in both homes, which stay unchanged.

    Runs come before the sweeps that name them, so an interrupted import can be repeated. A run that both homes have is
    kept; ``warn`` reports those with other results. Imported runs and sweeps are marked, and so is a sweep of this home
    that continues from an archive: an author of an archive must not pass anything off as a result of this home. If the
    user says that the archive is ``mine``, only what the exported home had imported is marked, and marks of an earlier
    import of the same runs and sweeps are removed.

    Raises:
        UserError: if the file is damaged or not an archive, or if it continues a sweep that is running here.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}")  # A pipe, for example: it is read twice.
    size = _checked_size(path)
    make_home(home.root, warn)
    if size > (free := shutil.disk_usage(home.root).free):
        raise UserError(f"{path} has {size} bytes of content, but the disk of {home.root} has {free} free")
    remove_abandoned(home.root, f"{STAGED}*")
    with tempfile.TemporaryDirectory(prefix=STAGED, dir=home.root) as directory:
        staged = Home(Path(directory))
        _unpack(path, staged)
        runs = _take_runs(staged, home, path, warn, mine)
        pairs = [(staged.sweep(sweep_id), home.sweep(sweep_id)) for sweep_id in staged.sweep_ids()]
        taken = [_merge(theirs, ours, path, warn, mine) for theirs, ours in pairs]
    return Copied(runs, sum(taken))


def _merge(theirs: SweepDirectory, ours: SweepDirectory, path: Path, warn: Callable[[str], object], mine: bool) -> bool:
    """Import a sweep, its continuation, or checkpoints that are further along. Return True if anything was imported."""
    is_here, was_imported = ours.journal.is_file(), ours.is_imported
    is_foreign = _is_foreign(theirs.directory, mine)
    is_equal = whole_lines(theirs.journal) == whole_lines(ours.journal)
    taken = False
    if _continues(theirs, ours) or (is_equal and was_imported and not is_foreign):
        if is_here and not _asks_the_same(theirs, ours):
            warn(f"{ours.id} has another search space in {path}: the sweep here is kept")
        else:
            _take_sweep(theirs, ours, is_foreign)
            taken = True
    elif is_equal:
        taken = not ours.is_driven() and _take_checkpoints(theirs, ours, is_foreign)
    elif not _continues(ours, theirs):
        warn(f"{ours.id} was continued both here and in {path}: its runs are imported, the sweep here is kept")
    if taken and is_here and is_foreign and not was_imported:
        warn(f"{ours.id} was begun here and now continues from {path}, so it is shown as imported")
    return taken


def _is_foreign(directory: Path, mine: bool) -> bool:
    """Return True for an unpacked run or sweep that counts as imported."""
    said_so = is_file(directory / FOREIGN)
    (directory / FOREIGN).unlink(missing_ok=True)
    return said_so or not mine


def _asks_the_same(theirs: SweepDirectory, ours: SweepDirectory) -> bool:
    """Return True if a continuation of a sweep has its search space, except for what a resume may change. A file that
    was written by another user must not change what was asked here."""

    def asked(files: SweepDirectory) -> dict[str, Any]:
        values = strict_yaml.read(read_text(files.spec, MOST_SPACE_BYTES), files.id).data
        return {key: value for key, value in dict(values).items() if key not in OF_MACHINES}

    try:
        return asked(theirs) == asked(ours)
    except (OSError, ValueError, TypeError, UserError):
        return False


def _take_runs(staged: Home, home: Home, path: Path, warn: Callable[[str], object], mine: bool) -> int:
    """Import the runs of an unpacked archive, and return their number without those that the home has already."""
    taken, others = 0, list[str]()
    for key in RunStore(staged).stored_keys():
        outcome = read_run(RunStore(staged).directory(key), whole=True)
        if isinstance(outcome, str):
            warn(f"run {key} in {path} is damaged ({outcome}) and was not imported")
            continue
        origin = read_origin(RunStore(staged).directory(key))
        if origin is None or not origin.sweep:  # A sweep that uses it could not say where it comes from.
            warn(f"run {key} in {path} does not say which sweep it was trained for, and was not imported")
            continue
        own = _take_run(RunStore(staged).directory(key), RunStore(home), mine)
        taken += own is None
        if own is not None and not _is_same(own, outcome):
            others.append(key)
    if others:  # Programs without a seed, for example, have other results on each machine.
        warn(
            f"{path} has other results of runs that are already here, which are kept ({first_of(others)}): its sweeps "
            "with these runs may have other answers here"
        )
    return taken


def _continues(longer: SweepDirectory, shorter: SweepDirectory) -> bool:
    """Return True if a sweep's journal contains that of its other version, which may be missing, and more lines."""
    known, lines = whole_lines(shorter.journal), whole_lines(longer.journal)
    return len(known) < len(lines) and lines[: len(known)] == known


def _checked_size(path: Path) -> int:
    """Return the bytes of an archive's content. The whole archive is checked before anything is made in a home.

    Raises:
        UserError: if the file is damaged or not an archive of this version, or contains anything except files of runs
            and sweeps.
    """
    names: set[str] = set()
    size, layout = 0, b""
    for member, data in _members(path):
        if member.name in names:
            raise UserError(f"{path} contains {member.name} twice; nothing was imported")
        if member.name == MARK:
            layout = data.read(len(LAYOUT) + 1)
        names.add(member.name)
        size += member.size
    folders = {parent for name in names for parent in map(str, PurePosixPath(name).parents)}
    if both := sorted(folders & names):
        raise UserError(f"{path} contains {both[0]} as a file and as a directory; nothing was imported")
    if layout != LAYOUT:
        raise UserError(f"{path} is not an exported home, or was written by a later version of the program")
    return size


def _unpack(path: Path, staged: Home) -> None:
    """Write the members of a checked archive below a directory."""
    for member, data in _members(path):
        target = staged.root / member.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(data, file)
        written = min(member.mtime, time.time())
        os.utime(target, (written, written))


class _Member(tarfile.TarInfo):
    """Header of a member. Only plain files are accepted, and no header that is itself a large file."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        is_header = member.type in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME)
        if is_header and not 0 <= member.size <= MOST_HEADER_BYTES:
            raise UserError(f"it has a header of {member.size} bytes; at most {MOST_HEADER_BYTES} are read")
        if not is_header and member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise UserError(f"it contains {member.name!r:.200}, which is not a plain file")
        return member


def _members(path: Path) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """Yield the members of an archive, each with its content. Raises :class:`UserError` if the file is damaged or not
    an archive, contains anything except files of runs and sweeps, or exceeds a limit or the space on the disk."""
    most = max(LEAST_BYTES, MOST_RATIO * path.stat().st_size)
    total = 0
    try:
        with gzip.open(path) as stream:
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as archive:
                for number, member in enumerate(archive, start=1):
                    data = archive.extractfile(member)
                    if data is None or member.issparse() or not (member.name == MARK or _is_plain(member.name)):
                        raise UserError(f"it contains {member.name!r:.200}, which is not a file of a run or a sweep")
                    if not math.isfinite(member.mtime):
                        raise UserError(f"it contains {member.name!r:.200} with an impossible time")
                    total += member.size
                    if total > most:
                        raise UserError(f"it has more than {most} bytes of content, implausibly many for its size")
                    if number > MOST_FILES:
                        raise UserError(f"it has more than {MOST_FILES} files")
                    yield member, data
                    archive.members.clear()  # type: ignore[attr-defined]  # Otherwise all headers are kept in memory.
            while rest := stream.read(1 << 20):  # The checksum is at the very end.
                total += len(rest)
                if total > most:
                    raise UserError(f"it has more than {most} bytes after its content")
    except UserError as error:
        raise UserError(f"{path} cannot be imported: {error}; nothing was imported") from error
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged or not an exported home ({error}); nothing was imported") from error


def _take_run(source: Path, store: RunStore, mine: bool) -> Outcome | None:
    """Import a run. Return the outcome of the home's own run if there is one, which is kept. A run that was imported
    earlier is replaced by one that is ``mine``."""
    target = store.directory(source.name)
    is_foreign = _is_foreign(source, mine)
    with store.locked():
        own = read_run(target, whole=True)
        if isinstance(own, Outcome) and (is_foreign or not store.is_imported(source.name)):
            return own
        store.delete(source.name)
        if is_foreign:
            (source / IMPORTED).touch()
        _move(source, target)
    return None


def _is_same(one: Outcome, other: Outcome) -> bool:
    """Return True if two outcomes are the same evidence. Their seconds, for example, may differ."""
    return (one.status, one.steps, one.accuracy, one.floor) == (other.status, other.steps, other.accuracy, other.floor)


def _take_sweep(theirs: SweepDirectory, ours: SweepDirectory, is_foreign: bool) -> None:
    """Import a sweep, or the continuation of a sweep. The journal is written last, and only then a mark is removed."""
    is_new = not ours.journal.is_file()
    with ours.driving():
        if is_foreign:
            replace_whole(ours.imported, b"")
        for directory in (ours.checkpoints, ours.stacks):
            remove_tree(directory)
        shutil.rmtree(theirs.checkpoints / WORK, ignore_errors=True)  # A script would load another user's files.
        for path in sorted(theirs.directory.iterdir(), key=lambda path: path == theirs.journal):
            if path.is_dir():
                _move(path, ours.directory / path.name)
            elif is_new or path != theirs.spec:
                replace_whole(ours.directory / path.name, path.read_bytes())
                os.utime(ours.directory / path.name, (path.stat().st_mtime, path.stat().st_mtime))
        if not is_foreign:
            remove_file(ours.imported)


def _take_checkpoints(theirs: SweepDirectory, ours: SweepDirectory, is_foreign: bool) -> bool:
    """Import the checkpoints that are further along in the archive, given equal journals. Return True if there are
    any."""
    sources, known = Checkpoints(theirs.checkpoints), Checkpoints(ours.checkpoints)
    pairs = [(sources.newest(stack_id), known.newest(stack_id)) for stack_id in sources.stacks()]
    further = [(new, old) for new, old in pairs if new and (old is None or number_of(new) > number_of(old))]
    if further:
        with ours.driving():
            if is_foreign:
                replace_whole(ours.imported, b"")
            for new, old in further:
                _move(new, ours.checkpoints / new.name)
                if old is not None:
                    remove_tree(old)
    return bool(further)


def _move(source: Path, target: Path) -> None:
    """Move a directory atomically."""
    with whole_directory(target) as directory:
        for path in source.iterdir():
            shutil.move(path, directory / path.name)
