"""Stores summaries of finished sweeps between commands, because to read and estimate 300 sweeps takes a minute.

The summaries are in this user's own cache, ``~/.cache/orchestrator/summaries`` (or below ``XDG_CACHE_HOME``). They are
never in a home: another user may have written the home, and a forged summary could claim anything. A summary is a copy,
so it can be deleted. It is made when a sweep ends or, if it is missing, when a command first reads the sweep.

A summary is used only if its sources have not changed since (:func:`_stamp`). They are the content of the journal and
the search space, the state of each run's files (inode, size, time of change) and the source of this program. For a
family from outside this project, the family's source and the list of trusted code count too. A summary is stored only
if no source changed after the sweep was read. Running, unfinished and damaged sweeps are read every time, and so are
sweeps of scripts and notebooks.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

import orchestrator
from orchestrator.catalog.reading import StoredSweep, find_sweep, read_known, result_of_family
from orchestrator.catalog.summary import Summary, summarize
from orchestrator.history.foreign_time import ForeignTime
from orchestrator.history.journal import Ended, read_journal
from orchestrator.history.sweeps import UnreadableError
from orchestrator.home.directories import PROBES, Home, SweepDirectory
from orchestrator.home.foreign_files import (
    MOST_JOURNAL_BYTES,
    MOST_SPACE_BYTES,
    checked_key,
    parse_json,
    read_bytes,
    typed,
)
from orchestrator.home.run_files import OUTCOME, directory_bytes
from orchestrator.home.seals import CONTENTS
from orchestrator.home.trusted_code import list_path
from orchestrator.jobs.state import State
from orchestrator.system.files import opened_parent
from orchestrator.system.permissions import exchange_text, is_of_another
from trainables import IMPORTED_AT
from trainables.contract.file_hashes import may_have_changed
from trainables.contract.finder import is_outside
from trainables.contract.user_modules import files_of

log = logging.getLogger(__name__)

LARGEST_SUMMARY = 16 << 20
"""Maximum number of bytes of a stored summary that is read."""
SOURCES = ("orchestrator", "trainables", "search_spaces")
"""Directories of the program, next to each other."""
SOURCE_SUFFIXES = (".py", ".yaml")
"""Endings of the names of the program's files."""
RUN_PARTS = ("", OUTCOME, CONTENTS, PROBES)
"""Paths in the directory of a run that change whenever a summary of the run may become wrong."""
QUIET_NS = 1_000_000_000
"""Time for which files must not have changed before a sweep was read, because clocks of file systems are coarse."""
MARGIN_NS = 20_000_000
"""Time to wait in addition to :data:`QUIET_NS`."""


@dataclass(frozen=True)
class CachedSummary:
    """Content of a file.

    Attributes:
        stamp: Hash of everything that the summary was computed from.
        keys: Keys of the runs that the summary depends on.
        code: Paths of the files of code that the summary depends on.
        summary: The summary.
    """

    stamp: str
    keys: tuple[str, ...]
    code: tuple[str, ...]
    summary: Summary


def read_summary(
    home: Home, sweep_id: str, read: Callable[[], StoredSweep | UnreadableError] | None = None
) -> Summary | UnreadableError:
    """Return the summary of a sweep, or the reason why it is unreadable. If no summary is stored, call ``read`` to read
    the sweep."""
    if (summary := find(home.sweep(sweep_id))) is not None:
        return summary
    stored = read_known(home, sweep_id) if read is None else read()
    if isinstance(stored, UnreadableError):
        return stored
    return result_of_family(stored.sweep, lambda: keep(stored))


def read_summaries(home: Home) -> list[Summary | UnreadableError]:
    """Return the summaries of a home's sweeps, newest first, each or the reason why it is not read."""
    limit = ForeignTime(home)
    return [limit.read(sweep_id, partial(read_summary, home, sweep_id)) for sweep_id in home.sweep_ids()]


def open_summary(home: Home, given: str | None) -> Summary:
    """Return the summary of the sweep that :func:`~orchestrator.catalog.reading.find_sweep` finds.

    Raises:
        UserError: If no sweep or several sweeps match.
        UnreadableError: If the sweep's files are damaged.
    """
    summary = read_summary(home, find_sweep(home, given))
    if isinstance(summary, UnreadableError):
        raise summary
    return summary


def find(files: SweepDirectory) -> Summary | None:
    """Return the stored summary of a sweep. Return None if none is stored, or if something that the summary was
    computed from has changed."""
    try:
        content = read_bytes(_place(files), LARGEST_SUMMARY)
        digest, _, body = content.partition(b"\n")
        if not _is_own(_place(files)) or digest != hashlib.sha256(body).hexdigest().encode() or files.is_driven():
            return None
        entry = typed(CachedSummary, parse_json(body))
        is_same = entry.stamp == _stamp(files, entry.keys, entry.code)[0]
        # The stamp does not cover the sweep's directory, because reports and figures there come and go.
        return replace(entry.summary, directory_bytes=directory_bytes(files.directory)) if is_same else None
    except (OSError, ValueError):  # It is missing, damaged or from another version, so the sweep is read.
        return None


def keep(stored: StoredSweep) -> Summary:
    """Return the summary of a sweep, and store it if the sweep has finished."""
    summary = summarize(stored)
    if stored.state is not State.FINISHED or stored.damage or (code := _code(stored)) is None:
        return summary
    files = stored.sweep.files
    try:
        keys = tuple(dict.fromkeys(entry.key for entry in read_journal(files.journal) if isinstance(entry, Ended)))
        stamp, changed_ns = _stamp(files, keys, code)
        # A file that changed after the sweep was read would be in the stamp but not in the summary.
        if changed_ns + QUIET_NS < stored.read_ns:
            _write(_place(files), CachedSummary(stamp, keys, code, summary))
    except (OSError, ValueError) as error:  # A full or missing disk, for example: the next command computes it again.
        log.info(f"the summary of {stored.id} was not kept: {error}")
    return summary


