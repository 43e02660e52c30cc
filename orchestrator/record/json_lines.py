"""Writes the record to a file of JSON lines, for users of pandas or jq: ``run ... --record jsonl``.

Each line is a record:

* ``sweep``, ``kind``, ``key`` and ``mix`` identify it.
* ``name`` is its name, and ``group`` the search space.
* ``state`` is its state, ``started`` and ``ended`` are times.
* ``params``, ``tags`` and ``note`` are text.
* ``metrics`` has the last value of each metric, and ``curves`` pairs of step and value, by name.
* ``texts`` has text by name, and ``files`` has paths.

If several lines have the same identity, the last line counts. With pandas::

    pd.read_json("runs.jsonl", lines=True).drop_duplicates(["sweep", "kind", "key", "mix"], keep="last")
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from orchestrator.home.foreign_files import parse_json, whole_lines
from orchestrator.home.safe_writing import open_to_append, own_path
from orchestrator.jobs.state import State
from orchestrator.record.tracker import Content, StoreError, Tracker
from orchestrator.system.files import is_file, locked, replace_whole

Identity = tuple[str, str, str, str]
"""Sweep, kind, key and mix of a record (:attr:`Content.identity`)."""


class JsonLinesTracker(Tracker):
    """Appends records to a file that several processes may share. It draws no pictures."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: dict[Identity, str] = {}
        """Digest of the last line with each identity, in the first ``_bytes`` of the file."""
        self._bytes = 0
        """Size of the file after the last call. Another size means that another process has written."""

    def begin(self, sweep: Content) -> None:
        with self._locked():
            self._append(sweep, State.RUNNING)

    def keep(self, sweep: Content, record: Content) -> None:
        with self._locked():
            if sweep.identity not in self._written:
                self._append(sweep, State.RUNNING)
            is_failed = record.tags.get("status") == "failed"
            self._append(record, State.FAILED if is_failed else State.FINISHED)

    def end(self, sweep: Content, answer: Content, state: State) -> None:
        whole = replace(
            sweep,
            tags=sweep.tags | answer.tags,
            note=answer.note,
            texts=sweep.texts | answer.texts,
            files=sweep.files | answer.files,
            seconds=_seconds(sweep.ended, answer.ended),
            ended=answer.ended,
        )
        with self._locked():
            # A record's digest does not cover files, but an answer is recorded again once its figures are drawn.
            self._append(whole, state, " ".join([state, whole.digest, *sorted(whole.files)]))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Prevent other processes from writing, and read the lines that they have written."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with locked(_lock(self._path)):
                path = own_path(self._path)
                # Another process has written since the last call.
                if (path.stat().st_size if path.exists() else 0) != self._bytes:
                    self._read(path)
                yield
        except (OSError, ValueError) as error:
            raise StoreError(f"the record {self._path}: {error}") from error

    def _read(self, path: Path) -> None:
        """Read the file again, and remove an incomplete last line, which a crash left."""
        lines = whole_lines(path)
        self._bytes = sum(len(line) + 1 for line in lines)
        if path.exists():
            with open_to_append(path) as file:
                file.truncate(self._bytes)
        self._written = dict(filter(None, map(_identity, lines)))

    def _append(self, record: Content, state: State, digest: str = "") -> None:
        """Write a record, unless the last line with its identity has the same digest. After an error, leave no part of
        the line."""
        digest = digest or f"{state} {record.digest}"
        if self._written.get(record.identity) == digest:
            return
        line = json.dumps(_values(record, state) | {"digest": digest}).encode() + b"\n"
        with open_to_append(self._path) as file:
            try:
                rest = line
                while rest:  # A disk that becomes full writes a part of the line, then raises.
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(self._bytes)
                raise
        self._bytes += len(line)
        self._written[record.identity] = digest


def _values(record: Content, state: State) -> dict[str, Any]:
    """Return a record as JSON values."""
    sweep, kind, key, mix = record.identity
    curves: dict[str, list[tuple[int, float]]] = {}
    for sample in record.samples:
        curves.setdefault(sample.name, []).append((sample.step, sample.value))
    return {
        "sweep": sweep,
        "kind": kind,
        "key": key,
        "mix": mix,
        "name": record.name,
        "group": record.group,
        "state": state,
        "started": (datetime.fromisoformat(record.ended) - timedelta(seconds=record.seconds)).isoformat(),
        "ended": record.ended,
        "params": record.params,
        "tags": record.tags,
        "note": record.note,
        "metrics": {name: curve[-1][1] for name, curve in curves.items()},
        "curves": curves,
        "texts": record.texts,
        "files": {name: str(path) for name, path in record.files.items()},
    }


def _identity(line: bytes) -> tuple[Identity, str] | None:
    """Return the identity and the digest of a line. Return None for a damaged line, so that the record is written
    again."""
    try:
        values = parse_json(line)
        fields = [values[name] for name in ("sweep", "kind", "key", "mix", "digest")]
    except (ValueError, KeyError, TypeError):
        return None
    if not all(isinstance(value, str) for value in fields):
        return None
    sweep, kind, key, mix, digest = fields
    return (sweep, kind, key, mix), digest


def _seconds(begun: str, ended: str) -> float:
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(begun)).total_seconds()


def _lock(path: Path) -> Path:
    return own_path(path.with_name(f".{path.name}.lock"))


def delete_lines(path: Path, sweep_id: str) -> int:
    """Delete the lines of a sweep, and return their number. Raises :class:`StoreError`."""
    if not is_file(path):
        return 0
    try:
        with locked(_lock(path)):
            lines = whole_lines(path)
            others = [line for line in lines if (about := _identity(line)) is None or about[0][0] != sweep_id]
            if len(others) < len(lines):
                replace_whole(path, b"".join(line + b"\n" for line in others))
    except (OSError, ValueError) as error:
        raise StoreError(f"the record {path}: {error}") from error
    return len(lines) - len(others)
