"""A home in a bucket: a working directory on this machine, copied from the bucket first and to it as it changes.

Everything is written and read in the working directory, as in any home. The bucket has ``runs/KEY.tar`` for every
finished run and the small files of every sweep. Runs are uploaded before a journal that names them. What another
machine has written is never written over: each write is conditional, and the bucket's version holds. Checkpoints,
claims, locks and the record of MLflow stay on this machine.
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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import filterfalse
from pathlib import Path

from filelock import FileLock

from orchestrator.home.bucket import ABSENT, Bucket, ChangedError, Stored, is_address
from orchestrator.home.files import Home, is_held, whole_directory, write_whole

VARIABLE = "ORCHESTRATOR_LOCAL"
"""Names the directory that holds the working directories of such homes."""
FOLLOW_EVERY_S = 5.0
"""Pause between two looks of a command that goes on at what other machines have written."""
OWN = ".bucket"
"""In a working directory: its address, its id, and the ETags of what it has."""
LEASE = "lease.json"
SHARED = frozenset({"stop.jsonl"})
"""Files of a sweep that machines other than its driver's write: the bucket's version holds."""
TAR = ".tar"
AT_ONCE = 16
"""Objects that are fetched at the same time."""
Look = tuple[int, int]
"""Bytes of a file or of a directory's files, and the newest time of a change (ns)."""
Known = dict[str, tuple[str, Look]]
"""By key: the ETag of the version that is here, and its look."""


class OvertakenError(Exception):
    """Another machine has written a file of a sweep since it was fetched here; the text is its key."""


