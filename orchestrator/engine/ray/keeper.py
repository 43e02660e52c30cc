"""A storage for workers that do not see the driver's home: files travel through Ray to an actor beside the driver."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayTaskError

from orchestrator.store import storage
from orchestrator.store.storage import Storage, storage_at
from orchestrator.store.trouble import LastingTroubleError, trouble_words

KIND = "driver"
"""Before ``://`` in an address: then the name of a :class:`Keeper`, a ``/``, and the address of a storage as its
machine has it."""
LARGEST_BYTES = 512 << 20
"""The most that travels at once. It lies in memory twice on either side, and Ray's object store holds by default 30 %
of a machine's memory: a directory of this size fits into one of 4 GB."""
Look = dict[str, tuple[int, int]]
"""The files of a directory by path, each with its bytes and the time of its last change (ns)."""
Files = dict[str, bytes]
"""The content of a directory by path; a path that ends in ``/`` is a directory, and empty here."""


class Keeper:
    """An actor on the driver's machine that keeps and reads for workers elsewhere. It holds nothing itself: one that
    died is started again by Ray, and what was asked of it asked again."""

    def prove(self, at: str, nonce: str) -> str:
        """Why this process does not come to the driver's storage at this address, ``""`` where it does: it reads what
        the driver left there, and leaves an answer."""
        try:
            if not says(at, "driver", nonce):
                return f"nothing of it is seen at {at}"
            leave(at, "keeper", nonce)
        except (OSError, LastingTroubleError) as error:
            return trouble_words(error, at) or str(error)
        return ""

    def sees(self, at: str, name: str, nonce: str) -> bool:
        """Whether what a worker left is seen here."""
        return says(at, name, nonce)

    def read(self, at: str, name: str, known: Look | None) -> tuple[Look, Files | None] | None:
        """What the storage at this address keeps under a name; None where it keeps nothing. Its files are left out
        where they are as ``known``."""
        directory = storage_at(at).get(name)
        try:
            look = _look(directory)
            if look is None:
                return None
            return look, None if look == known else _files(directory, name)
        except FileNotFoundError:  # It was deleted meanwhile.
            return None

    def put(self, at: str, name: str, files: Files) -> Look | None:
        """Keep these files, unless something is kept under the name; how they lie there, None where others do."""
        with storage_at(at).put(name) as directory:
            _write(directory, files)
        there = storage_at(at).get(name)
        return _look(there) if _files(there, name) == files else None

    def add(self, at: str, name: str, file: str, content: bytes) -> None:
        """Put one more file into what is kept."""
        storage_at(at).add(name, file, content)

    def list(self, at: str, prefix: str) -> list[str]:
        """The names that begin so."""
        return storage_at(at).list(prefix)

    def has(self, at: str, name: str) -> bool:
        """Whether something is kept under a name."""
        return storage_at(at).has(name)

    def delete(self, at: str, name: str) -> None:
        """Forget what is kept under a name."""
        storage_at(at).delete(name)

    def move(self, at: str, name: str, other: str) -> None:
        """Keep it under another name."""
        storage_at(at).move(name, other)


class KeptByDriver(Storage):
    """A storage of the driver's machine, from another one. What is read is copied to a directory of this process, which
    goes with it."""

    def __init__(self, address: str) -> None:
        self._address = address
        name, _, path = address.removeprefix(f"{KIND}://").partition("/")
        self._keeper = ray.get_actor(name)
        self._at = path if "://" in path else f"/{path}"
        self._copies = tempfile.TemporaryDirectory(prefix="orchestrator-copies-")
        self._held: dict[str, tuple[Look, Path]] = {}

    def __str__(self) -> str:
        return self._address

    def get(self, name: str) -> Path:
        known, copy = self._held.get(name, (None, None))
        found = self._ask("read", name, known)
        if found is None:
            self._forget(name)
            return Path(self._copies.name) / "nothing" / name
        look, files = found
        if files is None and copy is not None:
            return copy
        self._forget(name)
        fresh = self._aside()
        _write(fresh, files or {})
        self._held[name] = look, fresh
        return fresh

    @contextmanager
    def put(self, name: str) -> Iterator[Path]:
        aside = self._aside()
        try:
            yield aside
            look = self._ask("put", name, _files(aside, name))
        except BaseException:
            shutil.rmtree(aside)
            raise
        self._forget(name)
        if look is None:
            shutil.rmtree(aside)
        else:
            self._held[name] = look, aside

    def add(self, name: str, file: str, content: bytes) -> None:
        _check_size(len(content), name)
        self._ask("add", name, file, content)

    def list(self, prefix: str = "") -> list[str]:
        found: list[str] = self._ask("list", prefix)
        return found

    def has(self, name: str) -> bool:
        return bool(self._ask("has", name))

    def delete(self, name: str) -> None:
        self._forget(name)
        self._ask("delete", name)

    def move(self, name: str, other: str) -> None:
        self._forget(name)
        self._ask("move", name, other)

    def tidy(self, abandoned: Callable[[str], bool]) -> None:
        """A writer here leaves nothing with the driver: what it wrote is sent when it is whole."""

    def _aside(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._copies.name))

    def _forget(self, name: str) -> None:
        _, copy = self._held.pop(name, (None, None))
        if copy is not None:
            shutil.rmtree(copy)

    def _ask(self, what: str, *given: Any) -> Any:
        """Have the keeper do something. What it met with its disk is raised here as it was there."""
        try:
            return ray.get(getattr(self._keeper, what).remote(self._at, *given))
        except RayTaskError as error:
            if isinstance(error.cause, OSError | LastingTroubleError):
                raise error.cause from None
            raise


storage.KINDS[KIND] = KeptByDriver


def leave(at: str, name: str, nonce: str) -> None:
    """Keep a proof under this name in a storage that was come to."""
    with storage_at(at).put(name) as directory:
        (directory / "nonce").write_text(nonce, encoding="utf-8")


def says(at: str, name: str, nonce: str) -> bool:
    """Whether a storage has this very proof. Raises ``OSError`` where it cannot be asked."""
    file = storage_at(at).get(name) / "nonce"
    try:
        return file.read_text(encoding="utf-8") == nonce
    except (OSError, UnicodeDecodeError):
        return False


def _look(directory: Path) -> Look | None:
    if not directory.is_dir():
        return None
    there = {str(path.relative_to(directory)): path.stat() for path in directory.rglob("*")}
    return {path: (stat.st_size, stat.st_mtime_ns) for path, stat in there.items()}


def _files(directory: Path, name: str) -> Files:
    """What is kept, or to be kept, under a name. Raises :class:`LastingTroubleError` where it is too much to send."""
    there = sorted(directory.rglob("*"))
    _check_size(sum(path.stat().st_size for path in there if path.is_file()), name)
    return {
        str(path.relative_to(directory)) + ("/" if path.is_dir() else ""): b"" if path.is_dir() else path.read_bytes()
        for path in there
    }


def _write(directory: Path, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        if path.endswith("/"):
            (directory / path).mkdir(parents=True, exist_ok=True)
        else:
            (directory / path).write_bytes(content)


def _check_size(size: int, name: str) -> None:
    if size > LARGEST_BYTES:
        raise LastingTroubleError(
            f"{name} has {size / 2**20:.0f} MiB, and at most {LARGEST_BYTES / 2**20:.0f} MiB travel through Ray: give "
            "every node the driver's --home, or make stacks smaller (--stack)"
        )
