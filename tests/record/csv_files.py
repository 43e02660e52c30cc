"""Another tracker, to try the contract: CSV files for a spreadsheet, one row for each run, transition and sweep.

``records.csv`` has a row for each record. ``params``, ``tags`` and ``artifacts`` are JSON. Samples of a record are rows
of a file of their own, and artifacts are copies, both named by a hash of their content.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from orchestrator.jobs.state import State
from orchestrator.record.tracker import Content, Sample, StoreError, Tracker
from orchestrator.report.drawing import try_to_draw
from orchestrator.system.files import locked, replace_whole

FIELDS = (
    *("sweep", "kind", "key", "mix", "name", "group", "state", "ended", "seconds", "note"),
    *("params", "tags", "samples", "artifacts", "digest"),
)
Identity = tuple[str, str, str, str]
Row = dict[str, str]


class CsvTracker(Tracker):
    """Keeps records in a directory. Each call reads the table, and replaces it whole if it has changed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._table = directory / "records.csv"

    def begin(self, sweep: Content) -> None:
        with self._changing() as rows:
            self._put(rows, sweep, State.RUNNING)

    def keep(self, sweep: Content, record: Content) -> None:
        with self._changing() as rows:
            if sweep.identity not in rows:
                self._put(rows, sweep, State.RUNNING)
            is_failed = record.tags.get("status") == "failed"
            self._put(rows, record, State.FAILED if is_failed else State.FINISHED)

    def end(self, sweep: Content, answer: Content, state: State) -> None:
        whole = replace(
            sweep,
            tags=sweep.tags | answer.tags,
            texts=sweep.texts | answer.texts,
            files=sweep.files | answer.files,
            note=answer.note,
            seconds=(datetime.fromisoformat(answer.ended) - datetime.fromisoformat(sweep.ended)).total_seconds(),
            ended=answer.ended,
        )
        with self._changing() as rows:
            # An answer is recorded again, with an equal digest, when its figures have been drawn.
            self._put(rows, whole, state, " ".join([whole.digest, *sorted(whole.files)]))

    @contextmanager
    def _changing(self) -> Iterator[dict[Identity, Row]]:
        """Yield the table, which no other process changes during the block, and write it afterwards."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with locked(self._directory / ".lock"):
                rows = read_table(self._table)
                before = {identity: dict(row) for identity, row in rows.items()}
                yield rows
                if rows != before:
                    write_table(self._table, rows.values())
        except (OSError, ValueError, csv.Error) as error:
            raise StoreError(f"the CSV files in {self._directory} cannot be used: {error}") from error

    def _put(self, rows: dict[Identity, Row], record: Content, state: State, digest: str = "") -> None:
        """Set the row of a record, unless the table has it with this digest already. Then set its state alone."""
        digest = digest or record.digest
        known = rows.get(record.identity)
        if known is not None and known["digest"] == digest:
            known["state"] = state
            return
        with tempfile.TemporaryDirectory() as pictures:
            artifacts = {name: self._copy(text.encode()) for name, text in record.texts.items()}
            drawn = try_to_draw("a figure of the record", partial(record.draw, Path(pictures))) or {}
            for name, path in {**record.files, **drawn}.items():
                artifacts[name] = self._copy(path.read_bytes())
        sweep, kind, key, mix = record.identity
        values = (
            *(sweep, kind, key, mix, record.name, record.group, state, record.ended, str(record.seconds), record.note),
            *(json.dumps(record.params), json.dumps(record.tags)),
            *(self._copy(_samples_text(record.samples)), json.dumps(artifacts), digest),
        )
        rows[record.identity] = dict(zip(FIELDS, values, strict=True))

    def _copy(self, content: bytes) -> str:
        """Keep a content in a file, and return its name."""
        name = hashlib.sha256(content).hexdigest()
        path = self._directory / "content" / name
        if not path.exists():
            replace_whole(path, content)
        return name


def _samples_text(samples: tuple[Sample, ...]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(("name", "step", "progress", "value"))
    writer.writerows((sample.name, sample.step, sample.progress, repr(sample.value)) for sample in samples)
    return text.getvalue().encode()


def write_table(path: Path, rows: Iterable[Row]) -> None:
    """Replace a table as a whole."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, FIELDS)
    writer.writeheader()
    writer.writerows(rows)
    replace_whole(path, text.getvalue())


def read_table(path: Path) -> dict[Identity, Row]:
    """Return the rows of a table by what they are about. Leave out rows that are damaged."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if set(row) == set(FIELDS) and None not in row.values()]
    return {(row["sweep"], row["kind"], row["key"], row["mix"]): row for row in rows}