class BucketHome:
    """Between a working directory and its bucket. ``say`` hears of lost connections and of what another machine
    wrote. Methods raise ``OSError`` if the bucket or the disk fails."""

    def __init__(self, root: Path, address: str, say: Callable[[str], object]) -> None:
        self.root = root
        self.bucket = Bucket(address)
        self.address = self.bucket.address
        self.say = say
        self._own = root / OWN
        self._home = Home(root)
        self.leases: dict[str, Stored] = {}
        """Leases that the last look found, by sweep."""

    @property
    def id(self) -> str:
        """Name of this working directory among all of the same bucket."""
        path = self._own / "id"
        if not path.is_file():
            write_whole(path, secrets.token_hex(8))
        return path.read_text(encoding="utf-8")

    def pull(self, only: str = "") -> None:
        """Fetch what the bucket has and this directory has not, and remove what was removed there: of all sweeps that
        no process here drives, or of this one, just before it is driven."""
        with self._alone() as known:
            there = {each.key: each for each in self.bucket.list()}
            self.leases = {key.split("/")[1]: each for key, each in there.items() if key.endswith(f"/{LEASE}")}
            sweeps = {_sweep_of(key) for key in (*there, *known)} - {"", only}
            driven = {sweep_id for sweep_id in sweeps if self._is_driven(sweep_id)}
            keys = [key for key in {**there, **known} if self._path(key) is not None and _sweep_of(key) not in driven]
            for key in keys:
                if key not in there:
                    self._remove(key)
                    del known[key]
            here = {key: known[key][0] for key in keys if key in known and self._has(key)}
            self._fetch([key for key in keys if key in there and here.get(key) != there[key].etag], known)

    def fetch_shared(self, sweep_id: str) -> None:
        """Fetch the files of a sweep that is driven here which other machines write as well."""
        with self._alone() as known:
            there = {each.key: each.etag for each in self.bucket.list(f"sweeps/{sweep_id}")}
            keys = [f"sweeps/{sweep_id}/{name}" for name in SHARED]
            self._fetch([key for key in keys if key in there and known.get(key, ("",))[0] != there[key]], known)

    def push(self, sweep_id: str = "", alive: Callable[[], object] = lambda: None) -> None:
        """Copy to the bucket what was changed here: of a sweep that this process drives, or of all that nobody drives.
        ``alive`` is called between two objects. Raises :class:`OvertakenError` for a sweep that is driven."""
        with self._alone() as known:
            # Read before the runs, so that no journal is ahead of them.
            files: dict[str, bytes | None] = dict(self._files(sweep_id, known))
            self._send({f"runs/{path.name}{TAR}": None for path in self._runs()}, known, sweep_id, alive)
            self._send(files, known, sweep_id, alive)
            gone = [key for key in known if not self._has(key) and (sweep_id in ("", _sweep_of(key)))]
            for key in gone:
                if not _sweep_of(key) or sweep_id or not self._is_driven(_sweep_of(key)):
                    self.bucket.delete(key)
                    del known[key]

    def _send(
        self, contents: dict[str, bytes | None], known: Known, sweep_id: str, alive: Callable[[], object]
    ) -> None:
        """Write these objects, if they have changed since; None in the place of a content packs the directory."""
        for key, content in contents.items():
            path = self._path(key)
            assert path is not None
            look = _look(path)
            if look is None or (key in known and known[key][1] == look):
                continue
            sent = _pack(path) if content is None else content
            try:
                known[key] = (self.bucket.write(key, sent, known[key][0] if key in known else ABSENT), look)
            except ChangedError:
                if _sweep_of(key) and path.name not in SHARED and sweep_id:
                    raise OvertakenError(f"{self.address}/{key}") from None
                self._fetch([key], known)  # Of a run trained twice at once, the first to be uploaded holds.
            alive()

    def _fetch(self, keys: list[str], known: Known) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for key, found in zip(keys, pool.map(self.bucket.read, keys), strict=True):
                path = self._path(key)
                if found is None or path is None:
                    continue
                changed = key in known and _look(path) not in (None, known[key][1])
                if changed and _sweep_of(key) and path.name not in SHARED:
                    self.say(f"{self.address}/{key} was changed by another machine, whose version holds")
                if key.endswith(TAR):
                    self._remove(key)
                    with whole_directory(path) as directory, tarfile.open(fileobj=io.BytesIO(found[0])) as archive:
                        archive.extractall(directory, filter="data")
                else:
                    write_whole(path, found[0])
                look = _look(path)
                assert look is not None
                known[key] = (found[1], look)

    def _files(self, sweep_id: str, known: Known) -> Iterator[tuple[str, bytes]]:
        """The small files of sweeps that have changed, each sweep's journal last."""
        for each in [sweep_id] if sweep_id else filterfalse(self._is_driven, self._home.sweep_ids()):
            directory, journal = self._home.sweep(each).directory, self._home.sweep(each).journal
            there = [path for path in directory.glob("*") if path.is_file() and _is_copied(path.name)]
            for path in sorted(there, key=lambda path: (path == journal, path.name)):
                key = f"sweeps/{each}/{path.name}"
                if key not in known or known[key][1] != _look(path):
                    yield key, path.read_bytes()

    def _runs(self) -> list[Path]:
        runs = self.root / "runs"
        return sorted(path for path in runs.glob("[!.]*") if path.is_dir()) if runs.is_dir() else []

    def _path(self, key: str) -> Path | None:
        """The file or directory here of an object; None for what is not copied."""
        parts = key.split("/")
        if any(part.startswith(".") for part in parts):
            return None
        if parts[0] == "runs" and len(parts) == 2 and key.endswith(TAR):
            return self.root / key.removesuffix(TAR)
        return self.root / key if parts[0] == "sweeps" and len(parts) == 3 and _is_copied(parts[2]) else None

    def _has(self, key: str) -> bool:
        path = self._path(key)
        return path is not None and path.exists()

    def _remove(self, key: str) -> None:
        path = self._path(key)
        if path is None:
            return
        if path.is_dir():
            aside = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
            path.rename(aside)
            shutil.rmtree(aside)
        else:
            path.unlink(missing_ok=True)
            if _sweep_of(key) and not self._home.sweep(_sweep_of(key)).journal.exists():
                shutil.rmtree(path.parent, ignore_errors=True)

    def _is_driven(self, sweep_id: str) -> bool:
        """True if a process of this machine drives the sweep: the bucket follows its files, not the other way round."""
        return is_held(self._home.sweep(sweep_id).lock)

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
        return Path(given)
    data = os.environ.get(VARIABLE) or os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    place = Path(data) if os.environ.get(VARIABLE) else Path(data) / "transition-sweeps"
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", address.removeprefix("s3://"))[:60]
    root = (place.expanduser() / f"{plain}-{hashlib.sha256(address.encode()).hexdigest()[:8]}").resolve()
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
        home = BucketHome(root, file.read_text(encoding="utf-8").strip(), say)
        home.bucket.check()
        _open[root] = home
    _open[root].pull()
    return root


def bucket_of(root: Path) -> BucketHome | None:
    """The bucket of an opened home; None for a home of files."""
    return _open.get(root.resolve()) if _open else None


def home_words(root: Path) -> str:
    """A home as ``--home`` names it."""
    home = bucket_of(root)
    return str(root) if home is None else home.address


def place_words(root: Path) -> str:
    """The places of a home in a bucket; ``""`` for any other."""
    home = bucket_of(root)
    return "" if home is None else f"{home.address}; working directory {home.root} ({VARIABLE} names another place)"


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


def _is_copied(name: str) -> bool:
    return not name.startswith(".") and not name.endswith((".lock", ".log")) and name != LEASE


def _sweep_of(key: str) -> str:
    """The sweep of an object, ``""`` for a run."""
    parts = key.split("/")
    return parts[1] if parts[0] == "sweeps" and len(parts) > 2 else ""


def _look(path: Path) -> Look | None:
    """None if nothing is there."""
    try:
        if not path.is_dir():
            stat = path.stat()
            return stat.st_size, stat.st_mtime_ns
        stats = [each.stat() for each in path.rglob("*") if each.is_file()]
    except FileNotFoundError:
        return None
    return sum(stat.st_size for stat in stats), max((stat.st_mtime_ns for stat in stats), default=0)


def _pack(directory: Path) -> bytes:
    """A directory as a tar file that names no user."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(directory, arcname=".", filter=plain)
    return packed.getvalue()
