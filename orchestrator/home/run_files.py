"""Files of a finished run: outcome, weights, arrays and probe results. Reading them does not need torch."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from orchestrator.home.array_files import packed_arrays, read_npz
from orchestrator.home.directories import PROBES
from orchestrator.home.foreign_files import checked_key, checked_moment, read_bytes, read_json, typed
from orchestrator.home.safe_writing import own_directory
from orchestrator.home.seals import flaw_of
from orchestrator.system.errors import exception_line
from orchestrator.system.files import is_directory, is_file, remove_file, replace_whole
from orchestrator.system.machine_errors import is_damage
from trainables.base import Outcome, Status
from trainables.probes.base import LARGEST_NUMBER, RESULT_NAME, Probe

OUTCOME = "outcome.json"
"""File with the outcome of a run."""
WEIGHTS = "weights.safetensors"
"""File with the weights of the trained model."""
ORIGIN = "origin.json"
"""File with the sweep that the run was trained for."""
OUTPUT = "output.txt"
"""Output of a run that was a separate program."""
ARRAYS = "arrays.npz"
"""Arrays of the trained model that the family keeps."""
DAMAGED_WEIGHTS = (SafetensorError, OSError, ValueError, KeyError)
"""Errors that safetensors raises for a damaged file of weights. ``KeyError`` is for a number type that numpy lacks."""
MOST_COUNTED_FILES = 1_000_000
"""Maximum number of files and directories whose bytes are counted."""
MOST_RUN_STEPS = 1e15
"""Largest number of steps of a run, and of its seconds."""


@dataclass(frozen=True)
class Origin:
    """Origin of a run.

    Attributes:
        sweep: Id of the sweep that the run was trained for. Empty if it is unknown.
        ended: When the run ended (ISO 8601, UTC).
        source: Hash of the family's source or, for a family of this project, of this project's code for training. Empty
            for runs of earlier versions.
        nearby: Hash of the programs next to a script that does not list its code.
    """

    sweep: str
    ended: str
    source: str = ""
    nearby: str = ""


def read_origin(directory: Path) -> Origin | None:
    """Return a run's origin, or None if it cannot be read."""
    try:
        origin = typed(Origin, read_json(directory / ORIGIN))
        checked_moment(origin.ended)
        sweep = checked_key(origin.sweep, "sweep") if origin.sweep else ""
        source = checked_key(origin.source, "hash") if origin.source else ""
        nearby = checked_key(origin.nearby, "hash") if origin.nearby else ""
        return Origin(sweep, origin.ended, source, nearby)
    except (OSError, ValueError):
        return None


def write_origin(directory: Path, sweep_id: str, source: str = "", nearby: str = "") -> None:
    """Record that a run was trained for this sweep, by a family with this source and files near it, and ended now."""
    origin = Origin(sweep_id, datetime.now(UTC).isoformat(timespec="seconds"), source, nearby)
    (directory / ORIGIN).write_text(json.dumps(asdict(origin)), encoding="utf-8")


def read_outcome(directory: Path) -> Outcome:
    """Return the outcome from a finished run's directory."""
    return checked_outcome(read_json(directory / OUTCOME))


def checked_outcome(values: Any) -> Outcome:
    """Return an outcome from JSON values. Raises ``ValueError`` if no run can end with these values."""
    outcome = typed(Outcome, values)
    scores = [*outcome.accuracy.values(), *outcome.floor.values()]
    scores += [share for point in outcome.curve for share in point.accuracy.values()]
    if not all(0 <= score <= 1 for score in scores):
        raise ValueError("an accuracy is not between 0 and 1")
    if not 0 <= outcome.steps <= MOST_RUN_STEPS or not 0 <= outcome.measures.get("seconds", 0.0) <= MOST_RUN_STEPS:
        raise ValueError("the number of steps or seconds is impossible")
    if any(not 0 <= point.step <= MOST_RUN_STEPS for point in outcome.curve):
        raise ValueError("the learning curve has an impossible step")
    if outcome.status is not Status.FAILED and outcome.accuracy.keys() != outcome.floor.keys():
        raise ValueError("accuracy and floor have different tasks")
    return outcome


def read_run(directory: Path, *, whole: bool = False) -> Outcome | str:
    """Return the outcome of a finished run, or a message about its first flaw.

    With ``whole``, also check its weights and arrays. Raises ``OSError`` if the run cannot be read for another reason
    than damage.
    """
    if flaw := flaw_of(directory) if whole else flaw_of(directory, OUTCOME):
        return flaw
    try:
        return read_outcome(directory)
    except (ValueError, OSError) as error:
        if not is_damage(error):
            raise
        return f"{OUTCOME}: {type(error).__name__}: {error}".partition("\n")[0]


def directory_bytes(directory: Path) -> int:
    """Return the bytes of the files under a directory, at most :data:`MOST_COUNTED_FILES` of them. A link counts as
    empty. Skip files that disappear during the call."""
    total = 0
    left = MOST_COUNTED_FILES
    if not is_directory(directory):
        return 0
    for root, folders, names in os.walk(directory):
        left -= len(folders) + len(names)
        if left < 0:
            return total
        for name in names:
            try:
                total += os.stat(os.path.join(root, name), follow_symlinks=False).st_size
            except FileNotFoundError:
                continue
    return total


