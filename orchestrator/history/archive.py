"""Export of a home to one file, and import of such a file into another home.

The compressed tar file contains runs, sweeps and checkpoints, but no claims, locks, stop requests, files of Ray or
MLflow records. Runs are merged by key. If the home already has a sweep, the archive's version replaces it if the
archive's journal extends the home's. With equal journals, newer checkpoints are imported.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from orchestrator.history.archive_members import LAYOUT, LAYOUT_MEMBER, LONGEST_PART, checked_size, is_plain, unpack
from orchestrator.home.checkpoints import WORK, Checkpoints, number_of
from orchestrator.home.directories import IMPORTED_MARK, Home, SweepDirectory
from orchestrator.home.foreign_files import MOST_JOURNAL_BYTES, MOST_SPACE_BYTES, open_file, read_text, whole_lines
from orchestrator.home.new_home import make_home
from orchestrator.home.run_files import read_origin, read_run
from orchestrator.home.run_store import RunStore
from orchestrator.space import strict_yaml
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.files import (
    FILLED_DIRECTORY,
    hidden_directory,
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

STAGED = ".orchestrator-import-"
"""Beginning of the names of directories in a home where archives are unpacked."""
FOREIGN_MARK = "was-imported"
"""Name of an empty file in the archive, next to the files of a run or sweep that the exported home had imported."""
OMITTED_SUFFIXES = (".lock", ".log", "stop.jsonl")
"""Suffixes of a sweep's files that are useful only on one machine. They are neither exported nor imported."""
DEEPEST_DIRECTORY = 12
"""Maximum number of nested directories that an export reads. An import accepts fewer."""
CHANGED_BY_RESUME = ("resources", "probes", "code")
"""Keys of a search space that a resumed sweep may have changed, because they do not change the question."""


class Member(NamedTuple):
    """A file as it is stored in an archive.

    Attributes:
        name: Path in the archive.
        file: The opened file.
        size: Number of bytes to store. A file that is being written may have more.
        written: Time of the last change, in seconds.
    """

    name: str
    file: BinaryIO
    size: int
    written: float


class CopyCounts(NamedTuple):
    """Numbers of runs and sweeps that an archive or a home received. Sweeps that were only continued count too."""

    runs: int
    sweeps: int


def export_home(home: Home, path: Path) -> CopyCounts:
    """Write a home to one file atomically. If a sweep is running, the file contains its finished runs but not its
    checkpoints.

    Raises:
        UserError: If the home has no runs and no sweeps, or a name that an import would refuse, or a mount point.
        SweepError: If a part cannot be read. Then nothing is written, because an import would miss that part.
    """
    home.check_mounts("export")
    store = RunStore(home)
    sweep_ids = home.sweep_ids()
    if not (sweep_ids or store.stored_keys()):
        raise UserError(f"{home.root} has no runs and no sweeps: pass another --home")
    # Collected instead of raised, so that the user learns of all of them at once.
    refused: list[str] = []

    def add(name: str, members: Generator[Member]) -> None:
        try:
            with closing(members):  # Files are closed even if one of them is refused.
                _add(archive, members)
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

    # Other users may write the directory of the file. Everything in it is opened and renamed by descriptors, so they
    # cannot put a link in its place.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with ExitStack() as blocks:
        hidden = blocks.enter_context(hidden_directory(path, f".{path.name}-"))
        # A home contains logs and errors, which only its user should read.
        file = blocks.enter_context(open(os.open(path.name, flags, 0o600, dir_fd=hidden.descriptor), "wb"))
        with tarfile.open(path.name, "w:gz", fileobj=file, compresslevel=1) as archive:
            _add(archive, [_member(LAYOUT_MEMBER, LAYOUT, time.time())])
            for sweep_id in sweep_ids:
                add(f"sweep {sweep_id}", _sweep_members(home.sweep(sweep_id)))
            # After the sweeps, so that the archive contains every run that their journals name.
            keys = store.stored_keys()
            for key in keys:
                add(f"run {key}", _run_members(store, key))
        if refused:
            raise SweepError(
                f"{len(refused)} of {len(keys)} runs and {len(sweep_ids)} sweeps cannot be read, so nothing was "
                f"exported: {first_of(refused)}. Ask their owner, or renew the login to the disk"
            )
        file.flush()
        os.fsync(file.fileno())
        os.replace(path.name, path.name, src_dir_fd=hidden.descriptor, dst_dir_fd=hidden.parent)
    return CopyCounts(len(keys), len(sweep_ids))


