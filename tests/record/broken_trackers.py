"""Trackers with one bug each, which the suite finds.

They are in a module of their own because a check opens them in other processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from orchestrator.jobs.state import State
from orchestrator.record.json_lines import JsonLinesTracker
from orchestrator.record.tracker import Content, StoreError
from tests.record.csv_files import CsvTracker, Identity, Row, read_table, write_table


class WritesAtTheEnd(JsonLinesTracker):
    """It holds records back until the sweep ends."""

    def keep(self, sweep: Content, record: Content) -> None:
        return


class DropsCurves(JsonLinesTracker):
    """It keeps the last value of each metric."""

    def keep(self, sweep: Content, record: Content) -> None:
        last = {sample.name: sample for sample in record.samples}
        super().keep(sweep, replace(record, samples=tuple(last.values())))


class DropsTexts(JsonLinesTracker):
    """It keeps numbers only."""

    def keep(self, sweep: Content, record: Content) -> None:
        super().keep(sweep, replace(record, texts={}))


class KeepsFailuresAsResults(JsonLinesTracker):
    """It stores failed runs as finished."""

    def keep(self, sweep: Content, record: Content) -> None:
        super().keep(sweep, replace(record, tags=record.tags | {"status": "finished"}))


class WritesAgain(JsonLinesTracker):
    """It does not check whether it has a record."""

    def _append(self, record: Content, state: State, digest: str = "") -> None:
        self._written.pop(record.identity, None)
        super()._append(record, state, digest)


class KnowsOnlyItsOwn(JsonLinesTracker):
    """It does not read what another process has written."""

    def _read(self, path: Path) -> None:
        self._bytes = path.stat().st_size if path.exists() else 0


class KeepsTheFirst(JsonLinesTracker):
    """It knows a record by its identity alone."""

    def _append(self, record: Content, state: State, digest: str = "") -> None:
        if record.tags["kind"] == "sweep" or record.identity not in self._written:
            super()._append(record, state, digest)


class MergesMixes(JsonLinesTracker):
    """It knows a run by its key alone."""

    def keep(self, sweep: Content, record: Content) -> None:
        super().keep(sweep, replace(record, params=record.params | {"mix": "any"}))


class OneSweepAFile(JsonLinesTracker):
    """It deletes the records of earlier sweeps."""

    def begin(self, sweep: Content) -> None:
        self._path.unlink(missing_ok=True)
        super().begin(sweep)


class NeedsTheBegin(JsonLinesTracker):
    """It records only runs of sweeps that it has begun itself."""

    def keep(self, sweep: Content, record: Content) -> None:
        assert sweep.identity in self._written, "begin was not called"
        super().keep(sweep, record)


class StaysEnded(JsonLinesTracker):
    """It does not show that a sweep runs again."""

    def begin(self, sweep: Content) -> None:
        with self._locked():
            if sweep.identity not in self._written:
                self._append(sweep, State.RUNNING)


class ForgetsTheQuestion(JsonLinesTracker):
    """Its record of an answer replaces the parameters and texts of the sweep."""

    def end(self, sweep: Content, answer: Content, state: State) -> None:
        super().end(replace(sweep, params={}, texts={}), answer, state)


class IgnoresFigures(JsonLinesTracker):
    """It does not write an answer again when its figures have been drawn."""

    def _append(self, record: Content, state: State, digest: str = "") -> None:
        super()._append(record, state)


class SwallowsErrors(JsonLinesTracker):
    """It hides a failure of the store."""

    def keep(self, sweep: Content, record: Content) -> None:
        with suppress(StoreError):
            super().keep(sweep, record)


class RaisesItsOwn(JsonLinesTracker):
    """It lets the store's errors through."""

    def begin(self, sweep: Content) -> None:
        try:
            super().begin(sweep)
        except StoreError as error:
            raise OSError(str(error)) from error


