"""Records of a sweep: its question, its runs and its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from orchestrator.history.sweeps import Sweep
from orchestrator.jobs.state import State
from orchestrator.record.content import answer_content, run_content, sweep_content, transition_content
from orchestrator.record.tracker import Content, Tracker
from orchestrator.report.answer import Answer
from orchestrator.space.runs import Run
from orchestrator.system.reading_time import check_reading_time

Put = Callable[[Callable[[Tracker], None]], None]
"""Calls a function with a tracker, at once or later in another thread."""


class SweepRecords:
    """Makes the records of a sweep. It makes a record only when the tracker is ready, because that reads the home."""

    def __init__(self, sweep: Sweep, put: Put) -> None:
        self._sweep = sweep
        self._put = put
        self._own: Content | None = None
        self._ended = ""
        """End of the sweep's last run, which replays do not change. Empty before the first run ends."""

    def begin(self) -> None:
        """Record that the sweep is running, at its start or after an interruption."""
        self._put(lambda tracker: tracker.begin(self._record()))

    def run_ended(self, run: Run) -> None:
        """Record a run that ended, with its files.

        Skip a run that another sweep of this home trained, because that sweep has the record. But if this sweep records
        weights, record the run again.
        """
        self._put(lambda tracker: self._keep_run(tracker, run))

    def end(self, answer: Answer, state: State, files: Sequence[Path] = ()) -> None:
        """Record the answer, and replace an earlier answer."""
        self._put(lambda tracker: self._keep_answer(tracker, answer, state, files))

    def cut_off(self, answer: Answer, state: State) -> None:
        """Record the answer only, after other records of the sweep took too long, so that it does not seem to run."""
        self._put(lambda tracker: self._keep_end(tracker, answer, state))

    def _record(self) -> Content:
        self._own = self._own or sweep_content(self._sweep)
        return self._own

    def _keep_run(self, tracker: Tracker, run: Run) -> None:
        check_reading_time()
        sweep = self._sweep
        # Runs may be passed in any order, and times may have different offsets from UTC.
        self._ended = max(self._ended or sweep.created, run.at or sweep.created, key=datetime.fromisoformat)
        owner = run.trained_for
        is_elsewhere = owner not in ("", sweep.id) and sweep.files.home.sweep(owner).directory.is_dir()
        if is_elsewhere and not sweep.spec.record.weights:
            return
        tracker.keep(self._record(), run_content(sweep, run))

    def _keep_answer(self, tracker: Tracker, answer: Answer, state: State, files: Sequence[Path]) -> None:
        ended = self._ended or self._sweep.created
        for mix in answer.mixes:
            check_reading_time()
            if mix.runs:
                tracker.keep(self._record(), transition_content(self._sweep, answer, mix, ended))
        self._keep_end(tracker, answer, state, files)

    def _keep_end(self, tracker: Tracker, answer: Answer, state: State, files: Sequence[Path] = ()) -> None:
        ended = self._ended or self._sweep.created
        tracker.end(self._record(), answer_content(self._sweep, answer, state, ended, files), state)
