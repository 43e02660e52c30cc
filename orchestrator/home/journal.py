"""The journal of a sweep, one JSON line an event: begun, tuned, blocks asked, a run ended, a mix stopped, answered.

Its driver alone writes it, under the sweep's lock; each line is on disk before anything acts on it. Together with the
directories of runs it is all that a sweep remembers: :func:`recall` folds it. A run's outcome is in its directory; the
journal holds the outcomes of runs that failed, which leave none. Every line carries its own checksum.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from orchestrator.home.files import SweepFiles
from orchestrator.home.run_files import kept_runs, read_run
from orchestrator.search.base import Request
from orchestrator.transition.evidence import Block
from trainables.base import Outcome, Status

SCHEMA = 2
"""Version of the journal's lines. Raise it when older ones can no longer be read."""
CHECKSUM = b',"crc":"'
"""Before the checksum that ends a line."""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Begun:
    """The first line: when the sweep began (ISO 8601, UTC) and its environment as plain JSON values."""

    created: str
    environment: dict[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA

    @property
    def at(self) -> str:
        return self.created


@dataclass(frozen=True)
class Ended:
    """A run that ended. ``reused_from`` is the sweep that trained it, ``""`` for this one. ``at`` is the time of the
    entry (ISO 8601, UTC); it does not make entries differ."""

    key: str
    request: Request
    outcome: Outcome
    reused_from: str = ""
    at: str = field(default_factory=_now, compare=False)


@dataclass(frozen=True)
class EndedLine:
    """The same as the journal has it: ``failure`` is the outcome of a run that failed, None if its directory has it."""

    key: str
    request: Request
    failure: Outcome | None
    reused_from: str
    at: str = field(compare=False)


@dataclass(frozen=True)
class Tuned:
    """The settings of each mix are tuned, and in the specification, before the sweep's first run."""

    at: str = field(default_factory=_now, compare=False)


@dataclass(frozen=True)
class Asked:
    """Blocks that the searcher asked for, in this order, written before any of their runs begins. Evidence counts them
    in the order of the journal; a journal without them gives estimates and no decision."""

    blocks: tuple[Block, ...]
    at: str = field(default_factory=_now, compare=False)


@dataclass(frozen=True)
class Stopped:
    """A person stopped a mix: no more of its runs are wanted, also after the sweep is resumed."""

    mix: str
    at: str = field(default_factory=_now, compare=False)


@dataclass(frozen=True)
class Answered:
    """The sweep found all it wanted; nothing is left to do."""

    at: str = field(default_factory=_now, compare=False)


Line = Begun | EndedLine | Asked | Tuned | Stopped | Answered
Entry = Begun | Ended | Asked | Tuned | Stopped | Answered


@dataclass(frozen=True)
class BadLine:
    """A damaged line: its number, from 1, and the reason."""

    number: int
    why: str


class State(StrEnum):
    """Running: a process holds its lock. Finished: it was answered. Failed: every run did. Else interrupted."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True)
class Memory:
    """The fold of a journal. ``ended`` are the runs of the sweep, each once, in the order they ended; ``trials`` those
    of its tuning. ``blocks`` are the pairs of runs asked for as evidence, in the order asked. ``changed`` is the time
    of the last entry, ``""`` without any; ``stopped`` are the mixes that a person stopped. ``damaged`` names, a
    sentence each, the lines and runs that are left out."""

    ended: tuple[Ended, ...] = ()
    trials: tuple[Ended, ...] = ()
    blocks: tuple[Block, ...] = ()
    stopped: frozenset[str] = frozenset()
    answered: bool = False
    changed: str = ""
    damaged: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    """Keys of the runs that are left out."""

    @property
    def state(self) -> State:
        """The state of a sweep that no process drives."""
        if self.answered:
            return State.FINISHED
        failed = bool(self.ended) and all(entry.outcome.status is Status.FAILED for entry in self.ended)
        return State.FAILED if failed else State.INTERRUPTED


class Journal:
    """Append-only; open it under the sweep's lock. A line torn by a crash is the last one; opening cuts it off."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        whole = path.read_bytes().rfind(b"\n") + 1
        if whole < self._file.tell():
            self._file.truncate(whole)

    def append(self, entry: Entry) -> None:
        """Write an entry and wait until it is on disk. If that fails, with ``OSError``, nothing of it stays."""
        line, before = to_line(entry), self._file.seek(0, os.SEEK_END)
        try:
            while line:  # A disk that becomes full takes a part, and raises at the next.
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(before)
            raise

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def read_journal(path: Path) -> Iterator[Line | BadLine]:
    """The lines of a journal; nothing if it is missing. A torn last line does not count."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield _from_line(line)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                yield BadLine(number, f"{type(error).__name__}: {error}")


def recall(files: SweepFiles, *, runs: bool = True) -> Memory:
    """Content of a sweep's journal and run directories. Damaged lines and runs are left out and named.
    Without ``runs`` no outcome is read, and ``ended`` and ``trials`` are empty."""
    kept, damaged, lost = kept_runs(files), [], []
    last: dict[tuple[str, Request], Ended] = {}
    blocks: dict[Block, None] = {}
    stopped, answered, changed = set(), False, ""
    for line in read_journal(files.journal):
        if isinstance(line, BadLine):
            damaged.append(f"{files.journal}, line {line.number}, is damaged ({line.why}): it is left out")
            continue
        changed = line.at
        if isinstance(line, EndedLine) and runs:  # Of a run that failed and was trained again, the later word.
            last.pop((line.key, line.request), None)
            outcome = line.failure or read_run(kept.get(line.key))
            if isinstance(outcome, str):
                damaged.append(f"{kept}/{line.key} is damaged ({outcome}): the run is left out")
                lost.append(line.key)
            else:
                last[line.key, line.request] = Ended(line.key, line.request, outcome, line.reused_from, line.at)
        elif isinstance(line, Asked):
            blocks |= dict.fromkeys(line.blocks)
        elif isinstance(line, Stopped):
            stopped.add(line.mix)
        answered |= isinstance(line, Answered)
    return Memory(
        tuple(each for each in last.values() if each.request.until is None),
        tuple(each for each in last.values() if each.request.until is not None),
        tuple(blocks),
        frozenset(stopped),
        answered,
        changed,
        tuple(damaged),
        tuple(lost),
    )


def to_line(entry: Entry) -> bytes:
    """An entry as a line, its checksum last."""
    body = json.dumps(_to_json(entry), separators=(",", ":")).encode().removesuffix(b"}")
    return b'%b%b%08x"}\n' % (body, CHECKSUM, zlib.crc32(body))


def _to_json(entry: Entry) -> dict[str, Any]:
    if isinstance(entry, Ended):
        failed = entry.outcome.status is Status.FAILED
        return {
            "kind": "ended",
            "key": entry.key,
            "request": {name: value for name, value in asdict(entry.request).items() if value not in (None, ())},
            **({"outcome": entry.outcome.to_json()} if failed else {}),
            "reused_from": entry.reused_from,
            "at": entry.at,
        }
    if isinstance(entry, Asked):
        return {"kind": "asked", "blocks": [astuple(block) for block in entry.blocks], "at": entry.at}
    return {"kind": type(entry).__name__.lower(), **asdict(entry)}


def _from_line(line: bytes) -> Line:
    body, _, checksum = line.rpartition(CHECKSUM)
    if checksum != b'%08x"}\n' % zlib.crc32(body):
        raise ValueError("its checksum is not that of its content")
    return _from_json(json.loads(body + b"}"))


def _from_json(data: Mapping[str, Any]) -> Line:
    values = {name: value for name, value in data.items() if name != "kind"}
    match data["kind"]:
        case "begun":
            return Begun(**values)
        case "ended":
            failure = Outcome.from_json(values["outcome"]) if "outcome" in values else None
            request = Request.from_json(values["request"])
            return EndedLine(values["key"], request, failure, values["reused_from"], values["at"])
        case "asked":
            return Asked(tuple(Block(*block) for block in values["blocks"]), values["at"])
        case "tuned":
            return Tuned(values["at"])
        case "stopped":
            return Stopped(**values)
        case "answered":
            return Answered(**values)
    raise ValueError(f"unknown kind {data['kind']!r}, perhaps a later version's")
