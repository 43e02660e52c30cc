"""A sweep and its finished runs, as engine, record and report share them; read from a directory, or the reason why that
cannot be: all other sweeps stay readable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.errors import SweepError
from orchestrator.home.files import Home, SweepFiles, write_whole
from orchestrator.home.journal import SCHEMA, BadLine, Begun, read_journal
from orchestrator.home.run_files import ProbeResult, Storage, read_results
from orchestrator.space import strict_yaml
from orchestrator.space.mistakes import parse
from orchestrator.space.spec import SweepSpec
from trainables.base import Outcome, RunConfig, Status

FIGURE = "transitions.png"
"""Name of the comparison figure in a sweep's directory."""
REPORT = "report.html"
"""Name of the page in a sweep's directory that tells it all."""


@dataclass(frozen=True)
class RunRecord:
    """One finished run of those that ``runs`` keeps. ``found_in`` is ``""`` if it was trained for this record, else the
    id of the sweep it was trained for: this one's, if for another arm. ``at`` is when this sweep had it (ISO 8601),
    else ``""``."""

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
    """One asking of one question. ``environment`` states versions, git state and hardware as plain JSON values."""

    files: SweepFiles
    spec: SweepSpec
    created: str
    environment: dict[str, Any]

    @property
    def id(self) -> str:
        return self.files.id

    @property
    def fresh(self) -> bool:
        """True if every run is trained for it alone."""
        return bool(self.spec.salt)


def failures(runs: Iterable[RunRecord]) -> Iterator[tuple[RunRecord, ProbeResult]]:
    """The results with errors among those of runs that finished."""
    for run in runs:
        if run.outcome.status is Status.FINISHED:
            yield from ((run, result) for result in read_results(run.directory).values() if result.error)


def write_spec(files: SweepFiles, spec: SweepSpec) -> SweepSpec:
    """Write a sweep's specification and return it as :func:`sweep_in` will read it. Raises :class:`UserError` for one
    that could not be read again."""
    checked = spec.checked()
    write_whole(files.spec, checked.to_yaml())
    return checked


@dataclass(frozen=True)
class Unreadable:
    """A sweep that cannot be read, and the reason."""

    id: str
    why: str

    def __str__(self) -> str:
        return f"{self.id} cannot be read: {self.why}. Mend that, or restore it from a copy; `rm` removes it for good."


class UnreadableError(SweepError):
    """A sweep was asked for that cannot be read."""

    def __init__(self, unreadable: Unreadable) -> None:
        super().__init__(str(unreadable))
        self.unreadable = unreadable


def sweep_in(home: Home, sweep_id: str) -> Sweep | Unreadable:
    """The sweep in this directory."""
    files = home.sweep(sweep_id)
    try:
        begun = next(read_journal(files.journal), None)
        if not isinstance(begun, Begun):
            why = f" ({begun.why})" if isinstance(begun, BadLine) else ""
            return Unreadable(sweep_id, f"{files.journal} has no readable first line{why}")
        if begun.schema != SCHEMA:
            why = f"was written by another version of the program; this one reads schema {SCHEMA}"
            return Unreadable(sweep_id, f"{files.journal} {why}")
        spec = parse(SweepSpec, strict_yaml.read(files.spec.read_text(encoding="utf-8"), files.spec.name).data)
    except OSError as error:
        return Unreadable(sweep_id, f"{error.filename}: {error.strerror}")
    except ValueError as error:  # No text, no YAML, or a family that refuses it.
        return Unreadable(sweep_id, f"{files.spec} cannot be used: {error}")
    return Sweep(files, spec, begun.created, begun.environment)