def _add(archive: tarfile.TarFile, members: Iterable[Member]) -> None:
    """Add files to an archive, without user names.

    Raises:
        UserError: For a name that an import would refuse.
        SweepError: If a file became shorter since it was opened.
    """
    for name, file, size, written in members:
        if name != LAYOUT_MEMBER and not is_plain(name):
            is_long = any(len(part.encode()) > LONGEST_PART for part in name.split("/"))
            shorten = f"a name in this path has more than {LONGEST_PART} bytes: shorten it"
            rename = "rename its directory, with letters, digits, '.', '-' and '_' only"
            raise UserError(f"{name} cannot be exported: {shorten if is_long else rename}")
        member = tarfile.TarInfo(name)
        member.size = size
        member.mtime = int(written)
        try:
            archive.addfile(member, file)
        except OSError as error:
            if error.errno is not None:
                raise
            raise SweepError(f"{name} changed while it was exported: export again when nothing writes it") from error


def _member(name: str, content: bytes, written: float) -> Member:
    return Member(name, io.BytesIO(content), len(content), written)


def _sweep_members(files: SweepDirectory) -> Generator[Member]:
    """Yield the files of a sweep, without checkpoints if it is running. Each is open until the next is requested."""
    name = f"sweeps/{files.id}"
    folders = () if files.is_driven() else (files.checkpoints.name, files.stacks.name)
    # A script's own files are not exported: only the user who started the script may continue it.
    work = f"{name}/{files.checkpoints.name}/{WORK}"
    with opened_directory(files.directory.parent) as sweeps, opened_directory(files.id, sweeps) as directory:
        with open_file(Path(files.journal.name), MOST_JOURNAL_BYTES, dir_fd=directory) as file:
            status = os.fstat(file.fileno())
            journal = file.read(status.st_size)
        # The driver may be writing the last line, so export only whole lines.
        yield _member(f"{name}/{files.journal.name}", journal[: journal.rfind(b"\n") + 1], status.st_mtime)
        for part, is_folder in _parts(directory):
            if is_folder and part in folders:
                yield from _files(directory, part, f"{name}/{part}", omitted=work)
            elif not is_folder and part != files.journal.name and not part.endswith(OMITTED_SUFFIXES):
                yield from _file(directory, part, name)
    if files.is_imported:
        yield _member(f"{name}/{FOREIGN_MARK}", b"", status.st_mtime)


def _run_members(store: RunStore, key: str) -> Generator[Member]:
    """Yield the files of a run. Each is open until the next is requested."""
    with opened_directory(store.home.runs) as directory:
        yield from _files(directory, key, f"runs/{key}")
    if store.is_imported(key):
        yield _member(f"runs/{key}/{FOREIGN_MARK}", b"", time.time())


def _files(above: int, part: str, name: str, omitted: str = "") -> Generator[Member]:
    """Yield the files below a directory.

    Open everything relative to that directory. Otherwise the home's owner could swap a directory for a link while we
    read.

    Args:
        above: Descriptor of the directory that contains it.
        part: The directory's name.
        name: The directory's path in the archive.
        omitted: Path of a directory that is left out.

    Raises:
        OSError: If this user may not read a file.
        ValueError: If directories are nested too deeply.
    """
    if name.count("/") > DEEPEST_DIRECTORY:
        raise ValueError(f"{name} has more than {DEEPEST_DIRECTORY} nested directories")
    if name == omitted:
        return
    with opened_directory(part, above) as directory:
        for below, is_folder in _parts(directory):
            if is_folder:
                yield from _files(directory, below, f"{name}/{below}", omitted)
            else:
                yield from _file(directory, below, name)


def _parts(directory: int) -> list[tuple[str, bool]]:
    """Return the names in an opened directory, and whether each is a directory. Skip hidden names, links, pipes and
    devices."""
    names = sorted(name for name in os.listdir(directory) if not name.startswith("."))
    modes = [(name, os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode) for name in names]
    return [(name, stat.S_ISDIR(mode)) for name, mode in modes if stat.S_ISDIR(mode) or stat.S_ISREG(mode)]


