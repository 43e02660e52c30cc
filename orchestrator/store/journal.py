"""The journal of a sweep: what has happened, one JSON line each, appended and flushed before anybody acts on it.

It is the only memory a sweep needs: searchers, records and answers are rebuilt from it. One process writes it, under
the sweep's lock. A line torn by a crash is the last one; it is cut off when the journal is opened again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from orchestrator.errors import SweepError
from orchestrator.search.base import Request
from trainables.base import Outcome

SCHEMA = 1
"""Raise it when older journals can no longer be read as they are."""


@dataclass(frozen=True)
class Ended:
    """A run that ended. ``reused_from`` names the sweep it was trained in, when that was another one."""

    key: str
    request: Request
    outcome: Outcome
    reused_from: str = ""


@dataclass(frozen=True)
class Answered:
    """The sweep found all it wanted; nothing is left to do."""


Entry = Ended | Answered


class Journal:
    """Append-only; open it under the sweep's lock."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("ab")
        whole = _whole_length(path)
        if whole < self._file.tell():
            self._file.truncate(whole)
        if whole == 0:
            self._append({"kind": "journal", "schema": SCHEMA})

    def append(self, entry: Entry) -> None:
        """Write an entry and wait until it is on disk."""
        self._append(_to_json(entry))

    def close(self) -> None:
        """Close the file; nothing more can be appended."""
        self._file.close()

    def _append(self, data: dict[str, Any]) -> None:
        self._file.write(json.dumps(data, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def read_journal(path: Path) -> Iterator[Entry]:
    """The entries of a journal; none where there is no journal. A torn last line does not count.

    Raises :class:`SweepError` for a journal of another schema or with a damaged line.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                data = json.loads(line)
                entry = _from_json(data)
            except (ValueError, KeyError, TypeError) as error:
                raise SweepError(f"{path}, line {number}, is no journal entry ({error})") from error
            if entry is not None:
                yield entry


def _whole_length(path: Path) -> int:
    """Bytes up to and including the last newline."""
    content = path.read_bytes()
    return content.rfind(b"\n") + 1


def _to_json(entry: Entry) -> dict[str, Any]:
    if isinstance(entry, Answered):
        return {"kind": "answered"}
    request = entry.request
    return {
        "kind": "ended",
        "key": entry.key,
        "mix": request.mix,
        "size": request.size,
        "seed": request.seed,
        "steps_factor": request.steps_factor,
        **({"phase": request.phase} if request.phase else {}),
        "outcome": entry.outcome.to_json(),
        "reused_from": entry.reused_from,
    }


def _from_json(data: dict[str, Any]) -> Entry | None:
    kind = data["kind"]
    if kind == "journal":
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']}, this version reads {SCHEMA}")
        return None
    if kind == "answered":
        return Answered()
    if kind == "ended":
        # Journals of sweeps before there were runs of more steps lack the factor.
        request = Request(data["mix"], data["size"], data["seed"], data.get("steps_factor", 1), data.get("phase", 0))
        return Ended(data["key"], request, Outcome.from_json(data["outcome"]), data["reused_from"])
    raise ValueError(f"unknown kind {kind!r}")