def keep_ended(files: SweepDirectory, *, can_wait: bool) -> None:
    """Store the summary of a sweep that this process has just ended, so that the first listing finds it.

    If the files have changed too recently, wait. Without ``can_wait``, store nothing instead.
    """
    left_ns = files.journal.lstat().st_ctime_ns + QUIET_NS + MARGIN_NS - time.time_ns()
    if left_ns > 0:
        if not can_wait:
            return
        time.sleep(left_ns / 1e9)
    read_summary(files.home, files.id)


def forget(files: SweepDirectory) -> None:
    """Delete the stored summary of a sweep."""
    with suppress(OSError):
        _place(files).unlink(missing_ok=True)
        _place(files).parent.rmdir()


def directory() -> Path:
    """Return the directory of this user's stored summaries. Raises ``FileNotFoundError`` if the user has no home
    directory, as in some containers."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        cache = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    except RuntimeError as error:
        raise FileNotFoundError(f"{error}; set HOME or XDG_CACHE_HOME") from error
    return cache / "orchestrator" / "summaries"


def _place(files: SweepDirectory) -> Path:
    home = hashlib.sha256(os.fsencode(files.home.root.resolve())).hexdigest()[:16]
    return directory() / home / f"{hashlib.sha256(os.fsencode(files.id)).hexdigest()[:16]}.json"


def _is_own(path: Path) -> bool:
    """Return True for a file that only this user could have written, or put in its place."""
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and not exchange_text(path)


def _write(path: Path, entry: CachedSummary) -> None:
    """Write a file whole, readable by its owner only. It need not survive a crash. Raises ``OSError``, also if a part
    of the path belongs to another user, who could choose the directory that is written."""
    body = json.dumps(asdict(entry), separators=(",", ":")).encode()
    for place in path.parents[:4]:  # Up to the directory of all programs' caches.
        if os.path.lexists(place) and is_of_another(place.lstat()):
            raise PermissionError(errno.EPERM, "It belongs to another user", str(place))
    aside = f".{path.name}-{secrets.token_hex(8)}"
    with opened_parent(path, make=True, mode=0o700) as parent:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with os.fdopen(os.open(aside, flags, 0o600, dir_fd=parent), "wb") as file:
                file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            os.replace(aside, path.name, src_dir_fd=parent, dst_dir_fd=parent)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(aside, dir_fd=parent)


def _code(stored: StoredSweep) -> tuple[str, ...] | None:
    """Return the files of the code from outside this project that a sweep names. Return None if they are unknown."""
    if stored.spec.script is not None:
        return None  # Whenever such a sweep is read, the files of its script are checked.
    named = (name.partition(":") for name in (stored.spec.family, *stored.spec.probes))
    files: list[Path] = []
    for module in dict.fromkeys(module for module, colon, _ in named if colon and is_outside(module)):
        own = list(files_of(module).values())
        if not own or any(map(may_have_changed, own)):
            return None  # The code is in a notebook, or in a file that may have changed after it was imported.
        files += own
    return (*map(str, files), str(list_path())) if files else ()


def _stamp(files: SweepDirectory, keys: Iterable[str], code: Sequence[str]) -> tuple[str, int]:
    """Return a hash of everything that a summary is computed from, and the time in ns of its last change.

    Raises ``OSError`` or ``ValueError`` if a part cannot be read.
    """
    digest = hashlib.sha256(_program().encode())
    changed_ns = 0
    # Two small files are hashed whole. Of each run, only the state of its files counts, because runs can be large.
    for written, most in ((files.journal, MOST_JOURNAL_BYTES), (files.spec, MOST_SPACE_BYTES)):
        content = read_bytes(written, most)
        # With its length, so that content cannot move from one file to the other unnoticed.
        digest.update(b"%d %b\n" % (len(content), hashlib.sha256(content).digest()))
    directories = [os.path.join(files.home.runs, checked_key(key)) for key in keys]
    parts = (os.path.join(directory, part) if part else directory for directory in directories for part in RUN_PARTS)
    for path in (*code, *map(os.fspath, (files.journal, files.spec, files.imported)), *parts):
        state, at_ns = _state(path)
        digest.update(state)
        changed_ns = max(changed_ns, at_ns)
    return digest.hexdigest(), changed_ns


def _state(path: str) -> tuple[bytes, int]:
    """Return a text that identifies the content of a path without reading it, and the time of its last change in ns.

    Nobody can choose the time of change (ctime), and a copy of a file has a different time.
    """
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return b"-\n", 0
    values = (status.st_mode, status.st_uid, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return b"%d %d %d %d %d %d\n" % values, status.st_ctime_ns


@cache
def _program() -> str:
    """Return text that changes whenever this program, or a library that affects its results, changes."""
    parts = [sys.version, *(f"{name} {version(name)}" for name in ("numpy", "scipy"))]
    for source in (Path(orchestrator.__file__).parents[1] / name for name in SOURCES):
        for root, _, names in sorted(os.walk(source)):
            for path in (os.path.join(root, name) for name in sorted(names) if name.endswith(SOURCE_SUFFIXES)):
                status = os.stat(path)
                # This process may have imported the file before it changed, so no stored summary may match.
                if max(status.st_mtime, status.st_ctime) > IMPORTED_AT:
                    return secrets.token_hex()
                parts.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(parts)