@dataclass(frozen=True)
class ProbeResult:
    """Result of a probe on a run.

    Attributes:
        name: Name of the probe.
        version: Version of the probe.
        numbers: The measured numbers by name.
        error: Traceback of the probe. Empty if it succeeded.
        source: Hash of the probe's code, empty for a built-in probe.
    """

    name: str
    version: int
    numbers: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    source: str = ""

    @property
    def reason(self) -> str:
        """The line of the error that names the exception."""
        return exception_line(self.error)


def write_result(directory: Path, result: ProbeResult, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a result to a stored run, and replace the probe's older result. Each file is written atomically.

    A link, pipe or file at the path of the directory of results is removed.
    """
    # Checked before each write, because another user may put a link there at any time.
    if not is_directory(own_directory(directory) / PROBES):
        remove_file(directory / PROBES)
    if not arrays:
        remove_file(own_directory(directory, PROBES) / f"{result.name}.npz")
    for name, content in result_files(result, arrays).items():
        own_directory(directory, PROBES)
        replace_whole(directory / name, content)


def result_files(result: ProbeResult, arrays: Mapping[str, NDArray[Any]]) -> dict[str, bytes]:
    """Return the files of a result by path in the run's directory. The arrays come first, because a reader that finds
    the result expects them."""
    files = {f"{PROBES}/{result.name}.npz": packed_arrays(arrays)} if arrays else {}
    return files | {f"{PROBES}/{result.name}.json": json.dumps(asdict(result)).encode()}


def read_results(directory: Path) -> dict[str, ProbeResult]:
    """Return the results of a run by probe. If a result cannot be read, its ``error`` is the reason."""
    results = {}
    for path in _own_files(directory, "json"):
        try:
            result = typed(ProbeResult, read_json(path))
            # For a NaN, the comparison is false.
            if not all(abs(value) <= LARGEST_NUMBER for value in result.numbers.values()):
                raise ValueError(f"a number is not from {-LARGEST_NUMBER:g} to {LARGEST_NUMBER:g}")
            if not all(map(RESULT_NAME.fullmatch, result.numbers)):
                raise ValueError("a number has no usable name")
            results[path.stem] = replace(result, name=path.stem)
        except (ValueError, OSError) as error:
            results[path.stem] = ProbeResult(path.stem, 0, error=f"{path.name} cannot be read: {error}")
    return results


def failed_probes(outcome: Outcome, directory: Path) -> list[ProbeResult]:
    """Return the results of probes that failed on a run with this outcome. Only finished runs are probed."""
    if outcome.status is not Status.FINISHED:
        return []
    return [result for result in read_results(directory).values() if result.error]


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
    return [*([own] if is_file(own) and is_directory(directory) else []), *_own_files(directory, "npz")]


def _own_files(directory: Path, suffix: str) -> list[Path]:
    """Return the files of probes with this suffix. Skip links, and files whose names no probe may have."""
    if not is_directory(directory) or not is_directory(directory / PROBES):
        return []
    paths = sorted((directory / PROBES).glob(f"[!.]*.{suffix}"))
    return [path for path in paths if is_file(path) and RESULT_NAME.fullmatch(path.stem)]


def read_arrays(directory: Path) -> dict[str, NDArray[Any]]:
    """Return all arrays of a run by name, or by ``PROBE/NAME`` if the family or an earlier probe uses the name.

    Raises one of :data:`~orchestrator.home.array_files.DAMAGED_ARRAYS` if a file is damaged.
    """
    result: dict[str, NDArray[Any]] = {}
    for path in array_files(directory):
        for name, array in read_npz(path).items():
            result[f"{path.stem}/{name}" if name in result else name] = array
    return result


def weights_file(directory: Path) -> Path | None:
    """Return the file with the weights of a run, or None if there are no weights."""
    path = directory / WEIGHTS
    return path if is_file(path) and is_directory(directory) else None


def read_weights(directory: Path) -> dict[str, NDArray[Any]]:
    """Return the weights of a run by name. Return an empty dictionary if its family stores no weights.

    Raises one of :data:`DAMAGED_WEIGHTS` if the file is damaged.
    """
    path = weights_file(directory)
    return {} if path is None else load(read_bytes(path, math.inf))


def is_due(probe: Probe, directory: Path) -> bool:
    """Return True if a run lacks a successful result of this version of a probe, with its present code."""
    result = read_results(directory).get(probe.name)
    return result is None or bool(result.error) or _is_of_other_code(result, probe)


def is_outdated(probe: Probe, directory: Path) -> bool:
    """Return True if a run lacks a result of this version of a probe, with its present code. A failed result counts."""
    result = read_results(directory).get(probe.name)
    return result is None or _is_of_other_code(result, probe)


def _is_of_other_code(result: ProbeResult, probe: Probe) -> bool:
    """Return True if another version or other code of a probe made a result. Code without a hash is unknown, and counts
    as equal."""
    return result.version != probe.version or result.source not in ("", probe.source)
