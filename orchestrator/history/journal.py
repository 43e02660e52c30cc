"""Journal of a sweep, with one event per JSON line and a checksum on each line.

Only the sweep's driver writes the journal, under the sweep's lock. Each line is on disk before the driver acts on it. A
sweep's state is its journal and the directories of its runs (:class:`Memory`). The outcome of a run is in its
directory or, if the run failed and has no directory, in the journal.
"""

from __future__ import annotations

import io
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.home.directories import IMPORTED_MARK, SweepDirectory
from orchestrator.home.foreign_files import (
    MOST_JOURNAL_BYTES,
    checked_key,
    checked_moment,
    checked_name,
    parse_json,
    read_bytes,
    typed,
)
from orchestrator.home.run_files import checked_outcome
from orchestrator.home.safe_writing import open_plain, own_file
from orchestrator.jobs.state import State
from orchestrator.search.base import Request
from orchestrator.space.runs import Run
from orchestrator.space.sizes import LARGEST_SEED, LARGEST_SIZE
from orchestrator.system.errors import exception_line
from orchestrator.system.files import is_file
from orchestrator.transition.evidence import Block
from trainables.base import Outcome, Status

JOURNAL_SCHEMA = 2
"""Version of a sweep's files. Raise it when this program can no longer read older files. For smaller changes, see
home/directories.py."""
MOST_BLOCKS = 50_000
"""Pairs of a sweep that are read: as many as the largest grid has."""
MOST_LINES = 200_000
"""Maximum number of lines of a journal that are read. The largest grid has 150,000: a line for each pair and run."""
MOST_BLOCKS_READ = 2 * MOST_BLOCKS
"""Pairs of a journal that are read, repeated ones included."""
MOST_FAILED_POINTS = 100_000
"""Points of the learning curves of all failed runs of a journal that are read. This version writes none."""
MOST_FOREIGN_VALUES = 500_000
"""Values of an imported sweep's journal that are read, counted by commas. Its author may have filled it with others."""
MOST_DAMAGE_MESSAGES = 20
"""Damaged lines that have a message each."""
CHECKSUM = b',"crc":"'
"""Text before the checksum, which ends each line."""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Begun:
    """First line of a journal.

    Attributes:
        created: Start of the sweep (ISO 8601, UTC).
        environment: Software and hardware at the start, as JSON values.
        folder: Folder that the family's module is imported from. Empty for a built-in family.
        schema: Version of the sweep's files.
        source: Hash of the family's source. Empty for a built-in family.
        version: The family's version.
        nearby: Hash of the programs in the project of a script that does not list its code. Empty for others.
    """

    created: str
    environment: dict[str, Any] = field(default_factory=dict)
    folder: str = ""
    schema: int = JOURNAL_SCHEMA
    source: str = ""
    version: int = 0
    nearby: str = ""

    @property
    def at(self) -> str:
        return self.created


@dataclass(frozen=True)
class Ended:
    """A run of the sweep ended. Readers get it as a :class:`~orchestrator.space.runs.Run`, with its outcome.

    Attributes:
        key: The run's key.
        request: The request that the run answers.
        failure: Outcome of a failed run. Any other outcome is in the run's directory, and ``failure`` is None.
        trained_for: Id of the other sweep that trained the run, or ``ID (imported)`` if only an archive claims so.
            Empty if this sweep trained it.
        at: When the run ended (ISO 8601, UTC). Comparisons ignore it.
    """

    key: str
    request: Request
    failure: Outcome | None = None
    trained_for: str = ""
    at: str = field(default_factory=_now, compare=False)

    @classmethod
    def of(cls, run: Run) -> Ended:
        failure = run.outcome if run.outcome.status is Status.FAILED else None
        return cls(run.key, run.request, failure, run.trained_for, run.at)


@dataclass(frozen=True)
class Tuned:
    """Tuning ended: the specification now contains the tuned settings of each mix. Written before the sweep's first
    run."""

    at: str = field(default_factory=_now, compare=False)


@dataclass(frozen=True)
class Asked:
    """The searcher requested blocks. Written before their runs start.

    Evidence counts blocks in the order of the journal. A sweep without blocks has estimates but does not make
    decisions.
    """

    blocks: tuple[Block, ...]
    at: str = field(default_factory=_now, compare=False)


@dataclass(frozen=True)
class Stopped:
    """The user stopped a mix. Its runs are not trained after a resume."""

    mix: str
    at: str = field(default_factory=_now, compare=False)


@dataclass(frozen=True)
class Broken:
    """The sweep stopped because its family broke its contract, or because a worker had different code. It is the last
    line until the sweep is resumed."""

    why: str
    at: str = field(default_factory=_now, compare=False)