class BelievesItWrote(JsonLinesTracker):
    """It notes a record before it is written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._noted: set[tuple[str, str, str, str]] = set()

    def keep(self, sweep: Content, record: Content) -> None:
        if record.identity not in self._noted:
            self._noted.add(record.identity)
            super().keep(sweep, record)


class DrawsEveryTime(JsonLinesTracker):
    """It draws before it checks whether it has the record, and keeps the pictures."""

    def keep(self, sweep: Content, record: Content) -> None:
        pictures = record.draw(self._path.parent)
        super().keep(sweep, replace(record, files={**record.files, **pictures}))


class ContinuesHalfALine(JsonLinesTracker):
    """It appends to what a crash has left."""

    def _read(self, path: Path) -> None:
        whole = path.read_bytes() if path.exists() else b""
        super()._read(path)
        path.write_bytes(whole)
        self._bytes = len(whole)


class DropsTransitions(JsonLinesTracker):
    """It keeps runs only."""

    def keep(self, sweep: Content, record: Content) -> None:
        if record.tags["kind"] == "run":
            super().keep(sweep, record)


class DropsFolders(JsonLinesTracker):
    """It keeps only files that are in no folder."""

    def keep(self, sweep: Content, record: Content) -> None:
        files = {name: path for name, path in record.files.items() if "/" not in name}
        super().keep(sweep, replace(record, files=files))


class DropsNotes(JsonLinesTracker):
    """It keeps no description of a run."""

    def keep(self, sweep: Content, record: Content) -> None:
        super().keep(sweep, replace(record, note=""))


class DropsGroups(JsonLinesTracker):
    """It keeps no name of the search space."""

    def keep(self, sweep: Content, record: Content) -> None:
        super().keep(sweep, replace(record, group=""))


class DropsDurations(JsonLinesTracker):
    """It keeps only the end of a run."""

    def keep(self, sweep: Content, record: Content) -> None:
        super().keep(sweep, replace(record, seconds=0.0))


class RewritesFiles(JsonLinesTracker):
    """It writes a record with files again, because it does not compare them."""

    def _append(self, record: Content, state: State, digest: str = "") -> None:
        if record.files:
            self._written.pop(record.identity, None)
        super()._append(record, state, digest)


class LocksNothing(CsvTracker):
    """It replaces what another process has written since it read the table."""

    @contextmanager
    def _changing(self) -> Iterator[dict[Identity, Row]]:
        rows = read_table(self._table)
        yield rows
        write_table(self._table, rows.values())


class ReopensAnEnd(JsonLinesTracker):
    """A run that it keeps sets the sweep to running."""

    def keep(self, sweep: Content, record: Content) -> None:
        self.begin(sweep)
        super().keep(sweep, record)


class EndsFailuresAsFinished(JsonLinesTracker):
    """It knows two states of a sweep that ended."""

    def end(self, sweep: Content, answer: Content, state: State) -> None:
        super().end(sweep, answer, State.FINISHED if state == State.FAILED else state)


class DropsTheNoteOfAnAnswer(JsonLinesTracker):
    """It keeps the description of the sweep."""

    def end(self, sweep: Content, answer: Content, state: State) -> None:
        super().end(sweep, replace(answer, note=sweep.note), state)


class ForgetsTheStart(JsonLinesTracker):
    """Its record of an ended sweep has only the end."""

    def end(self, sweep: Content, answer: Content, state: State) -> None:
        super().end(replace(sweep, ended=answer.ended), answer, state)


class GivesNoReason(JsonLinesTracker):
    """Its errors have no message."""

    def begin(self, sweep: Content) -> None:
        try:
            super().begin(sweep)
        except StoreError as error:
            raise StoreError("") from error


BROKEN = (
    (WritesAtTheEnd, "keeps_every_part"),
    (DropsCurves, "keeps_every_part"),
    (DropsTexts, "keeps_every_part"),
    (DropsFolders, "keeps_every_part"),
    (DropsNotes, "keeps_every_part"),
    (DropsGroups, "keeps_every_part"),
    (DropsDurations, "keeps_every_part"),
    (DropsTransitions, "keeps_transitions"),
    (KeepsFailuresAsResults, "tells_a_failed_run"),
    (WritesAgain, "writes_a_record_once"),
    (KnowsOnlyItsOwn, "writes_a_record_once"),
    (RewritesFiles, "writes_a_record_once"),
    (KeepsTheFirst, "replaces_what_has_changed"),
    (MergesMixes, "keeps_mixes_apart"),
    (OneSweepAFile, "keeps_sweeps_apart"),
    (LocksNothing, "keeps_what_processes_write_at_once"),
    (NeedsTheBegin, "takes_any_order"),
    (StaysEnded, "follows_the_state"),
    (ReopensAnEnd, "follows_the_state"),
    (EndsFailuresAsFinished, "follows_the_state"),
    (DropsTheNoteOfAnAnswer, "adds_the_answer"),
    (ForgetsTheStart, "adds_the_answer"),
    (ForgetsTheQuestion, "adds_the_answer"),
    (IgnoresFigures, "adds_the_answer"),
    (SwallowsErrors, "fails_with_a_store_error"),
    (RaisesItsOwn, "fails_with_a_store_error"),
    (GivesNoReason, "fails_with_a_store_error"),
    (BelievesItWrote, "fails_with_a_store_error"),
    (ContinuesHalfALine, "completes_what_a_crash_cut_off"),
    (DrawsEveryTime, "draws_only_what_it_writes"),
)
"""Each tracker with the check that finds its bug."""
