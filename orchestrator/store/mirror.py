"""The small files of a home, kept in an object store as well: journals, specifications, notes, answers.

They are files of a directory beside whoever works with them, where they are appended and locked as in any home. This
brings them up to date before a command looks (:meth:`Mirror.pull`), and copies to the store what a command has changed
(:meth:`Mirror.push`), on the condition that the store still has what was brought: what another machine has written
meanwhile is never written over. Runs and checkpoints are in the store alone (:mod:`orchestrator.store.storage`).
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock

from orchestrator.store import lease
from orchestrator.store.bucket import ABSENT, Bucket, ChangedError, Stored
from orchestrator.store.files import Home, SweepFiles, write_whole
from orchestrator.store.locks import is_held

DIRECTORY = ".mirror"
"""In the local directory: its id, and what it has of the store."""
SHARED = frozenset({"notes.json", "stop.jsonl"})
"""Files of a sweep that other machines than its driver's write, too: the store's version holds."""
ASIDE = ".here-"
"""Stands between the name of a file that was put aside and when."""
AT_ONCE = 16
"""Files that are brought at the same time: each waits for the network more than it computes."""
Look = tuple[int, int]
"""Bytes of a file, and the time of its last change (ns)."""
Known = dict[str, tuple[str, int, int]]
"""By the name of a file: the ETag of the version that is here, and how that looks here."""


class OvertakenError(Exception):
    """Another machine has written a file of a sweep since it was brought here; the text is its name."""


class Mirror:
    """Between a directory and the place in a store whose home it is here. ``say`` is told of what had to be put aside.

    Methods raise ``OSError`` where the store or the disk is in trouble.
    """

    def __init__(self, root: Path, address: str, say: Callable[[str], object]) -> None:
        self.root = root
        self.address = address
        self.bucket = Bucket(address)
        self._home = Home(root)
        self.say = say
        self._own = root / DIRECTORY
        self._own.mkdir(parents=True, exist_ok=True)
        write_whole(root / "storage", f"{self.bucket.address}\n")
        self._driven: set[str] = set()
        """Sweeps that this process drives: the store follows their files, not the other way round."""
        self._leases: dict[str, float] = {}
        """By sweep, as of the last pull: when the lease lapses that another machine has, by this process's clock."""

    @property
    def id(self) -> str:
        """The name of this directory among all that mirror the same place."""
        path = self._own / "id"
        if not path.is_file():
            write_whole(path, secrets.token_hex(8))
        return path.read_text(encoding="utf-8")

    def pull(self) -> None:
        """Bring what the store has and this directory has not, of all sweeps that no process here drives. A file that
        was changed here and there is put aside here."""
        with self._alone():
            sweeps: dict[str, dict[str, Stored]] = {}
            for each in self.bucket.list("sweeps/"):
                _, sweep_id, *name = each.key.split("/")
                if len(name) == 1 and _is_mirrored(name[0]) and not sweep_id.startswith("."):
                    sweeps.setdefault(sweep_id, {})[name[0]] = each
            self._leases = dict(self._held_elsewhere(sweeps))
            known_here = {path.stem for path in self._own.glob("*.json")}
            for sweep_id in sorted(known_here.union(sweeps)):
                self._pull(sweep_id, sweeps.get(sweep_id, {}))

    def is_driven_elsewhere(self, sweep_id: str) -> bool:
        """Whether another machine drives a sweep, as of the last pull."""
        return time.monotonic() < self._leases.get(sweep_id, 0.0)

    def push(self) -> None:
        """Copy to the store what was changed here in sweeps that nobody drives. What another machine has written
        meanwhile stays as that has it: the next pull brings it."""
        with self._alone():
            for sweep_id in {*self._home.sweep_ids(), *(path.stem for path in self._own.glob("*.json"))}:
                if self._is_free(sweep_id):
                    try:
                        self.push_sweep(sweep_id)
                    except OvertakenError as error:
                        self.say(f"{error} was changed by another machine meanwhile, whose version holds")

    def push_sweep(self, sweep_id: str) -> None:
        """The same for one sweep, by whoever may write its files. Raises :class:`OvertakenError`."""
        known, there = self._known(sweep_id), _looks(self._home.sweep(sweep_id))
        before = dict(known)
        try:
            for name, look in sorted(there.items(), reverse=True):  # What says that it is a sweep before its journal.
                if name not in known or known[name][1:] != look:
                    self._send(sweep_id, name, known, look)
            for name in known.keys() - there.keys():
                self.bucket.delete(_key(sweep_id, name))
                del known[name]
        finally:
            if known != before:
                self._remember(sweep_id, known)

    def fetch(self, sweep_id: str) -> None:
        """Bring the files of a sweep that is driven here which others write as well."""
        known, files = self._known(sweep_id), self._home.sweep(sweep_id)
        before = dict(known)
        for name in SHARED:
            found = self.bucket.read(_key(sweep_id, name), known=known[name][0] if name in known else "")
            if found is not None:
                known[name] = self._put(files.directory / name, *found)
        if known != before:
            self._remember(sweep_id, known)

    @contextmanager
    def driving(self, sweep_id: str) -> Iterator[None]:
        """A block in which this process writes the files of a sweep, beginning with what the store has. Under the
        sweep's lock of files and its lease."""
        with self._alone():
            prefix = _key(sweep_id, "")
            found = {each.key.removeprefix(prefix): each for each in self.bucket.list(prefix, deep=False)}
            self._pull(sweep_id, {name: each for name, each in found.items() if name != lease.NAME}, locked=True)
            self._driven.add(sweep_id)
        try:
            yield
        finally:
            self._driven.discard(sweep_id)

    def _held_elsewhere(self, sweeps: dict[str, dict[str, Stored]]) -> Iterator[tuple[str, float]]:
        """The leases among these objects that have not lapsed, and when they do."""
        for sweep_id, files in sweeps.items():
            there = files.pop(lease.NAME, None)
            if there is None or there.age_s >= lease.LAPSE_S:
                continue
            found = lease.holder_of(self.bucket, sweep_id)
            if found is not None and found[0].home != self.id:
                yield sweep_id, time.monotonic() + lease.LAPSE_S - found[2]

    def _send(self, sweep_id: str, name: str, known: Known, look: Look) -> None:
        key, path = _key(sweep_id, name), self._home.sweep(sweep_id).directory / name
        try:
            content = path.read_bytes()
        except FileNotFoundError:  # It has just gone; so it does there the next time.
            return
        try:
            etag = self.bucket.write(key, content, known[name][0] if name in known else ABSENT)
        except ChangedError:
            found = self.bucket.read(key)
            if found is not None and (found[0] == content or name in SHARED):
                known[name] = self._put(path, *found) if found[0] != content else (found[1], *look)
                return
            if found is not None and name in known and found[1] == known[name][0]:
                return  # Another write was under way, and failed: this one is tried again.
            raise OvertakenError(f"{self.address}/{key}") from None
        known[name] = (etag, *look)

    def _pull(self, sweep_id: str, found: dict[str, Stored], *, locked: bool = False) -> None:
        """Bring one sweep. ``locked``: it is this process that holds its lock."""
        if not locked and not self._is_free(sweep_id):
            return
        files, known = self._home.sweep(sweep_id), self._known(sweep_id)
        here = _looks(files)
        new = [name for name, each in found.items() if name not in known or each.etag != known[name][0]]
        wanted = sorted({*new, *(name for name in found if name not in here)})
        gone = [name for name in known if name not in found]
        if not wanted and not gone:
            return
        for name in gone:
            self._lay_aside(files.directory / name, known, None)
            del known[name]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            contents = list(pool.map(lambda name: self.bucket.read(_key(sweep_id, name)), wanted))
        for name, content in zip(wanted, contents, strict=True):
            if content is not None:
                self._lay_aside(files.directory / name, known, content[0])
                known[name] = self._put(files.directory / name, *content)
        if not found and not _looks(files) and not list(files.directory.glob(f".*{ASIDE}*")):
            shutil.rmtree(files.directory, ignore_errors=True)  # Removed elsewhere: the rest is nobody's.
        elif _is_fresh(files):
            files.own_runs.mkdir(exist_ok=True)
        self._remember(sweep_id, known)

    def _lay_aside(self, path: Path, known: Known, theirs: bytes | None) -> None:
        """Make room for another machine's version of a file, or for none: what was changed here alone is kept under
        another name."""
        look = _look(path)
        if look is None:
            return
        if (path.name in known and known[path.name][1:] == look) or path.read_bytes() == theirs:
            path.unlink()
            return
        aside = path.with_name(f".{path.name}{ASIDE}{datetime.now(UTC):%Y%m%d-%H%M%S}")
        path.rename(aside)
        self.say(f"{path} was changed here, and by another machine, whose version holds: this one lies in {aside.name}")

    def _put(self, path: Path, content: bytes, etag: str) -> tuple[str, int, int]:
        """Write what the store has; how it is remembered."""
        write_whole(path, content)
        look = _look(path)
        assert look is not None
        return (etag, *look)

    def _is_free(self, sweep_id: str) -> bool:
        """Whether no process of this machine drives a sweep."""
        return sweep_id not in self._driven and not is_held(self._home.sweep(sweep_id).lock)

    def _known(self, sweep_id: str) -> Known:
        path = self._own / f"{sweep_id}.json"
        if not path.is_file():
            return {}
        return {name: (etag, size, at) for name, (etag, size, at) in json.loads(path.read_text("utf-8")).items()}

    def _remember(self, sweep_id: str, known: Known) -> None:
        path = self._own / f"{sweep_id}.json"
        if known:
            write_whole(path, json.dumps(known))
        else:
            path.unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A block in which no other process brings or sends files of this directory, but for those it drives."""
        with FileLock(self._own / "lock"):
            yield


def _key(sweep_id: str, name: str) -> str:
    return f"sweeps/{sweep_id}/{name}"


def _is_mirrored(name: str) -> bool:
    """Whether a file of a sweep is to be in the store; its directories are not."""
    return bool(name) and not name.startswith(".") and not name.endswith(".lock")


def _looks(files: SweepFiles) -> dict[str, Look]:
    """How a sweep's files look that are to be in the store."""
    if not files.directory.is_dir():
        return {}
    found = {path.name: _look(path) for path in files.directory.iterdir() if _is_mirrored(path.name)}
    return {name: look for name, look in found.items() if look is not None}


def _look(path: Path) -> Look | None:
    try:
        stat = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return (stat.st_size, stat.st_mtime_ns) if path.is_file() else None


def _is_fresh(files: SweepFiles) -> bool:
    """Whether a sweep keeps its runs by itself, which a directory says that no store keeps while it is empty."""
    try:
        return bool(json.loads(files.about.read_text(encoding="utf-8")).get("fresh"))
    except (OSError, ValueError, AttributeError):
        return False
