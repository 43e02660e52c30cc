"""Results of probes on a run, and all its arrays. Read without torch."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.home.records import ARRAYS, RunRecord
from orchestrator.home.run_files import Storage
from trainables.base import Status
from trainables.probes.base import Probe

PROBES = "probes"
"""In a run's directory: for every probe NAME.json and, where it gives arrays, NAME.npz."""

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


def failures(runs: Iterable[RunRecord]) -> Iterator[tuple[RunRecord, ProbeResult]]:
    """The results with errors among those of runs that finished."""
    for run in runs:
        if run.outcome.status is Status.FINISHED:
            yield from ((run, result) for result in read_results(run.directory).values() if result.error)
