"""A home in a bucket: a working directory on this machine, copied from the bucket first and to it as it changes.

Everything is written and read in the working directory, as in any home. The bucket has ``runs/KEY.tar`` for every
finished run, ``sweeps/ID.tar`` with the small files of every sweep, and ``leases/ID`` for those that are driven. Runs
are uploaded before a journal that names them. What another machine has written is never written over: each write is
conditional, and the bucket's version holds. Checkpoints, claims, locks, requests to stop and the record of MLflow stay
on this machine.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from filelock import FileLock

from orchestrator.environment import user_path
from orchestrator.errors import UserError
from orchestrator.home.bucket import ABSENT, Bucket, ChangedError, Stored, is_address
from orchestrator.home.files import Home, is_held, whole_directory, write_whole

VARIABLE = "ORCHESTRATOR_LOCAL"
"""Names the directory that holds the working directories of such homes."""
FOLLOW_EVERY_S = 5.0
"""Pause between two looks of a command that goes on at what other machines have written."""
OWN = ".bucket"
"""In a working directory: its address, its id, and the ETags of what it has."""
RUNS, SWEEPS, LEASES, TAR = "runs/", "sweeps/", "leases/", ".tar"
KEY = re.compile(r"(runs|sweeps)/\w[\w.-]*\.tar")
"""Objects that are directories here."""
LOCAL = (".lock", ".log", "stop.jsonl")
"""Endings of a sweep's files that are not copied."""
AT_ONCE = 16
"""Objects that are fetched at the same time."""
Look = tuple[int, int]
"""Bytes of a directory's files, and the newest time of a change (ns)."""
Known = dict[str, tuple[str, Look]]
"""By key: the ETag of the version that is here, and its look."""


class OvertakenError(Exception):
    """Another machine has written a sweep since it was fetched here; the text is its key."""


class BucketHome:
    """Between a working directory and its bucket. ``say`` hears of lost connections and of what another machine
    wrote. Methods raise ``OSError`` if the bucket or the disk fails."""

    def __init__(self, root: Path, address: str, say: Callable[[str], object]) -> None:
        self.root = root
        self.bucket = Bucket(address)
        self.address = self.bucket.address
        self.say = say
        self._own = root / OWN
        self.leases: dict[str, Stored] = {}
        """Leases of other machines that the last look found, by sweep."""

    @property
    def id(self) -> str:
        """Name of this working directory among all of the same bucket."""
        path = self._own / "id"
        if not path.is_file():
            write_whole(path, secrets.token_hex(8))
        return path.read_text(encoding="utf-8")

    def pull(self, only: str = "") -> None:
        """Fetch what the bucket has and this directory has not, and remove what was removed there: of all sweeps that
        no process here drives, and of this one, just before it is driven."""
        with self._alone() as known:
            there = {each.key: each for each in self.bucket.list()}
            self.leases = {}
            for key, lease in there.items():
                held = self.bucket.read(key) if key.startswith(LEASES) else None
                if held is not None and json.loads(held[0])["home"] != self.id:
                    self.leases[key.removeprefix(LEASES)] = lease
            keys = [key for key in {**there, **known} if KEY.fullmatch(key)]
            keys = [key for key in keys if key == _key_of(only) or not self._is_driven(key)]
            for key in keys:
                if key not in there:
                    self._remove(key)
                    del known[key]
            here = {key: known[key][0] for key in keys if key in known and self._path(key).is_dir()}
            self._fetch([key for key in keys if key in there and here.get(key) != there[key].etag], known)

    def push(self, sweep_id: str = "", alive: Callable[[], object] = lambda: None) -> None:
        """Copy to the bucket what was changed here: of a sweep that this process drives, or of all that nobody drives.
        ``alive`` is called between two objects. Raises :class:`OvertakenError` for a sweep that is driven."""
        with self._alone() as known:
            ids = [sweep_id] if sweep_id else Home(self.root).sweep_ids()
            keys = [_key_of(each) for each in ids if sweep_id or each not in self.leases]
            # Read before the runs, so that no journal is ahead of them.
            sweeps = list(self._changed((key for key in keys if sweep_id or not self._is_driven(key)), known))
            runs = (f"{RUNS}{path.name}{TAR}" for path in sorted((self.root / RUNS).glob("[!.]*")))
            for key, look, content in chain(self._changed(runs, known), sweeps):
                try:
                    known[key] = (self.bucket.write(key, content, known[key][0] if key in known else ABSENT), look)
                except ChangedError:
                    if key == _key_of(sweep_id):
                        raise OvertakenError(f"{self.address}/{key}") from None
                    self._fetch([key], known)  # Of a run trained twice at once, the first to be uploaded holds.
                alive()
            for key in [key for key in known if not self._path(key).is_dir()]:
                if key == _key_of(sweep_id) or not self._is_driven(key):
                    self.bucket.delete(key)
                    del known[key]

    def _changed(self, keys: Iterable[str], known: Known) -> Iterator[tuple[str, Look, bytes]]:
        """What differs here from what the bucket had: key, look and content."""
        for key in keys:
            look = _look(self._path(key))
            if self._path(key).is_dir() and (key not in known or known[key][1] != look):
                yield key, look, _pack(self._path(key))

    def _fetch(self, keys: list[str], known: Known) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for key, found in zip(keys, pool.map(self.bucket.read, keys), strict=True):
                if found is None:
                    continue
                path = self._path(key)
                if key.startswith(SWEEPS) and key in known and path.is_dir() and _look(path) != known[key][1]:
                    self.say(f"{self.address}/{key} was changed by another machine, whose version holds")
                _unpack(found[0], path)
                known[key] = (found[1], _look(path))

    def _path(self, key: str) -> Path:
        """The directory here of an object."""
        return self.root / key.removesuffix(TAR)

    def _remove(self, key: str) -> None:
        path = self._path(key)
        if path.is_dir():
            aside = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
            path.rename(aside)
            shutil.rmtree(aside)

    def _is_driven(self, key: str) -> bool:
        """True if a process of this machine drives a sweep: the bucket follows it, not the other way round."""
        return key.startswith(SWEEPS) and is_held(Home(self.root).sweep(self._path(key).name).lock)

    @contextmanager
    def _alone(self) -> Iterator[Known]:
        """A block in which no other process of this machine fetches or sends, with what is known."""
        self._own.mkdir(parents=True, exist_ok=True)
        with FileLock(self._own / "lock"):
            path = self._own / "known.json"
            read = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            known = {key: (etag, (size, at)) for key, (etag, (size, at)) in read.items()}
            try:
                yield known
            finally:
                write_whole(path, json.dumps(known))


