"""Directories of a home and its sweeps: paths, locks, stop requests, and atomic writing of directories."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from orchestrator.home.foreign_files import (
    MOST_JOURNAL_BYTES,
    NAME,
    checked_path,
    is_directory,
    is_file,
    open_file,
    own_directory,
    own_path,
    parse_json,
    read_bytes,
    read_json,
)
from orchestrator.system import environment
from orchestrator.system.errors import UserError
from orchestrator.system.files import flush
from orchestrator.system.machine_errors import is_damage

ID = re.compile(r"-\d{8}-\d{6}-[0-9a-f]{4}$")
"""End of a sweep's id: its start in UTC, and four digits to distinguish sweeps of the same second."""
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/?")
"""Beginning of a path that is probably a URL, such as s3://BUCKET."""
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP)
"""Error numbers for a file system without locks, such as NFS without its lock service."""
ABANDONED_S = 3600.0
"""Age in seconds at which an incomplete directory counts as abandoned. Writing takes only seconds."""
LOCK_WAIT_S = 0.5
"""Seconds to wait for a sweep's lock, because :meth:`SweepDirectory.is_driven` briefly takes the lock, too."""


class SweepDirectory:
    """Directory of a sweep, with its files, its driver's lock, and stop requests."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.id = directory.name
        self.home = Home(directory.parent.parent)
        self.spec = directory / "space.yaml"
        """Resolved search space (YAML)."""
        self.journal = directory / "journal.jsonl"
        """Log of the sweep, one event per JSON line."""
        self.tune = directory / "tune"
        """Files of Ray Tune, which are never read again."""
        self.checkpoints = directory / "checkpoints"
        """Checkpoints of stacks that train on this machine."""
        self.stacks = directory / "stacks"
        """Progress of stacks in training, one directory per stack."""
        self._lock = directory / "driver.lock"
        self._stop_requests = directory / "stop.jsonl"

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Hold the sweep's lock. Raises :class:`UserError` if another process has it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for path in (self._lock, self.tune, self.checkpoints, self.stacks):
            own_path(path)
        try:
            lock = FileLock(self._lock).acquire(timeout=LOCK_WAIT_S)
        except Timeout:
            raise self._driven() from None
        with lock:
            yield

    def is_driven(self) -> bool:
        """Return True if any process holds the sweep's lock. Does not write anything. Raises ``OSError`` if the lock
        exists but cannot be opened."""
        try:
            descriptor = os.open(self._lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if not is_damage(error):
                raise
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in NO_LOCKS
        finally:
            os.close(descriptor)
        return False

    def check_free(self) -> None:
        """Raise :class:`UserError` if a process holds the sweep's lock."""
        if self.is_driven():
            raise self._driven()

    def request_stop(self, mix: str) -> None:
        """Ask the sweep's driver to stop a mix, or the whole sweep (""), in a separate file because only the driver
        writes the journal."""
        with own_path(self._stop_requests).open("ab", buffering=0) as file:  # A single write keeps requests apart.
            file.write(json.dumps({"mix": mix}).encode() + b"\n")

    def stop_requests(self) -> list[str]:
        """Return the mix of every request since the sweep's driver started, except an incomplete last line."""
        requests = []
        for line in whole_lines(self._stop_requests):
            with suppress(ValueError):  # Somebody else wrote this line. Only the mixes of the sweep can be stopped.
                values = parse_json(line)
                if isinstance(values, dict) and isinstance(values.get("mix"), str):
                    requests.append(values["mix"])
        return requests

    def forget_stop_requests(self) -> None:
        """Drop the requests to an earlier driver. A driver calls this when it starts."""
        self._stop_requests.unlink(missing_ok=True)

    def _driven(self) -> UserError:
        return UserError(f"{self.id} is being run by another process; wait for it or stop it")


@dataclass(frozen=True)
class Home:
    """Directory of runs and of the sweeps that use them, next to the MLflow store."""

    root: Path

    @property
    def runs(self) -> Path:
        """Finished runs of all sweeps, one directory per key."""
        return self.root / "runs"

    @property
    def claims(self) -> Path:
        """Claims of sweeps on runs in training, one file per key."""
        return self.root / "claims"

    def check_links(self) -> None:
        """Raise :class:`UserError` if a directory of the home is a link. What is written and deleted there could be
        somebody else's."""
        for path in (self.root / "sweeps", self.runs, self.claims):
            if path.is_symlink():
                raise UserError(f"{path} is a link, which is not followed: move the directory there, or link the home")

    def sweep(self, sweep_id: str) -> SweepDirectory:
        return SweepDirectory(self.root / "sweeps" / sweep_id)

    def sweep_ids(self) -> list[str]:
        """Return the ids of all sweeps, the last written first. Directories with other names come last, and those with
        names that cannot be shown or be part of a path, and links, are not sweeps (`doctor` lists them).

        A directory that this user cannot open counts, because it may be a sweep. Raises ``OSError`` if the home or its
        directory of sweeps cannot be read.
        """
        self.check_links()
        journals = [path / "journal.jsonl" for path in entries(self.root / "sweeps") if NAME.fullmatch(path.name)]
        readable = [path for path in journals if is_directory(path.parent) and may_be_file(path)]

        def newest(path: Path) -> tuple[bool, str, list[str]]:
            name = path.parent.name
            return ID.search(name) is not None, last_written(path), name.rsplit("-", 3)[1:]

        return [path.parent.name for path in sorted(readable, key=newest, reverse=True)]