def _file(directory: int, file_name: str, name: str) -> Generator[Member]:
    """Yield a file of an opened directory, which is below the path ``name`` in the archive."""
    with open_file(Path(file_name), dir_fd=directory) as file:
        status = os.fstat(file.fileno())
        yield Member(f"{name}/{file_name}", file, status.st_size, status.st_mtime)


def import_home(home: Home, path: Path, warn: Callable[[str], object], *, mine: bool = False) -> CopyCounts:
    """Import an archive into a home.

    Runs are imported before the sweeps that name them, so an interrupted import can be repeated. If both homes have a
    run, the home's own run stays.

    Imported runs and sweeps are marked. So is a sweep of this home that continues from an archive. Otherwise someone
    could pass off their results as yours. With ``mine``, mark only runs and sweeps that were already imported in the
    exported home. Marks that an earlier import left on the same runs and sweeps are then removed.

    Args:
        home: The home, which is created if it is missing.
        path: The archive.
        warn: Called with a message about each damaged run, which is omitted, and about runs with other results here.
            Also about each sweep that was continued in both homes. Such a sweep stays unchanged.
        mine: True if the user says that the archive is their own.

    Raises:
        UserError: If the file is damaged or not an archive, or if it continues a sweep that is running here.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}")  # The archive is read twice, so it cannot be a pipe.
    with path.open("rb") as file:  # Open it only once, because another user may exchange it.
        return _import_opened(home, file, path, warn, mine)


def _import_opened(home: Home, file: BinaryIO, path: Path, warn: Callable[[str], object], mine: bool) -> CopyCounts:
    """Import an opened archive, as :func:`import_home` does."""
    # The first pass checks the whole archive, so that a damaged one leaves no trace in the home.
    size = checked_size(file, path)
    make_home(home.root, warn)
    if size > (free := shutil.disk_usage(home.root).free):
        raise UserError(f"{path} has {size} bytes of content, but the disk of {home.root} has {free} free")
    remove_abandoned(home.root, STAGED)
    # In a home that others can write, they could rename this directory and put another in its place.
    with hidden_directory(home.root / STAGED, STAGED) as hidden:
        os.mkdir(FILLED_DIRECTORY, 0o700, dir_fd=hidden.descriptor)
        staged = Home(hidden.path / FILLED_DIRECTORY)
        unpack(file, path, staged.root)
        runs = _take_runs(staged, home, path, warn, mine)
        pairs = [(staged.sweep(sweep_id), home.sweep(sweep_id)) for sweep_id in staged.sweep_ids()]
        taken = [_merge(theirs, ours, path, warn, mine) for theirs, ours in pairs]
    return CopyCounts(runs, sum(taken))


def _merge(theirs: SweepDirectory, ours: SweepDirectory, path: Path, warn: Callable[[str], object], mine: bool) -> bool:
    """Import a sweep, its continuation, or checkpoints that are further along. Return True if anything was imported."""
    is_here = ours.journal.is_file()
    was_imported = ours.is_imported
    is_foreign = _take_mark(theirs.directory, mine)
    is_equal = whole_lines(theirs.journal) == whole_lines(ours.journal)
    taken = False
    # A sweep with an equal journal is imported only to remove its mark, if the user now says that it is theirs.
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


def _take_mark(directory: Path, mine: bool) -> bool:
    """Remove the exporter's mark from an unpacked run or sweep. Return True if the run or sweep counts as imported."""
    # An archive cannot contain the hidden file that marks a run or sweep in a home, so this file stands for it.
    was_marked = is_file(directory / FOREIGN_MARK)
    (directory / FOREIGN_MARK).unlink(missing_ok=True)
    return was_marked or not mine


def _asks_the_same(theirs: SweepDirectory, ours: SweepDirectory) -> bool:
    """Return True if a continuation of a sweep has the same search space, except for :data:`CHANGED_BY_RESUME`. Another
    user may have written the archive, and must not change the question of a sweep here."""

    def asked(files: SweepDirectory) -> dict[str, Any]:
        values = strict_yaml.read(read_text(files.spec, MOST_SPACE_BYTES), files.id).data
        return {key: value for key, value in dict(values).items() if key not in CHANGED_BY_RESUME}

    try:
        return asked(theirs) == asked(ours)
    except (OSError, ValueError, TypeError, UserError):
        return False


