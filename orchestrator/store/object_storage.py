"""A storage in an object store: every directory one object, a tar file. Whoever asks reads a copy on its machine.

A store shows an object whole or not at all, and puts one on the condition that none is there: more a storage does not
need. A writer that dies leaves nothing there, but for the parts of a large object.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.store.bucket import ABSENT, Bucket, ChangedError
from orchestrator.store.files import whole_directory
from orchestrator.store.scratch import scratch
from orchestrator.store.storage import Storage

SUFFIX = ".tar"
DAMAGED = "damaged.tar"
"""What a copy of something consists of that is no archive."""
UNUSED_S = 24 * 3600.0
"""A copy that nobody has asked for so long is removed. Who asked for it reads it at once."""
LISTED_FOR_S = 5.0
"""How long a list of sizes holds good."""


class S3Storage(Storage):
    """At ``s3://BUCKET/PREFIX``: the directory NAME is the object ``PREFIX/NAME.tar``. Nothing is asked of the store
    before it is needed."""

    def __init__(self, address: str) -> None:
        self._bucket = Bucket(address)
        self._held: _Copies | None = None
        self._sizes: tuple[float, dict[str, int]] = (0.0, {})

    def __str__(self) -> str:
        return self._bucket.address

    def get(self, name: str) -> Path:
        known, copy = self._copies.newest(name)
        with self._copies.aside(name) as aside:
            etag = self._bucket.download(_key(name), aside / "packed", known)
            if not etag:
                self._copies.drop(name)
                return self._copies.nothing / name
            if etag == known and copy is not None:
                return copy
            return self._copies.unpack(name, etag, aside / "packed")

    @contextmanager
    def put(self, name: str) -> Iterator[Path]:
        with self._copies.aside(name) as aside:
            directory = aside / "directory"
            directory.mkdir()
            yield directory
            _pack(directory, aside / "packed")
            while not self._bucket.etag(_key(name)):  # Whoever finished first is right.
                with suppress(ChangedError):
                    self._copies.keep(name, self._bucket.upload(_key(name), aside / "packed", ABSENT), directory)
                    return

    def add(self, name: str, file: str, content: bytes) -> None:
        while True:
            with self._copies.aside(name) as aside:
                etag = self._bucket.download(_key(name), aside / "packed")
                if not etag:
                    raise FileNotFoundError(f"nothing is kept as {name} in {self}")
                directory = aside / "directory"
                _unpack(aside / "packed", directory)
                (directory / file).parent.mkdir(parents=True, exist_ok=True)
                (directory / file).write_bytes(content)
                _pack(directory, aside / "packed")
                with suppress(ChangedError):  # Somebody else has added something meanwhile: to that, then.
                    self._copies.keep(name, self._bucket.upload(_key(name), aside / "packed", etag), directory)
                    return

    def list(self, prefix: str = "") -> list[str]:
        return sorted(self._listed(prefix))

    def delete(self, name: str) -> None:
        self._bucket.delete(_key(name))
        self._copies.drop(name)

    def has(self, name: str) -> bool:
        return bool(self._bucket.etag(_key(name)))

    def size(self, name: str) -> int:
        at, sizes = self._sizes
        if time.monotonic() - at > LISTED_FOR_S or not sizes:
            sizes = self._listed("")
            self._sizes = time.monotonic(), sizes
        return sizes.get(name, 0)

    def _listed(self, prefix: str) -> dict[str, int]:
        """Bytes by name."""
        found = self._bucket.list(prefix, deep=False)
        ours = (each for each in found if each.key.endswith(SUFFIX) and not each.key.startswith("."))
        return {each.key.removesuffix(SUFFIX): each.size for each in ours}

    @property
    def _copies(self) -> _Copies:
        if self._held is None:
            self._held = _Copies(str(self))
        return self._held


class _Copies:
    """Copies on this machine of what a storage keeps, for all processes of its user: ``NAME/ETAG``. Beneath the
    machine's scratch directory (``TMPDIR`` moves it)."""

    def __init__(self, address: str) -> None:
        place = hashlib.sha256(address.encode()).hexdigest()[:16]
        self._root = scratch(None) / "copies" / place
        self._root.mkdir(parents=True, exist_ok=True)
        self.nothing = self._root / ".nothing"
        self._remove_unused()

    def newest(self, name: str) -> tuple[str, Path | None]:
        """The ETag and the directory of the newest copy; ``""`` and None where there is none."""
        try:
            there = sorted((self._root / name).glob("[!.]*"), key=lambda path: path.stat().st_mtime_ns)
            if there:
                os.utime(there[-1])  # It is in use.
                return f'"{there[-1].name}"', there[-1]
        except FileNotFoundError:
            """It was removed meanwhile."""
        return "", None

    def unpack(self, name: str, etag: str, packed: Path) -> Path:
        """Make a copy of a packed directory. What cannot be unpacked is all that there is in it then: whoever looks
        finds that the files are missing."""
        path = self._place(name, etag)
        if not path.is_dir():
            with whole_directory(path) as directory:
                try:
                    _unpack(packed, directory / "directory")
                except tarfile.TarError:
                    shutil.copyfile(packed, directory / DAMAGED)
                else:
                    for each in (directory / "directory").iterdir():
                        each.rename(directory / each.name)
                shutil.rmtree(directory / "directory")
        return path

    def keep(self, name: str, etag: str, directory: Path) -> None:
        """Keep a directory as the copy of what it was packed into."""
        path = self._place(name, etag)
        path.parent.mkdir(exist_ok=True)
        with suppress(OSError):  # There is one. It is fetched where there is none.
            directory.rename(path)

    def drop(self, name: str) -> None:
        """Remove the copies of a name."""
        shutil.rmtree(self._root / name, ignore_errors=True)

    @contextmanager
    def aside(self, name: str) -> Iterator[Path]:
        """A directory to work in, which goes with the block."""
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=self._root, ignore_cleanup_errors=True) as aside:
            yield Path(aside)

    def _place(self, name: str, etag: str) -> Path:
        return self._root / name / re.sub(r"[^A-Za-z0-9-]", "_", etag.strip('"'))

    def _remove_unused(self) -> None:
        for path in self._root.glob("[!.]*/*"):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > UNUSED_S:
                    shutil.rmtree(path, ignore_errors=True)


def _key(name: str) -> str:
    return f"{name}{SUFFIX}"


def _pack(directory: Path, file: Path) -> None:
    """Pack all that is in a directory; whose files they were on this machine is left out."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(file, "w") as archive:
        archive.add(directory, arcname=".", filter=plain)


def _unpack(file: Path, directory: Path) -> None:
    """Raises ``tarfile.TarError`` for what is no such file, is cut off, or would leave the directory."""
    directory.mkdir(exist_ok=True)
    with tarfile.open(file) as archive:
        archive.extractall(directory, filter="data")
