"""Export of a home to one file.

The compressed tar file contains runs, sweeps and checkpoints, but no claims, locks, stop requests, files of Ray or
MLflow records.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import BinaryIO, NamedTuple

from orchestrator.history.archive_members import (
    FOREIGN_MARK,
    LAYOUT,
    LAYOUT_MEMBER,
    LONGEST_PART,
    OMITTED_SUFFIXES,
    CopyCounts,
    is_plain,
)
from orchestrator.home.checkpoints import WORK
from orchestrator.home.directories import Home, SweepDirectory
from orchestrator.home.foreign_files import MOST_JOURNAL_BYTES, open_file
from orchestrator.home.run_store import RunStore
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.files import (
    hidden_directory,
    opened_directory,
)
from orchestrator.system.text import first_of

DEEPEST_DIRECTORY = 12
"""Maximum number of nested directories that an export reads. An import accepts fewer."""


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
