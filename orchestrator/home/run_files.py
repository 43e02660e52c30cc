"""Files of a finished run, and the directory of all runs. Read without torch."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.home.files import SweepFiles, flaw_of, seal, whole_directory, write_whole
from trainables.base import Outcome

OUTCOME = "outcome.json"
WEIGHTS = "weights.safetensors"
ORIGIN = "origin.json"


@dataclass(frozen=True)
class Origin:
    """The sweep that a run was trained for, by its id, and when it ended (ISO 8601, UTC)."""

    sweep: str
    ended: str


def read_origin(directory: Path) -> Origin | None:
    """A run's origin; None if it cannot be read."""
    try:
        return Origin(**json.loads((directory / ORIGIN).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        return None


def write_origin(directory: Path, sweep_id: str, ended: datetime | None = None) -> None:
    """Note that a run was trained for this sweep and ended then, or now."""
    origin = Origin(sweep_id, (ended or datetime.now(UTC)).isoformat(timespec="seconds"))
    (directory / ORIGIN).write_text(json.dumps(asdict(origin)), encoding="utf-8")


def read_outcome(directory: Path) -> Outcome:
    """The outcome in a finished run's directory."""
    return Outcome.from_json(json.loads((directory / OUTCOME).read_text(encoding="utf-8")))


def read_run(directory: Path, *, whole: bool = False) -> Outcome | str:
    """The outcome of a finished run, or its first flaw. Weights and arrays are looked at only if asked for the
    ``whole`` run."""
    if flaw := flaw_of(directory) if whole else flaw_of(directory, OUTCOME):
        return flaw
    try:
        return read_outcome(directory)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        return f"{OUTCOME}: {type(error).__name__}: {error}".partition("\n")[0]


class Storage:
    """A directory of directories. A name begins with no dot. Everything is written aside, flushed and renamed: a
    reader sees a directory whole or not at all. ``str`` of it is its path."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root)

    def __str__(self) -> str:
        return str(self._root)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Storage) and self._root == other._root

    def __hash__(self) -> int:
        return hash(self._root)

    def get(self, name: str) -> Path:
        """The directory of this name, for reading; it need not be there."""
        return self._root / name

    @contextmanager
    def put(self, name: str) -> Iterator[Path]:
        """A directory to fill, sealed and kept under the name when the block ends well. One that is there by then
        stays: the first to finish is right."""
        with whole_directory(self._root / name) as directory:
            yield directory
            seal(directory)

    def add(self, name: str, file: str, content: bytes) -> None:
        """Put one more file, whole, into a directory that is kept: ``file`` is its path there. An older one is
        replaced."""
        write_whole(self._root / name / file, content)

    def list(self) -> list[str]:
        """All names, sorted."""
        if not self._root.is_dir():
            return []
        return sorted(path.name for path in self._root.iterdir() if path.is_dir() and not path.name.startswith("."))

    def delete(self, name: str) -> None:
        """Remove a directory, if it is there, at once for every reader."""
        if not self.has(name):
            return
        aside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=self._root))
        (self._root / name).rename(aside / name)
        shutil.rmtree(aside)

    def has(self, name: str) -> bool:
        """True if a directory is kept under a name."""
        return (self._root / name).is_dir()

    def size(self, name: str) -> int:
        """Bytes kept under a name, 0 for none."""
        return directory_bytes(self.get(name))


def directory_bytes(directory: Path) -> int:
    """Bytes of all files under a directory; files that disappear meanwhile do not count."""
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name), follow_symlinks=False).st_size
            except FileNotFoundError:
                continue
    return total


def kept_runs(files: SweepFiles) -> Storage:
    """The finished runs of a sweep's home by key: outcome, weights, arrays, and what probes found in them."""
    return Storage(files.home.runs)
