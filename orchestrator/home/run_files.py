"""Files of a finished run: outcome, weights, arrays and probe results. Reading them does not need torch."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import exception_line
from orchestrator.home.directories import PROBES, flaw_of
from trainables.base import Outcome
from trainables.files import write_whole
from trainables.probes.base import Probe

OUTCOME = "outcome.json"
WEIGHTS = "weights.safetensors"
ORIGIN = "origin.json"
ARRAYS = "arrays.npz"
"""Arrays of the trained model that the family keeps."""
DAMAGED_ARRAYS = (ValueError, OSError, EOFError, zipfile.BadZipFile)
"""Errors that numpy raises for a damaged file of arrays."""


@dataclass(frozen=True)
class Origin:
    """Id of the sweep that a run was trained for, when the run ended (ISO 8601, UTC), and the hash of the family's
    source, "" for a family of this project and for runs of earlier versions."""

    sweep: str
    ended: str
    source: str = ""


def read_origin(directory: Path) -> Origin | None:
    """Return a run's origin, or None if it cannot be read."""
    try:
        return Origin(**json.loads((directory / ORIGIN).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        return None


def write_origin(directory: Path, sweep_id: str, source: str = "") -> None:
    """Record that a run was trained for this sweep, by a family with this source, and ended now."""
    origin = Origin(sweep_id, datetime.now(UTC).isoformat(timespec="seconds"), source)
    (directory / ORIGIN).write_text(json.dumps(asdict(origin)), encoding="utf-8")


def read_outcome(directory: Path) -> Outcome:
    """Return the outcome from a finished run's directory."""
    return Outcome.from_json(json.loads((directory / OUTCOME).read_text(encoding="utf-8")))


def read_run(directory: Path, *, whole: bool = False) -> Outcome | str:
    """Return the outcome of a finished run, or its first flaw. Check weights and arrays only with ``whole``."""
    if flaw := flaw_of(directory) if whole else flaw_of(directory, OUTCOME):
        return flaw
    try:
        return read_outcome(directory)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        return f"{OUTCOME}: {type(error).__name__}: {error}".partition("\n")[0]


def directory_bytes(directory: Path) -> int:
    """Return the bytes of all files under a directory. Files may disappear in the meantime."""
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name), follow_symlinks=False).st_size
            except FileNotFoundError:
                continue
    return total


@dataclass(frozen=True)
class ProbeResult:
    """Result of the probe ``name`` on a run. ``error`` is "" if the probe succeeded."""

    name: str
    version: int
    numbers: Mapping[str, float] = field(default_factory=dict)
    error: str = ""

    @property
    def reason(self) -> str:
        """The line of the error that names the exception."""
        return exception_line(self.error)


def write_result(directory: Path, result: ProbeResult, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a result to a stored run, replacing the probe's older result. Each file is written atomically."""
    if not arrays:
        (directory / f"{PROBES}/{result.name}.npz").unlink(missing_ok=True)
    for name, content in result_files(result, arrays).items():
        write_whole(directory / name, content)


def result_files(result: ProbeResult, arrays: Mapping[str, NDArray[Any]]) -> dict[str, bytes]:
    """Return the files of a result by path in the run's directory, the arrays first."""
    files = {f"{PROBES}/{result.name}.npz": packed_arrays(arrays)} if arrays else {}
    return files | {f"{PROBES}/{result.name}.json": json.dumps(asdict(result)).encode()}


def packed_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return arrays as an npz file."""
    buffer, named = io.BytesIO(), dict[str, Any](arrays)
    np.savez(buffer, **named)
    return buffer.getvalue()


def read_results(directory: Path) -> dict[str, ProbeResult]:
    """Return the results of a run by probe. If a result cannot be read, its error is the reason."""
    results = {}
    for path in sorted((directory / PROBES).glob("[!.]*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            results[path.stem] = ProbeResult(path.stem, data["version"], dict(data["numbers"]), data["error"])
        except (ValueError, KeyError, TypeError) as error:
            results[path.stem] = ProbeResult(path.stem, 0, error=f"{path.name} cannot be read: {error!r}")
    return results


def numbers_of(directory: Path) -> dict[str, float]:
    """Return the numbers of all probes of a run, named ``probe/PROBE/NUMBER``."""
    return {
        f"probe/{result.name}/{name}": value
        for result in read_results(directory).values()
        for name, value in result.numbers.items()
    }


def array_files(directory: Path) -> list[Path]:
    """Return the files of a run that contain arrays, from its family and then from probes."""
    own = directory / ARRAYS
    return [*([own] if own.is_file() else []), *sorted((directory / PROBES).glob("[!.]*.npz"))]


def read_arrays(directory: Path) -> dict[str, NDArray[Any]]:
    """Return all arrays of a run by name, or by ``PROBE/NAME`` if the family or an earlier probe uses the name."""
    result: dict[str, NDArray[Any]] = {}
    for path in array_files(directory):
        with np.load(path, allow_pickle=False) as arrays:
            for name in arrays.files:
                result[f"{path.stem}/{name}" if name in result else name] = arrays[name]
    return result


def is_due(probe: Probe, directory: Path) -> bool:
    """Return True if a run lacks a successful result of this version of a probe."""
    result = read_results(directory).get(probe.name)
    return result is None or result.version != probe.version or bool(result.error)