def last_written(journal: Path) -> str:
    """Return the time of a journal's last line (ISO 8601, UTC), but none after the file itself was written. A copy has
    the time of its original, and a sweep cannot claim to be from the future."""
    try:
        with open_file(journal) as file:
            size = os.fstat(file.fileno()).st_size
            written = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC).isoformat(timespec="seconds")
            file.seek(max(0, size - LAST_LINES))
            times = AT.findall(file.read())
    except (OSError, ValueError, OverflowError):
        return ""
    return min(written, times[-1].decode()) if times else written


def entries(directory: Path) -> list[Path]:
    """Return the paths in a directory, sorted, and none if it is missing. Raises ``OSError`` if it cannot be read:
    ``Path.glob`` returns nothing then, as if it were empty."""
    try:
        return sorted(directory / name for name in os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []


def files_below(directory: Path) -> list[Path]:
    """Return the paths of all plain files below a directory, sorted. Raises ``OSError`` as :func:`entries`."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise error

    paths = [Path(parent, name) for parent, _, names in os.walk(directory, onerror=refuse) for name in names]
    return sorted(path for path in paths if is_file(path))


def may_be_file(path: Path) -> bool:
    """Return True for a plain file, or if this user may not know whether it is one."""
    try:
        return is_file(path)
    except OSError as error:
        return not is_damage(error)


def check_home(root: Path) -> None:
    """Raise :class:`UserError` if a home's path is a URL, a circular link, a file or below a file."""
    if ADDRESS.match(str(root)):
        raise UserError(f"{root} is a URL: give a directory as --home; deploy/README.md explains how to copy a home")
    try:
        root.resolve()
    except (RuntimeError, OSError):  # Which one depends on the version of Python.
        raise UserError(f"{root} is a link that leads back to itself: give a directory as --home") from None
    for path in (root, *root.parents):
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file: give a directory as --home")


def make_home(root: Path) -> None:
    """Create a home's directory, which only this user can open until they change its mode. Raises :class:`UserError` if
    that fails or the file system does not support locks."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{root} cannot be created: {error.strerror}; give another directory as --home") from None
    Home(root).check_links()
    try:
        with tempfile.TemporaryFile(dir=root) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:  # Later writes report a full or read-only disk.
            remedy = "mount it with locks, or give another directory as --home"
            raise UserError(f"{root} is on a file system without locks ({error.strerror}): {remedy}") from None


def scratch(chosen: str | None) -> Path:
    """Create and return a directory for training data, by default in the system's temporary directory. It outlives
    sweeps, which share the data. Raises :class:`UserError` if it cannot be created, or as
    :func:`orchestrator.system.environment.private_directory` does."""
    if not chosen:
        return environment.private_directory()
    path = environment.user_path(chosen)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path} cannot be created: {error.strerror}; name another directory as --scratch") from error
    return path


AT = re.compile(rb'"(?:at|created)":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00)"')
"""Time in a line of a journal."""
LAST_LINES = 4096
"""Bytes at the end of a journal that are read for its time."""
CONTENTS = "contents.json"
"""File with the checksums of all other files in the directory of a run or checkpoint, written last."""
PROBES = "probes"
"""Directory in a run's directory, with NAME.json for each probe and, if it has arrays, NAME.npz. They have no
checksums, because a later result of the same probe replaces them."""


def seal(directory: Path) -> None:
    """Write the checksum of every file in a directory."""
    paths = sorted(path for path in directory.rglob("*") if is_file(path) and path.parent.name != PROBES)
    sums = {str(path.relative_to(directory)): _checksum(path) for path in paths}
    (directory / CONTENTS).write_text(json.dumps(sums), encoding="utf-8")


def flaw_of(directory: Path, *names: str) -> str:
    """Return the flaw of the first damaged or missing file in a sealed directory or among ``names``, or ""."""
    try:
        sums = read_json(directory / CONTENTS)
        if not isinstance(sums, dict) or not is_directory(directory):
            return f"{CONTENTS} does not list files"
        for name in names or (name for name in map(checked_path, sums) if not name.startswith(f"{PROBES}/")):
            if name not in sums:
                return f"{CONTENTS} does not list {name}"
            own_directory(directory, *name.split("/")[:-1])
            if _checksum(directory / name) != sums[name]:
                return f"{name} does not match its checksum"
    except (OSError, ValueError, TypeError) as error:
        if not is_damage(error):
            raise  # The machine is at fault, not the file.
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return ""


def _checksum(path: Path) -> int:
    checksum = 0
    with open_file(path) as file:
        while part := file.read(1 << 20):
            checksum = zlib.crc32(part, checksum)
    return checksum


def whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a file, except an incomplete last line left by a crash. A missing file has no lines. Raises
    ``ValueError`` for a link, a pipe and a file of more than :data:`MOST_JOURNAL_BYTES`."""
    try:
        return read_bytes(path, MOST_JOURNAL_BYTES).split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def remove_abandoned(parent: Path, pattern: str) -> None:
    """Remove incomplete directories left by killed processes."""
    for path in parent.glob(pattern):
        if is_directory(path) and time.time() - path.stat().st_mtime > ABANDONED_S:
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """Yield a directory to fill, which is flushed and renamed to ``path`` on success. An existing ``path`` stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path.parent, f".{path.name}-*")
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield aside
        for file in (*aside.rglob("*"), aside):
            flush(file)
        try:
            aside.rename(path)
        except OSError:
            if not path.is_dir():
                raise
        flush(path.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
