"""A storage that keeps no directories: every one is a single file, and who asks for it gets a copy somewhere else."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.store.storage import Storage

KIND = "packed"
SUFFIX = ".tar"


class PackedStorage(Storage):
    """At ``packed:///DIRECTORY``. Copies lie beneath the system's temporary directory."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._root = Path(address.removeprefix(f"{KIND}://"))
        self._copies = Path(tempfile.mkdtemp(prefix="copies-"))

    def __str__(self) -> str:
        return self._address

    def get(self, name: str) -> Path:
        packed = self._root / f"{name}{SUFFIX}"
        if not packed.is_file():
            return self._copies / "nothing" / name
        copy = Path(tempfile.mkdtemp(dir=self._copies))
        with tarfile.open(packed) as archive:
            archive.extractall(copy, filter="data")
        return copy

    @contextmanager
    def put(self, name: str) -> Iterator[Path]:
        directory = Path(tempfile.mkdtemp(dir=self._copies))
        try:
            yield directory
            aside = self._pack(directory)
            try:
                os.link(aside, self._root / f"{name}{SUFFIX}")
            except FileExistsError:
                """Whoever finished first is right."""
            aside.unlink()
        finally:
            shutil.rmtree(directory)

    def add(self, name: str, file: str, content: bytes) -> None:
        directory = self.get(name)
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        (directory / file).write_bytes(content)
        self._pack(directory).rename(self._root / f"{name}{SUFFIX}")

    def list(self, prefix: str = "") -> list[str]:
        found = self._root.glob(f"*{SUFFIX}") if self._root.is_dir() else ()
        return sorted(path.name.removesuffix(SUFFIX) for path in found if path.name.startswith(prefix))

    def delete(self, name: str) -> None:
        (self._root / f"{name}{SUFFIX}").unlink(missing_ok=True)

    def _pack(self, directory: Path) -> Path:
        """A directory as a file, under a name that is nobody's."""
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w") as archive:
            archive.add(directory, arcname=".")
        self._root.mkdir(parents=True, exist_ok=True)
        descriptor, aside = tempfile.mkstemp(dir=self._root)
        with os.fdopen(descriptor, "wb") as file:
            file.write(held.getvalue())
        return Path(aside)
