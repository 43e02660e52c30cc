"""The journal of a sweep: what has happened, one JSON line each, appended and flushed before anybody acts on it.

It is the only memory a sweep needs: searchers, records and answers are rebuilt from it. One process writes it, under
the sweep's lock. A line torn by a crash is the last one; it is cut off when the journal is opened again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.errors import SweepError
from orchestrator.search.base import Request
from trainables.base import Outcome

SCHEMA = 1
"""Raise it when older journals can no longer be read as they are."""
HEAD = {"kind": "journal", "schema": SCHEMA}
"""The first line."""


class _OtherSchemaError(ValueError):
    """A journal whose every line may mean something else."""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Ended:
    """A run that ended. ``reused_from`` names the sweep it was trained in, when that was another one. ``at`` is when
    the entry was made (ISO 8601, UTC), ``""`` in journals of before they told; it does not make entries differ."""

    key: str
    request: Request
    outcome: Outcome
    reused_from: str = ""
    at: str = field(default_factory=_now, compare=False)


@dataclass(frozen=True)
class Answered:
    """The sweep found all it wanted; nothing is left to do. ``at`` as in :class:`Ended`."""

    at: str = field(default_factory=_now, compare=False)


@dataclass(frozen=True)
class Stopped:
    """Somebody stopped a mix: no more of its runs are wanted, also once the sweep is resumed. ``at`` as in
    :class:`Ended`."""

    mix: str
    at: str = field(default_factory=_now, compare=False)


Entry = Ended | Answered | Stopped


@dataclass(frozen=True)
class BadLine:
    """A line that is no entry: its number, from 1, and why it is none."""

    number: int
    why: str


class Journal:
    """Append-only; open it under the sweep's lock."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        whole = _whole_length(path)
        if whole < self._file.tell():
            self._file.truncate(whole)
        if whole == 0:
            self._append(HEAD)

    def append(self, entry: Entry) -> None:
        """Write an entry and wait until it is on disk. Where that fails, with ``OSError``, nothing of it stays."""
        self._append(_to_json(entry))

    def close(self) -> None:
        """Close the file; nothing more can be appended."""
        self._file.close()

    def _append(self, data: dict[str, Any]) -> None:
        line, before = _line(data), self._file.seek(0, os.SEEK_END)
        try:
            while line:  # A disk that becomes full takes a part, and raises at the next.
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(before)
            raise


def no_flaw(entry: Ended) -> str:
    """Every entry will do."""
    return ""


def read_journal(path: Path, flaw: Callable[[Ended], str] = no_flaw) -> Iterator[Entry | BadLine]:
    """The entries of a journal, and in their places the lines that are none; nothing where there is no journal. A torn
    last line does not count. ``flaw`` says of a run why it cannot be one of this journal's, ``""`` where it can.

    Raises :class:`SweepError` for a journal of another schema.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                entry = _from_json(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                if isinstance(error, _OtherSchemaError) and number == 1:
                    raise SweepError(f"{path} is of {error}") from error
                yield BadLine(number, f"{type(error).__name__}: {error}")
                continue
            if isinstance(entry, Ended) and (why := flaw(entry)):
                yield BadLine(number, why)
            elif entry is not None:
                yield entry


def without(path: Path, bad: Collection[BadLine]) -> bytes:
    """The bytes of a journal without these lines and without a torn last one, a head at its beginning."""
    numbers = {each.number for each in bad}
    with path.open("rb") as file:
        lines = list(enumerate(file, start=1))
    kept = [line for number, line in lines if number not in numbers and line.endswith(b"\n")]
    return b"".join([_line(HEAD), *kept] if 1 in numbers else kept)


def _whole_length(path: Path) -> int:
    """Bytes up to and including the last newline."""
    content = path.read_bytes()
    return content.rfind(b"\n") + 1


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode() + b"\n"


def _to_json(entry: Entry) -> dict[str, Any]:
    if isinstance(entry, Answered):
        return {"kind": "answered", "at": entry.at}
    if isinstance(entry, Stopped):
        return {"kind": "stopped", "mix": entry.mix, "at": entry.at}
    request = entry.request
    return {
        "kind": "ended",
        "key": entry.key,
        "mix": request.mix,
        "size": request.size,
        "seed": request.seed,
        "steps_factor": request.steps_factor,
        **({"phase": request.phase} if request.phase else {}),
        **({"values": dict(request.values)} if request.values else {}),
        **({"until": request.until} if request.until is not None else {}),
        "outcome": entry.outcome.to_json(),
        "reused_from": entry.reused_from,
        "at": entry.at,
    }


def _from_json(data: dict[str, Any]) -> Entry | None:
    kind = data["kind"]
    if kind == "journal":
        if data["schema"] != SCHEMA:
            raise _OtherSchemaError(f"schema {data['schema']}, and this version of the program reads {SCHEMA}")
        return None
    if kind == "answered":
        return Answered(_time(data))
    if kind == "stopped":
        if type(data["mix"]) is not str:
            raise ValueError(f"{data['mix']!r} stands where there should be a mix")
        return Stopped(data["mix"], _time(data))
    if kind == "ended":
        values, until = tuple(data.get("values", {}).items()), data.get("until")
        # Journals of sweeps before there were runs of more steps lack the factor.
        factor, phase = data.get("steps_factor", 1), data.get("phase", 0)
        request = Request(data["mix"], data["size"], data["seed"], factor, phase, values, until)
        asked: tuple[tuple[object, type], ...] = (
            (data["key"], str),
            (request.mix, str),
            (request.size, int),
            (request.seed, int),
            (request.steps_factor, int),
            (request.phase, int),
            *((value, float) for _, value in values),
            *([(until, float)] if until is not None else []),
        )
        for value, wanted in asked:
            if type(value) is not wanted:
                raise ValueError(f"{value!r} stands where there should be {wanted.__name__}")
        return Ended(data["key"], request, Outcome.from_json(data["outcome"]), data["reused_from"], _time(data))
    raise ValueError(f"unknown kind {kind!r}")


def _time(data: dict[str, Any]) -> str:
    """When an entry was made. Raises ``ValueError`` or ``TypeError`` for what is no time."""
    at: str = data.get("at", "")
    if at:
        datetime.fromisoformat(at)
    return at
