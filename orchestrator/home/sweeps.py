"""A sweep and its finished runs, as engine, record and report share them; read from a directory, or the reason why that
cannot be: all other sweeps stay readable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.errors import SweepError, UserError
from orchestrator.home.files import Home, SweepFiles
from orchestrator.home.journal import SCHEMA, BadLine, Begun, Tuned, read_journal
from orchestrator.home.run_files import ProbeResult, Storage, read_results
from orchestrator.space import strict_yaml
from orchestrator.space.spec import SweepSpec
from orchestrator.space.validation import InvalidDataError, parse
from orchestrator.tuning.study import Tuning
from trainables.base import Outcome, RunConfig, Status

FIGURE = "transitions.png"
"""Name of the comparison figure in a sweep's directory."""
REPORT = "report.html"
"""Name of the page in a sweep's directory that tells it all."""


@dataclass(frozen=True)
class RunRecord:
    """One finished run of those that ``runs`` keeps. ``found_in`` is the id of the sweep it was trained for, ``""``
    where it was this one; ``at`` is when this sweep had it (ISO 8601, UTC), ``""`` where its journal does not say."""

    key: str
    config: RunConfig
    outcome: Outcome
    runs: Storage
    found_in: str = ""
    at: str = ""

    @cached_property
    def directory(self) -> Path:
        """What the run left, for reading: :data:`ARRAYS` where its family keeps some. Not there where it left
        nothing."""
        return self.runs.get(self.key)


@dataclass(frozen=True)
class Sweep:
    """One asking of one question. ``environment`` states versions, git state and hardware as plain JSON values;
    ``tunings`` what was tuned before, a mix each."""

    id: str
    spec: SweepSpec
    directory: Path
    created: str
    environment: dict[str, Any]
    tunings: tuple[Tuning, ...] = ()

    @property
    def fresh(self) -> bool:
        """True if every run is trained for it alone."""
        return bool(self.spec.salt)


def failures(runs: Iterable[RunRecord]) -> Iterator[tuple[RunRecord, ProbeResult]]:
    """The results with errors among those of runs that finished."""
    for run in runs:
        if run.outcome.status is Status.FINISHED:
            yield from ((run, result) for result in read_results(run.directory).values() if result.error)


RESTORE = "Restore it from a copy, or remove the sweep with `rm`."


@dataclass(frozen=True)
class Unreadable:
    """A sweep that cannot be read: the reason and a remedy."""

    id: str
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.id} cannot be read: {self.why}. {self.remedy}"


class UnreadableError(SweepError):
    """A sweep was asked for that cannot be read."""

    def __init__(self, unreadable: Unreadable) -> None:
        super().__init__(str(unreadable))
        self.unreadable = unreadable


class _BrokenError(ValueError):
    """A file of a sweep that cannot be used, and a remedy."""

    def __init__(self, path: Path, why: str, remedy: str = RESTORE) -> None:
        super().__init__(f"{path} {why}")
        self.remedy = remedy


def sweep_in(home: Home, sweep_id: str) -> Sweep | Unreadable:
    """The sweep in this directory."""
    files = home.sweep(sweep_id)
    try:
        begun = _begun(files)
        spec = _spec(files)
        memory = list(read_journal(files.journal))
        tunings = [line.tunings for line in memory if isinstance(line, Tuned)]
        tuned = tunings[-1] if tunings else ()
        return Sweep(sweep_id, spec, files.directory, begun.created, begun.environment, tuned)
    except _BrokenError as error:
        return Unreadable(sweep_id, str(error), error.remedy)


def _begun(files: SweepFiles) -> Begun:
    """The first line of the journal."""
    try:
        first = next(read_journal(files.journal), None)
    except OSError as error:
        raise _BrokenError(files.journal, f"cannot be read: {error.strerror}") from error
    if isinstance(first, Begun) and first.schema == SCHEMA:
        return first
    if isinstance(first, BadLine):
        raise _BrokenError(files.journal, f"has no readable first line ({first.why})")
    why = f"was written by another version of the program (this one reads schema {SCHEMA})"
    raise _BrokenError(files.journal, why, "Use that version.")


def _spec(files: SweepFiles) -> SweepSpec:
    text = _text(files.spec)
    try:
        return parse(SweepSpec, strict_yaml.read(text, files.spec.name).data)
    except InvalidDataError as error:
        of_family = error.mistakes[0].key[:1] in (("family",), ("settings",))
        remedy = "Make its family as it was importable from here." if of_family else RESTORE
        raise _BrokenError(files.spec, f"cannot be used: {error}", remedy) from error
    except UserError as error:
        raise _BrokenError(files.spec, f"holds no specification: {error}") from error


def _text(path: Path) -> str:
    """Raises for a file that is missing, empty, not to be opened, or no text."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _BrokenError(path, "is missing") from None
    except UnicodeDecodeError as error:
        raise _BrokenError(path, f"is no text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise _BrokenError(path, f"cannot be read: {error.strerror}") from error
    if not text.strip():
        raise _BrokenError(path, "is empty")
    return text