@dataclass(frozen=True)
class Answered:
    """The sweep has its answer."""

    at: str = field(default_factory=_now, compare=False)


@dataclass(frozen=True)
class _Git:
    commit: str
    edited: bool


@dataclass(frozen=True)
class _Environment:
    """Form of the environment in the first line, from :func:`orchestrator.system.provenance.describe_environment`."""

    versions: dict[str, str] = field(default_factory=dict)
    git: _Git | None = None
    hardware: str = ""
    platform: str = ""


PLAIN_ENTRIES: dict[str, type[Begun | Tuned | Stopped | Broken | Answered]] = {
    entry.__name__.lower(): entry for entry in (Begun, Tuned, Stopped, Broken, Answered)
}
"""Classes of entries whose fields are all JSON values, by kind."""
JournalEntry = Begun | Ended | Asked | Tuned | Stopped | Broken | Answered


@dataclass(frozen=True)
class Memory:
    """State of a sweep on disk.

    Only :func:`~orchestrator.history.known_runs.recall_sweep` reads the sweep's runs. Without them, ``state`` is
    "interrupted" even if all runs have failed.

    Attributes:
        ended: Runs of the sweep, each once, in the order in which they ended.
        trials: Tuning runs, each once, in the order in which they ended.
        blocks: Blocks, in the order of request.
        stopped: Mixes that the user stopped.
        answered: True if the sweep has its answer.
        changed: Time of the last entry. Empty if there are no entries.
        damaged: A message for each omitted line and run.
        lost: Keys of the omitted runs.
        broken: Why the sweep broke. Empty if it did not.
    """

    ended: tuple[Run, ...] = ()
    trials: tuple[Run, ...] = ()
    blocks: tuple[Block, ...] = ()
    stopped: frozenset[str] = frozenset()
    answered: bool = False
    changed: str = ""
    damaged: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    broken: str = ""

    @property
    def state(self) -> State:
        """State of the sweep if no process drives it."""
        if self.answered:
            return State.FINISHED
        return State.FAILED if self.failure else State.INTERRUPTED

    @property
    def failure(self) -> str:
        """Why the sweep failed, in a line: why it broke, or the exception of its first run if all runs failed. Empty if
        the sweep has not failed."""
        errors = [run.outcome.error for run in self.ended if run.outcome.status is Status.FAILED]
        if self.broken or not errors or len(errors) < len(self.ended):
            return self.broken
        return exception_line(errors[0]) or "every run failed"


class Journal(io.FileIO):
    """Append-only file, open under the sweep's lock. Opening it removes an incomplete last line, which a crash left."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(own_file(path), "a", opener=open_plain)
        # A later line would otherwise be appended to the incomplete line, and both would be lost.
        self.truncate(read_bytes(path, math.inf).rfind(b"\n") + 1)

    def append(self, entry: JournalEntry) -> None:
        """Write an entry and wait until it is on disk. Raises ``OSError``, and then leaves no part of the entry."""
        line = to_line(entry)
        before = self.seek(0, os.SEEK_END)
        try:
            while line:  # A disk that becomes full writes a part of the line, then raises.
                line = line[self.write(line) :]
            os.fsync(self.fileno())
        except OSError:
            self.truncate(before)
            raise


def read_journal(path: Path) -> Iterator[JournalEntry | str]:
    """Yield the lines of a journal, except an incomplete last line: an entry, or a message for a damaged line.

    Reading ends at a limit of lines, pairs or points of failed runs, and of values if the sweep was imported. At most
    :data:`MOST_DAMAGE_MESSAGES` messages are about one line.
    """
    damaged = values = blocks = points = 0
    most_values = MOST_FOREIGN_VALUES if is_file(path.with_name(IMPORTED_MARK)) else math.inf
    for number, line in enumerate(_limited_lines(path), start=1):
        values += line.count(b",")
        if number > MOST_LINES or values > most_values or blocks > MOST_BLOCKS_READ or points > MOST_FAILED_POINTS:
            yield f"{path} is too long for a sweep: line {number} and everything after it are ignored"
            break
        body, _, checksum = line.rpartition(CHECKSUM)
        # One damaged line must not hide the others, so its error becomes a message.
        try:
            if checksum != b'%08x"}' % zlib.crc32(body):
                raise ValueError("its checksum does not match its content")
            entry = _from_json(parse_json(body + b"}"))
            blocks += len(entry.blocks) if isinstance(entry, Asked) else 0
            points += len(entry.failure.curve) if isinstance(entry, Ended) and entry.failure else 0
            yield entry
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            damaged += 1
            if damaged <= MOST_DAMAGE_MESSAGES:
                yield f"{path}, line {number}, is damaged ({type(error).__name__}: {error}) and is ignored"
    if damaged > MOST_DAMAGE_MESSAGES:
        yield f"{path} has {damaged - MOST_DAMAGE_MESSAGES:,} more damaged lines, which are ignored"


def _limited_lines(path: Path) -> Iterator[bytes]:
    """Return the lines of a journal, except an incomplete last line, one after another: a file of empty lines would
    have hundreds of millions of them."""
    try:
        content = io.BytesIO(read_bytes(path, MOST_JOURNAL_BYTES))
    except FileNotFoundError:
        return iter(())
    return (line[:-1] for line in content if line.endswith(b"\n"))


def recall(files: SweepDirectory) -> Memory:
    """Read a sweep's journal, without its runs, and note damage."""
    return memory_of(files, list(read_journal(files.journal)))


