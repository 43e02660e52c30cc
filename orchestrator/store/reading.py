"""A sweep from its directory, or why it cannot be read: whatever lies in one directory, the others stay readable."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from orchestrator.errors import SweepError
from orchestrator.space import strict_yaml
from orchestrator.space.stored import StoredSpec, read_stored
from orchestrator.store.files import Home, SweepFiles
from orchestrator.store.journal import read_journal
from orchestrator.store.records import Sweep
from orchestrator.tuning.study import Tuning

SCHEMA = 1
"""Of the files that say what a sweep asks; those that name none are of 1. Raise it when older ones mean something else,
and read those here as what they were."""
RESTORE = "Restore it from a copy; where there is none, `rm` removes the sweep."


@dataclass(frozen=True)
class Unreadable:
    """A sweep that cannot be read: why, and what to do. ``sweep`` is what is known of one whose files are whole, but
    whose family is not to be had: its settings are plain values."""

    id: str
    why: str
    remedy: str
    sweep: Sweep | None = None

    def __str__(self) -> str:
        return f"{self.id} cannot be read: {self.why}. {self.remedy}"


class UnreadableError(SweepError):
    """A sweep was asked for that cannot be read."""

    def __init__(self, unreadable: Unreadable) -> None:
        super().__init__(str(unreadable))
        self.unreadable = unreadable


class _BrokenError(ValueError):
    """A file of a sweep that is not what it should be, and what to do."""

    def __init__(self, path: Path, why: str, remedy: str = RESTORE) -> None:
        super().__init__(f"{path} {why}")
        self.remedy = remedy


def read(home: Home, sweep_id: str) -> Sweep | Unreadable:
    """The sweep in this directory."""
    files = home.sweep(sweep_id)
    try:
        about = _about(files)
        stored = _spec(files)
        _check_journal(files)
        sweep = Sweep(
            sweep_id,
            stored.spec,
            files.directory,
            about["created"],
            about.get("environment", {}),
            _tunings(files),
            fresh=bool(about.get("fresh", False)),  # Sweeps of before there was a choice do not say.
        )
    except _BrokenError as error:
        return Unreadable(sweep_id, str(error), error.remedy)
    return without_family(sweep, stored.lacks) if stored.lacks else sweep


def without_family(sweep: Sweep, why: str) -> Unreadable:
    """A sweep whose family cannot be had, or does not take the settings any more."""
    remedy = f"Make {sweep.spec.family} as it was importable from here."
    return Unreadable(sweep.id, why, remedy, sweep)


def _about(files: SweepFiles) -> dict[str, Any]:
    about = _json(files.about)
    if not isinstance(about, dict):
        raise _BrokenError(files.about, "does not say when the sweep was begun")
    schema = about.get("schema", 1)
    if not isinstance(schema, int) or schema > SCHEMA:
        why = f"says that a newer version of the program wrote the sweep (schema {schema}; this one reads {SCHEMA})"
        raise _BrokenError(files.about, why, "Use that version.")
    try:
        datetime.fromisoformat(about["created"])
    except (KeyError, TypeError, ValueError) as error:
        raise _BrokenError(files.about, "does not say when the sweep was begun") from error
    if not isinstance(about.get("environment", {}), dict):
        raise _BrokenError(files.about, "does not say what the sweep ran on")
    return about


def _spec(files: SweepFiles) -> StoredSpec:
    text = _text(files.spec)
    try:
        return read_stored(strict_yaml.read(text, files.spec.name).data)
    except ValueError as error:  # A UserError is one.
        raise _BrokenError(files.spec, f"holds no specification: {error}") from error


def _tunings(files: SweepFiles) -> tuple[Tuning, ...]:
    """What was tuned before the sweep began."""
    if not files.tunings.is_file():
        return ()
    try:
        return tuple(map(Tuning.from_json, _json(files.tunings)))
    except (ValueError, TypeError) as error:
        if isinstance(error, _BrokenError):
            raise
        raise _BrokenError(files.tunings, f"does not hold what was tuned: {_first_line(error)}") from error


def _check_journal(files: SweepFiles) -> None:
    """Raise where the journal cannot be opened, or is another version's. Its bad lines are for those who read it."""
    try:
        next(read_journal(files.journal), None)
    except OSError as error:
        raise _BrokenError(files.journal, f"cannot be read: {error.strerror}") from error
    except SweepError as error:
        raise _BrokenError(
            files.journal, "was written by another version of the program", "Use that version."
        ) from error


def _json(path: Path) -> Any:
    text = _text(path)
    try:
        return json.loads(text)
    except ValueError as error:
        raise _BrokenError(path, f"is not readable as JSON: {error}") from error


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


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
