"""Files of a finished run: outcome, weights, arrays and results of probes; and the directory of all runs. Read without
torch."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.home.files import PROBES, SweepFiles, flaw_of, seal, whole_directory
from trainables.base import Outcome
from trainables.files import write_whole
from trainables.probes.base import Probe

OUTCOME = "outcome.json"
WEIGHTS = "weights.safetensors"
ORIGIN = "origin.json"
ARRAYS = "arrays.npz"
"""What is kept of the trained model."""


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


def write_origin(directory: Path, sweep_id: str) -> None:
    """Note that a run was trained for this sweep and ended now."""
    origin = Origin(sweep_id, datetime.now(UTC).isoformat(timespec="seconds"))
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


@dataclass(frozen=True)
class Storage:
    """A directory of directories. A name begins with no dot. Everything is written aside, flushed and renamed: a
    reader sees a directory whole or not at all. ``str`` of it is its path."""

    root: Path

    def __str__(self) -> str:
        return str(self.root)

    def get(self, name: str) -> Path:
        """The directory of this name, for reading; it need not be there."""
        return self.root / name

    @contextmanager
    def put(self, name: str) -> Iterator[Path]:
        """A directory to fill, sealed and kept under the name when the block ends well. One that is there by then
        stays: the first to finish is right."""
        with whole_directory(self.root / name) as directory:
            yield directory
            seal(directory)

    def add(self, name: str, file: str, content: bytes) -> None:
        """Put one more file, whole, into a directory that is kept: ``file`` is its path there. An older one is
        replaced."""
        write_whole(self.root / name / file, content)

    def list(self) -> list[str]:
        """All names, sorted."""
        if not self.root.is_dir():
            return []
        return sorted(path.name for path in self.root.iterdir() if path.is_dir() and not path.name.startswith("."))

    def delete(self, name: str) -> None:
        """Remove a directory, if it is there, at once for every reader."""
        if not self.has(name):
            return
        aside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=self.root))
        (self.root / name).rename(aside / name)
        shutil.rmtree(aside)

    def has(self, name: str) -> bool:
        return (self.root / name).is_dir()


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


DAMAGED_ARRAYS = (ValueError, OSError, EOFError, zipfile.BadZipFile)
"""Errors of numpy at a damaged file of arrays."""


@dataclass(frozen=True)
class ProbeResult:
    """Result of the probe ``name`` on a run, or its ``error`` (``""`` if there was none)."""

    name: str
    version: int
    numbers: Mapping[str, float] = field(default_factory=dict)
    error: str = ""

    @property
    def reason(self) -> str:
        """The last line of the error."""
        return self.error.strip().splitlines()[-1] if self.error.strip() else ""


def write_result(runs: Storage, key: str, result: ProbeResult, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Add a result to a run that is kept, each file whole; an older result of the same probe is replaced: its arrays by
    none, where this one gives none."""
    if not arrays and (runs.get(key) / f"{PROBES}/{result.name}.npz").is_file():
        runs.add(key, f"{PROBES}/{result.name}.npz", packed_arrays({}))
    for name, content in result_files(result, arrays).items():
        runs.add(key, name, content)


def result_files(result: ProbeResult, arrays: Mapping[str, NDArray[Any]]) -> dict[str, bytes]:
    """The files of a result by their paths in the run's directory, the arrays first."""
    files = {f"{PROBES}/{result.name}.npz": packed_arrays(arrays)} if arrays else {}
    return files | {f"{PROBES}/{result.name}.json": json.dumps(asdict(result)).encode()}


def packed_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays as an npz file."""
    held, named = io.BytesIO(), dict[str, Any](arrays)
    np.savez(held, **named)
    return held.getvalue()


def read_results(directory: Path) -> dict[str, ProbeResult]:
    """The results beside a run by the names of their probes. One that cannot be read says so as its error."""
    found = {}
    for path in sorted((directory / PROBES).glob("[!.]*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            found[path.stem] = ProbeResult(path.stem, data["version"], dict(data["numbers"]), data["error"])
        except (ValueError, KeyError, TypeError) as error:
            found[path.stem] = ProbeResult(path.stem, 0, error=f"{path.name} cannot be read: {error!r}")
    return found


def numbers_of(directory: Path) -> dict[str, float]:
    """Every number that probes found in a run, as ``probe/PROBE/NUMBER``."""
    return {
        f"probe/{result.name}/{name}": value
        for result in read_results(directory).values()
        for name, value in result.numbers.items()
    }


def array_files(directory: Path) -> list[Path]:
    """The files of a run that hold arrays: what its family kept, then what probes found."""
    kept = directory / ARRAYS
    return [*([kept] if kept.is_file() else []), *sorted((directory / PROBES).glob("[!.]*.npz"))]


def read_array(directory: Path, name: str) -> NDArray[Any] | None:
    """One array of a run: its family's, or else the first probe's that gives one of this name; None where none is."""
    for path in array_files(directory):
        with np.load(path, allow_pickle=False) as arrays:
            if name in arrays.files:
                array: NDArray[Any] = arrays[name]
                return array
    return None


def read_arrays(directory: Path) -> dict[str, NDArray[Any]]:
    """Every array of a run by name: its family's, then those of probes; ``PROBE/NAME`` where a name is taken."""
    found: dict[str, NDArray[Any]] = {}
    for path in array_files(directory):
        with np.load(path, allow_pickle=False) as arrays:
            for name in arrays.files:
                found[f"{path.stem}/{name}" if name in found else name] = arrays[name]
    return found


def is_due(probe: Probe, directory: Path) -> bool:
    """True if a run lacks this probe's result, or has one of another version or with an error."""
    result = read_results(directory).get(probe.name)
    return result is None or result.version != probe.version or bool(result.error)
