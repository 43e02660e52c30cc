"""The journal of a sweep, a JSON line per event: begun, tuned, blocks asked, a run ended, a mix stopped, answered.

Only the sweep's driver writes it, under the sweep's lock. Each line is on disk before anything acts on it. The journal
and the directories of runs are all that a sweep remembers; :func:`recall` reads both. A run's outcome is in its
directory, except that of a failed run, which has none: its outcome is in the journal. Every line has a checksum.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from orchestrator.home.files import SweepDirectory
from orchestrator.home.run_files import read_run
from orchestrator.search.base import Request
from orchestrator.transition.evidence import Block
from trainables.base import Outcome, Status

SCHEMA = 2
"""Version of the journal's lines. Raise it when this program can no longer read older ones."""
CHECKSUM = b',"crc":"'
"""Text before the checksum at the end of a line."""


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
    """A run that ended.

    Attributes:
        result: Its outcome. None in a line of the journal, unless the run failed: its directory has the outcome.
        reused_from: The sweep that trained it, "" for this one.
        at: The time of the entry (ISO 8601, UTC), which comparisons ignore.
    """

    key: str
    request: Request
    result: Outcome | None
    reused_from: str = ""
    at: str = field(default_factory=_now, compare=False)

    @property
    def outcome(self) -> Outcome:
        """The outcome, once :func:`recall` has read it."""
        assert self.result is not None, f"the outcome of {self.key} is in its directory"
        return self.result


@dataclass(frozen=True)
class Tuned:
    """The tuned settings of each mix are in the specification. Comes before the sweep's first run."""

    at: str = field(default_factory=_now, compare=False)


@dataclass(frozen=True)
class Asked:
    """Blocks that the searcher asked for, written before any of their runs begins. Evidence counts them in the order of
    the journal; without any, a sweep has estimates and no decision."""

    blocks: tuple[Block, ...]
    at: str = field(default_factory=_now, compare=False)


@dataclass(frozen=True)
class Stopped:
    """A person stopped a mix. No more of its runs are wanted, even after the sweep is resumed."""

    mix: str
    at: str = field(default_factory=_now, compare=False)


@dataclass(frozen=True)
class Answered:
    """The sweep has its answer."""

    at: str = field(default_factory=_now, compare=False)


PLAIN: dict[str, type[Begun | Tuned | Stopped | Answered]] = {
    entry.__name__.lower(): entry for entry in (Begun, Tuned, Stopped, Answered)
}
"""Entries whose fields are plain JSON values, by their kind."""
Entry = Begun | Ended | Asked | Tuned | Stopped | Answered


@dataclass(frozen=True)
class BadLine:
    """A damaged line: its number, from 1, and the reason."""

    number: int
    why: str


class State(StrEnum):
    """State of a sweep. Running: a process holds its lock. Finished: it has its answer. Failed: every run failed.
    Interrupted: anything else."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True)
class Memory:
    """What a sweep remembers.

    Attributes:
        ended: The sweep's runs, each once, in the order they ended.
        trials: The same for the runs of its tuning.
        blocks: The pairs of runs asked for as evidence, in order.
        stopped: The mixes that a person stopped.
        answered: True if the sweep has its answer.
        changed: The time of the last entry, "" if there is none.
        damaged: A sentence for each line and run that is left out.
        lost: The keys of the runs that are left out.
    """

    ended: tuple[Ended, ...] = ()
    trials: tuple[Ended, ...] = ()
    blocks: tuple[Block, ...] = ()
    stopped: frozenset[str] = frozenset()
    answered: bool = False
    changed: str = ""
    damaged: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def state(self) -> State:
        """The state of the sweep if no process drives it."""
        if self.answered:
            return State.FINISHED
        failed = bool(self.ended) and all(entry.outcome.status is Status.FAILED for entry in self.ended)
        return State.FAILED if failed else State.INTERRUPTED


class Journal:
    """An append-only file, open under the sweep's lock. Opening it cuts off a last line that a crash has torn."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        whole = path.read_bytes().rfind(b"\n") + 1
        if whole < self._file.tell():
            self._file.truncate(whole)

    def append(self, entry: Entry) -> None:
        """Write an entry and wait until it is on disk.

        Raises:
            OSError: if that fails. Nothing of the entry stays.
        """
        line, before = to_line(entry), self._file.seek(0, os.SEEK_END)
        try:
            while line:  # A disk that becomes full takes a part of it, then raises.
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


def read_journal(path: Path) -> Iterator[Entry | BadLine]:
    """Yield the lines of a journal, except a torn last one; nothing if the file is missing."""
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


def recall(files: SweepDirectory, *, runs: bool = True) -> Memory:
    """Return the content of a sweep's journal and run directories. Damaged lines and runs are left out and named.
    Without ``runs`` no outcome is read, and ``ended`` and ``trials`` are empty."""
    damaged, lost = [], []
    last: dict[tuple[str, Request], Ended] = {}
    blocks: dict[Block, None] = {}
    stopped, answered, changed = set(), False, ""
    for line in read_journal(files.journal):
        if isinstance(line, BadLine):
            damaged.append(f"{files.journal}, line {line.number}, is damaged ({line.why}): it is left out")
            continue
        changed = line.at
        if isinstance(line, Ended) and runs:
            last.pop((line.key, line.request), None)  # A run that failed and was trained again: the later line counts.
            directory = files.home.runs / line.key
            outcome = line.result or read_run(directory)
            if isinstance(outcome, str):
                damaged.append(f"{directory} is damaged ({outcome}): the run is left out")
                lost.append(line.key)
            else:
                last[line.key, line.request] = replace(line, result=outcome)
        elif isinstance(line, Asked):
            blocks |= dict.fromkeys(line.blocks)
        elif isinstance(line, Stopped):
            stopped.add(line.mix)
        answered |= isinstance(line, Answered)
    return Memory(
        tuple(entry for entry in last.values() if entry.request.until is None),
        tuple(entry for entry in last.values() if entry.request.until is not None),
        tuple(blocks),
        frozenset(stopped),
        answered,
        changed,
        tuple(damaged),
        tuple(lost),
    )


def to_line(entry: Entry) -> bytes:
    """Return an entry as a line, its checksum last."""
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


def _from_line(line: bytes) -> Entry:
    body, _, checksum = line.rpartition(CHECKSUM)
    if checksum != b'%08x"}\n' % zlib.crc32(body):
        raise ValueError("its checksum is not that of its content")
    return _from_json(json.loads(body + b"}"))


def _from_json(data: Mapping[str, Any]) -> Entry:
    values = {name: value for name, value in data.items() if name != "kind"}
    match data["kind"]:
        case "ended":
            failure = Outcome.from_json(values["outcome"]) if "outcome" in values else None
            request = Request.from_json(values["request"])
            return Ended(values["key"], request, failure, values["reused_from"], values["at"])
        case "asked":
            return Asked(tuple(Block(*block) for block in values["blocks"]), values["at"])
        case kind if kind in PLAIN:
            return PLAIN[kind](**values)
    raise ValueError(f"unknown kind {data['kind']!r}, perhaps of a later version")