def _take_runs(staged: Home, home: Home, path: Path, warn: Callable[[str], object], mine: bool) -> int:
    """Import the runs of an unpacked archive. Return the number of runs that the home did not have."""
    taken = 0
    different: list[str] = []
    for key in RunStore(staged).stored_keys():
        outcome = read_run(RunStore(staged).directory(key), whole=True)
        if isinstance(outcome, str):
            warn(f"run {key} in {path} is damaged ({outcome}) and was not imported")
            continue
        origin = read_origin(RunStore(staged).directory(key))
        if origin is None or not origin.sweep:  # A sweep that uses the run could not say where it comes from.
            warn(f"run {key} in {path} does not name the sweep that it was trained for, so it was not imported")
            continue
        ours = _take_run(RunStore(staged).directory(key), RunStore(home), mine)
        taken += ours is None
        if ours is not None and not _is_same(ours, outcome):
            different.append(key)
    if different:  # Programs without a seed, for example, have other results on each machine.
        warn(
            f"Some runs in {path} differ from the runs here ({first_of(different)}). The runs here were kept, so "
            "imported sweeps that use them may have different answers."
        )
    return taken


def _continues(longer: SweepDirectory, shorter: SweepDirectory) -> bool:
    """Return True if ``longer``'s journal starts with ``shorter``'s and has more lines. A missing journal is empty."""
    beginning = whole_lines(shorter.journal)
    lines = whole_lines(longer.journal)
    return len(beginning) < len(lines) and lines[: len(beginning)] == beginning


def _take_run(source: Path, store: RunStore, mine: bool) -> Outcome | None:
    """Import a run, unless the home has it. Return the outcome of the home's run, or None if the run was imported.

    A run that is ``mine`` replaces a run that was imported earlier.
    """
    target = store.directory(source.name)
    is_foreign = _take_mark(source, mine)
    with store.locked():
        ours = read_run(target, whole=True)
        if isinstance(ours, Outcome) and (is_foreign or not store.is_imported(source.name)):
            return ours
        # The home's run is missing, damaged, or marked as imported although the user now says that it is theirs.
        store.delete(source.name)
        if is_foreign:
            (source / IMPORTED_MARK).touch()  # Before the move, so that the run never appears without its mark.
        _move(source, target)
    return None


def _is_same(one: Outcome, other: Outcome) -> bool:
    """Return True if two outcomes are the same evidence. Other values, such as their seconds, may differ."""
    return (one.status, one.steps, one.accuracy, one.floor) == (other.status, other.steps, other.accuracy, other.floor)


def _take_sweep(theirs: SweepDirectory, ours: SweepDirectory, is_foreign: bool) -> None:
    """Import a sweep, or the continuation of a sweep. An interrupted import leaves the old journal, so it can be
    repeated."""
    is_new = not ours.journal.is_file()
    with ours.driving():
        if is_foreign:  # First, so that another user's files are never here without the mark.
            replace_whole(ours.imported, b"")
        for directory in (ours.checkpoints, ours.stacks):
            remove_tree(directory)
        shutil.rmtree(theirs.checkpoints / WORK, ignore_errors=True)  # A script would load another user's files.
        # The journal comes last: it makes the import complete.
        for path in sorted(theirs.directory.iterdir(), key=lambda path: path == theirs.journal):
            if path.is_dir():
                _move(path, ours.directory / path.name)
            elif (is_new or path != theirs.spec) and not path.name.endswith(OMITTED_SUFFIXES):
                replace_whole(ours.directory / path.name, path.read_bytes())
                written = path.stat().st_mtime
                os.utime(ours.directory / path.name, (written, written), follow_symlinks=False)
        if not is_foreign:  # Last, so that the mark stays if the import is interrupted.
            remove_file(ours.imported)


def _take_checkpoints(theirs: SweepDirectory, ours: SweepDirectory, is_foreign: bool) -> bool:
    """Import the checkpoints that are further along in the archive, for a sweep whose journals are equal. Return True
    if there are any."""
    source = Checkpoints(theirs.checkpoints)
    target = Checkpoints(ours.checkpoints)
    pairs = [(source.newest(stack_id), target.newest(stack_id)) for stack_id in source.stacks()]
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
