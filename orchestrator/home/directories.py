"""Directories of a home and its sweeps: paths, the driver's lock, and requests to stop.

The files of a home have no version numbers. Give a new field a default that has the meaning of its absence in older
files, and write the field only if it has another value. Then older files stay complete, and most new files do not
change. Readers are strict in the other direction. If an older program finds an unknown field, it refuses the
specification or ignores the journal's line. It deletes a run with such an outcome as damaged, and trains it again. A
checkpoint is worth only its training time. If a learner cannot read it, it is dropped, and its runs begin at step 0.

If no default can express a change, give the file another name. If the change concerns what was trained, give the run
another key: raise the ``version`` of the family. If it makes older sweeps unreadable, raise ``JOURNAL_SCHEMA`` in
history/journal.py, which is in the first line of every journal. Such a sweep is refused with a message, and its runs
are still found by key. ``tests/home/test_older_homes.py`` reads the homes of earlier versions. Archives and exported
answers travel between versions of the program, so each has its own version number.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.home.foreign_files import SWEEP_NAME_PATTERN, open_file, parse_json, whole_lines
from orchestrator.home.safe_writing import open_to_append, own_path
from orchestrator.system.errors import UserError
from orchestrator.system.files import entries, is_directory, is_file, locked, remove_file, replace_whole
from orchestrator.system.machine_errors import is_damage
from orchestrator.system.mounts import mount_points_below

SWEEP_ID_END = re.compile(r"-\d{8}-\d{6}-[0-9a-f]{4}$")
"""End of a sweep's id: its start in UTC, and four digits to distinguish sweeps of the same second."""
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP)
"""Error numbers for a file system without locks, such as NFS without its lock service."""
LOCK_WAIT_S = 0.5
"""Seconds to wait for a sweep's lock, because :meth:`SweepDirectory.is_driven` also takes the lock briefly."""
AT = re.compile(rb'"(?:at|created)":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00)"')
"""Time in a line of a journal."""
JOURNAL_TAIL_BYTES = 4096
"""Number of bytes at the end of a journal that are searched for the time of its last line."""
DATABASE = "mlflow.db"
"""MLflow's database in a home, next to the directory of its files."""
LINES = "runs.jsonl"
"""File in a home with the record as JSON lines."""
PROBES = "probes"
"""Directory in a run's directory with NAME.json for each probe and, if it has arrays, NAME.npz. The files have no
checksums, because a later result of the same probe replaces them."""
IMPORTED_MARK = ".imported"
"""File that marks a run or a sweep as imported from an archive, which another user may have written. An archive cannot
contain hidden files, so its author cannot set or remove the mark."""


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
        """Files of Ray Tune in sweeps of earlier versions."""
        self.checkpoints = directory / "checkpoints"
        """Checkpoints of stacks that train on this machine."""
        self.stacks = directory / "stacks"
        """Progress of stacks in training, one directory per stack."""
        self.imported = directory / IMPORTED_MARK
        """Mark of a sweep that came with an archive, or was continued from one."""
        self._lock = directory / "driver.lock"
        self._stop_requests = directory / "stop.jsonl"

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Hold the sweep's lock. Raises :class:`UserError` if another process has it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for path in (self._lock, self.checkpoints, self.stacks):
            own_path(path)
        with ExitStack() as cleanup:
            try:
                cleanup.enter_context(locked(self._lock, LOCK_WAIT_S))
            except TimeoutError:
                raise self._driven() from None
            yield

    def is_driven(self) -> bool:
        """Return True if any process holds the sweep's lock. Write nothing. Raises ``OSError`` if the lock exists but
        cannot be opened."""
        try:
            descriptor = os.open(self._lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if not is_damage(error):
                raise
            return False  # There is no lock yet, or a link at its path.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in NO_LOCKS  # A disk without locks cannot have a driver: `driving` would fail.
        finally:
            os.close(descriptor)
        return False

    @property
    def is_imported(self) -> bool:
        """True for a sweep that came with an archive, or was continued from one."""
        return is_file(self.imported)

    def note_own_part(self) -> None:
        """Note that an imported sweep also has runs, checkpoints or pairs of this user. An archive replaces it only if
        the user says that the archive is their own."""
        replace_whole(self.imported, b"0")  # None of the lines in its journal counts as imported.

    def check_free(self) -> None:
        """Raise :class:`UserError` if a process holds the sweep's lock."""
        if self.is_driven():
            raise self._driven()

    def request_stop(self, mix: str) -> None:
        """Ask the sweep's driver to stop a mix. An empty ``mix`` means the whole sweep."""
        # In a separate file, because only the driver writes the journal. A single write keeps requests apart.
        with open_to_append(self._stop_requests) as file:
            file.write(json.dumps({"mix": mix}).encode() + b"\n")

    def stop_requests(self) -> list[str]:
        """Return the mix of each request since the sweep's driver started. Skip an incomplete last line."""
        requests = []
        for line in whole_lines(self._stop_requests):
            # Another user may have written the line. The caller stops only mixes that the sweep has.
            with suppress(ValueError):
                values = parse_json(line)
                if isinstance(values, dict) and isinstance(values.get("mix"), str):
                    requests.append(values["mix"])
        return requests

    def delete_stop_requests(self) -> None:
        """Delete the requests to an earlier driver. A driver calls this when it starts."""
        remove_file(self._stop_requests)

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
        """Raise :class:`UserError` if a directory of the home is a link, through which another user's files could be
        overwritten or deleted."""
        for path in (self.root / "sweeps", self.runs, self.claims):
            if path.is_symlink():
                raise UserError(f"{path} is a link, which is not followed: move the directory there, or link the home")

    def check_mounts(self, deed: str) -> None:
        """Raise :class:`UserError` if another directory or disk is mounted in a run or a sweep. Its files are not part
        of the home. ``deed`` is what a command would do with them, such as "delete"."""
        for directory in (self.root / "sweeps", self.runs):
            if points := mount_points_below(directory):
                raise UserError(
                    f"{points[0]} is a mount point, so this command would {deed} files from elsewhere. Unmount it "
                    f"first: `umount {shlex.quote(str(points[0]))}`"
                )

    def sweep(self, sweep_id: str) -> SweepDirectory:
        return SweepDirectory(self.root / "sweeps" / sweep_id)

    def sweep_ids(self) -> list[str]:
        """Return the ids of all sweeps, the last written first. Directories whose names are not ids come last.

        Links are skipped, and so are names that cannot be shown or be part of a path (`doctor` lists both). A directory
        that this user cannot open counts, because it may be a sweep. Raises ``OSError`` if the home or its directory of
        sweeps cannot be read.
        """
        self.check_links()
        journals = [
            path / "journal.jsonl" for path in entries(self.root / "sweeps") if SWEEP_NAME_PATTERN.fullmatch(path.name)
        ]
        readable = [path for path in journals if is_directory(path.parent) and may_be_file(path)]

        def newest(path: Path) -> tuple[bool, str, list[str]]:
            name = path.parent.name
            return SWEEP_ID_END.search(name) is not None, last_written(path), name.rsplit("-", 3)[1:]

        return [path.parent.name for path in sorted(readable, key=newest, reverse=True)]


def last_written(journal: Path) -> str:
    """Return the time of a journal's last line (ISO 8601, UTC). A copy has the time of its original.

    The time is never later than the file's own modification time, so that a forged time cannot be in the future. Return
    an empty string if the journal cannot be read.
    """
    try:
        with open_file(journal) as file:
            size = os.fstat(file.fileno()).st_size
            written = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC).isoformat(timespec="seconds")
            file.seek(max(0, size - JOURNAL_TAIL_BYTES))
            times = AT.findall(file.read())
    except (OSError, ValueError, OverflowError):
        return ""
    return min(written, times[-1].decode()) if times else written


def may_be_file(path: Path) -> bool:
    """Return True for a plain file, or if this user has no permission to find out."""
    try:
        return is_file(path)
    except OSError as error:
        return not is_damage(error)