def memory_of(files: SweepDirectory, lines: Sequence[JournalEntry | str]) -> Memory:
    """Return the state of a sweep, without its runs, from the lines of its journal."""
    entries = [line for line in lines if not isinstance(line, str)]
    damaged = [line for line in lines if isinstance(line, str)]
    # A repeated block counts once, at its first place.
    blocks = list(dict.fromkeys(block for entry in entries if isinstance(entry, Asked) for block in entry.blocks))
    if len(blocks) > MOST_BLOCKS:
        damaged.append(f"{files.journal} has {len(blocks):,} pairs; those after the first {MOST_BLOCKS:,} are ignored")
    return Memory(
        blocks=tuple(blocks[:MOST_BLOCKS]),
        stopped=frozenset(entry.mix for entry in entries if isinstance(entry, Stopped)),
        answered=any(isinstance(entry, Answered) for entry in entries),
        changed=entries[-1].at if entries else "",
        damaged=tuple(damaged),
        broken=entries[-1].why if entries and isinstance(entries[-1], Broken) else "",
    )


def read_request(values: Mapping[str, Any]) -> Request:
    """Return a request from the values in a file. Raises ``ValueError`` or ``TypeError`` if they do not have the types
    of its fields."""
    checked = typed(Request, asdict(Request.from_json(values)))
    if not 1 <= checked.size <= LARGEST_SIZE or not 0 <= checked.seed <= LARGEST_SEED or checked.phase < 0:
        raise ValueError(f"{checked} is not a run")
    return checked


def to_line(entry: JournalEntry) -> bytes:
    """Return an entry as a line that ends with its checksum."""
    values: dict[str, Any] = {"kind": type(entry).__name__.lower()}
    if isinstance(entry, Ended):
        # Fields at their defaults are omitted, so that most lines are as in earlier versions.
        request = {name: value for name, value in asdict(entry.request).items() if value not in (None, ())}
        values |= {"key": entry.key, "request": request}
        if entry.failure is not None:
            values["outcome"] = entry.failure.to_json()
        values |= {"reused_from": entry.trained_for, "at": entry.at}
    elif isinstance(entry, Asked):
        values |= {"blocks": [astuple(block) for block in entry.blocks], "at": entry.at}
    else:
        values |= asdict(entry)
    body = json.dumps(values, separators=(",", ":")).encode().removesuffix(b"}")
    return b'%b%b%08x"}\n' % (body, CHECKSUM, zlib.crc32(body))


def _from_json(values: dict[str, Any]) -> JournalEntry:
    kind = values.pop("kind")
    if kind == "ended":
        if len(values.get("outcome", {}).get("curve", ())) > MOST_FAILED_POINTS:
            raise ValueError("a failed run has a long learning curve")
        failure = checked_outcome(values["outcome"]) if "outcome" in values else None
        if failure is not None and failure.status is not Status.FAILED:
            raise ValueError("only a failed run has its outcome in the journal")
        request = read_request(values["request"])
        origin = checked_name(values["reused_from"]) if values["reused_from"] else ""
        return Ended(checked_key(values["key"]), request, failure, origin, checked_moment(values["at"]))
    if kind == "asked":
        if len(values["blocks"]) > MOST_BLOCKS:
            raise ValueError(f"it has {len(values['blocks']):,} pairs; at most {MOST_BLOCKS:,} are allowed")
        blocks = (typed(Block, asdict(Block(*block))) for block in values["blocks"])
        return Asked(tuple(blocks), checked_moment(values["at"]))
    if kind in PLAIN_ENTRIES:
        entry = typed(PLAIN_ENTRIES[kind], values)
        checked_moment(entry.at)
        if isinstance(entry, Begun) and entry.environment:
            typed(_Environment, entry.environment)
        return entry
    raise ValueError(f"unknown kind {kind!r}, perhaps from a later version")
