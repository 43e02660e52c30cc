"""Where whole directories are kept under names: finished runs, and what stacks in training go on from.

Journals, claims and locks are files beside the driver. What lies in a storage may be far from whoever asks: a worker
needs an address, and no path of the driver's machine.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

from orchestrator.errors import SweepError
from orchestrator.store.files import SweepFiles, whole_directory, write_whole


class Storage(ABC):
    """Directories by name. A name is one part of a path and begins with no dot. Any process may ask at any time; a
    reader sees a directory whole or not at all. ``str`` of it is its address.

    Whatever is wrong with the machine behind it is an ``OSError``.
    """

    @abstractmethod
    def get(self, name: str) -> Path:
        """A directory on this machine with what is kept under a name, for reading only; one that is not there where
        nothing is kept. It may be a copy: what changes later need not show in it."""

    @abstractmethod
    def put(self, name: str) -> AbstractContextManager[Path]:
        """A directory to fill, kept under the name as a whole when the block ends well, and safe from then on. Where
        something is kept there by then, that stays: whoever finished first is right."""

    @abstractmethod
    def add(self, name: str, file: str, content: bytes) -> None:
        """Put one more file, whole, into a directory that is kept: ``file`` is its path there. An older one of that
        path is replaced."""

    @abstractmethod
    def list(self, prefix: str = "") -> list[str]:
        """The names that begin so, sorted."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Forget what is kept under a name, at once for every reader; nothing where there is nothing."""

    def has(self, name: str) -> bool:
        """Whether something is kept under a name."""
        return name in self.list(name)

    def size(self, name: str) -> int:
        """Bytes of what is kept under a name, 0 where nothing is: as they lie there, and as they did a moment ago."""
        return directory_bytes(self.get(name))

    def move(self, name: str, other: str) -> None:
        """Keep what is kept under a name under another one, which is free."""
        with self.put(other) as directory:
            shutil.copytree(self.get(name), directory, dirs_exist_ok=True)
        self.delete(name)


class PosixStorage(Storage):
    """A directory of a file system: this machine's, or one that machines share. Everything is written aside on the same
    file system, flushed, and renamed."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def __str__(self) -> str:
        return str(self._root)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PosixStorage) and self._root == other._root

    def __hash__(self) -> int:
        return hash(self._root)

    def get(self, name: str) -> Path:
        return self._root / name

    def put(self, name: str) -> AbstractContextManager[Path]:
        return whole_directory(self._root / name)

    def add(self, name: str, file: str, content: bytes) -> None:
        write_whole(self._root / name / file, content)

    def list(self, prefix: str = "") -> list[str]:
        if not self._root.is_dir():
            return []
        found = (path for path in self._root.iterdir() if path.name.startswith(prefix) and path.is_dir())
        return sorted(path.name for path in found if not path.name.startswith("."))

    def delete(self, name: str) -> None:
        if not self.has(name):
            return
        aside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=self._root))
        (self._root / name).rename(aside / name)  # From here on nobody finds it, whatever happens to the rest.
        shutil.rmtree(aside)

    def has(self, name: str) -> bool:
        return (self._root / name).is_dir()

    def move(self, name: str, other: str) -> None:
        (self._root / name).rename(self._root / other)


def directory_bytes(directory: Path) -> int:
    """Bytes of all files under a directory; what disappears meanwhile does not count."""
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name), follow_symlinks=False).st_size
            except FileNotFoundError:
                continue
    return total


@cache
def _in_object_store(address: str) -> Storage:
    """One for each address, so that what it has learned of the store is learned once."""
    from orchestrator.store.object_storage import S3Storage  # Only where there is one.

    return S3Storage(address)


KINDS: dict[str, Callable[[str], Storage]] = {"s3": _in_object_store}
"""Makers of storages that are no file systems, by what stands before ``://`` in their addresses."""


def storage_at(address: str) -> Storage:
    """The storage at an address: a directory's path, or ``KIND://PLACE``. Nothing need be there yet.

    Raises :class:`SweepError` for an unknown kind.
    """
    kind, slashes, _ = address.partition("://")
    if not slashes:
        return PosixStorage(address)
    if kind not in KINDS:
        known = f"a path, or one that begins with {', '.join(f'{each}://' for each in KINDS)}" if KINDS else "a path"
        raise SweepError(f"there is no storage of the kind {kind!r}, which {address} names; an address is {known}")
    return KINDS[kind](address)


def kept_runs(files: SweepFiles) -> Storage:
    """The finished runs of a sweep by key: outcome, weights, arrays, what probes found in them."""
    return storage_at(files.runs_at)