_open: dict[Path, BucketHome] = {}
"""The homes in buckets that this process uses, by their working directories."""


def local_directory(given: str | Path) -> Path:
    """The directory of a home by its path or address. Asks no bucket. Raises :class:`UserError` for an address that is
    none of a bucket."""
    address = str(given).rstrip("/")
    if not is_address(address):
        return user_path(given)
    place = user_path(os.environ.get(VARIABLE) or "~/.local/share/transition-sweeps")
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", address.removeprefix("s3://"))[:60]
    root = (place / f"{plain}-{hashlib.sha256(address.encode()).hexdigest()[:8]}").resolve()
    if not (root / OWN / "address").is_file():
        write_whole(root / OWN / "address", f"{address}\n")
    return root


def open_home(given: str | Path, say: Callable[[str], object]) -> Path:
    """The directory of a home by its path or address, up to date.

    Raises :class:`UserError` for a bucket that is missing or refuses, ``OSError`` if it does not answer.
    """
    root = local_directory(given)
    file = root / OWN / "address"
    if not file.is_file():
        return root
    root = root.resolve()
    if root not in _open:
        _open[root] = BucketHome(root, file.read_text(encoding="utf-8").strip(), say)
    try:
        _open[root].pull()
    except OSError as error:
        if any(word in str(error) for word in ("no such bucket", "credentials")):
            raise UserError(f"{error.filename} {error.strerror}") from error
        raise
    return root


def bucket_of(root: Path) -> BucketHome | None:
    """The bucket of an opened home; None for a home of files."""
    return _open.get(root.resolve()) if _open else None


def home_words(root: Path) -> str:
    """A home as ``--home`` names it."""
    home = bucket_of(root)
    return str(root) if home is None else home.address


def follow(root: Path) -> Callable[[], None]:
    """Fetch what other machines write, every few seconds. Call the result at the command's end: it copies what the
    command has changed."""
    home, over = _open[root.resolve()], threading.Event()

    def fetch() -> None:
        while not over.wait(FOLLOW_EVERY_S):
            try:
                home.pull()
            except OSError:
                """What is here stays; whoever writes names the failure."""

    thread = threading.Thread(target=fetch, name="following", daemon=True)
    thread.start()

    def end() -> None:
        over.set()
        thread.join()
        try:
            home.push()
        except OSError as error:
            home.say(f"{error.filename} {error.strerror}; the next command with this home copies what was changed")

    return end


def _key_of(sweep_id: str) -> str:
    return f"{SWEEPS}{sweep_id}{TAR}"


def _files(directory: Path) -> list[Path]:
    """The files of a run, or of a sweep, that are copied."""
    pattern = "*" if directory.parent.name == SWEEPS.rstrip("/") else "**/*"
    there = sorted(path for path in directory.glob(pattern) if not path.name.startswith("."))
    return [path for path in there if path.is_file() and not path.name.endswith(LOCAL)]


def _look(directory: Path) -> Look:
    stats = [path.stat() for path in _files(directory)]
    return sum(stat.st_size for stat in stats), max((stat.st_mtime_ns for stat in stats), default=0)


def _pack(directory: Path) -> bytes:
    """The files of a directory as a tar file that names no user."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in _files(directory):
            content = path.read_bytes()
            member = tarfile.TarInfo(str(path.relative_to(directory)))
            member.size, member.mtime = len(content), path.stat().st_mtime
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _unpack(packed: bytes, directory: Path) -> None:
    """A new directory appears whole; in one that is there, each file does."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        if not directory.is_dir():
            with whole_directory(directory) as new:
                archive.extractall(new, filter="data")
            return
        for member in archive:
            held = archive.extractfile(tarfile.data_filter(member, str(directory)))
            if held is not None:
                write_whole(directory / member.name, held.read())
