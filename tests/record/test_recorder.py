"""The recorder: sweeps never wait for it, and no record is lost or written twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from orchestrator.jobs.state import State
from orchestrator.record.recorder import Recorder
from orchestrator.record.sweep_records import SweepRecords
from orchestrator.record.tracker import Content, StoreError, Tracker
from tests.record.samples import Finished, finish
from tests.waiting import wait_for


class Notebook(Tracker):
    """A tracker that writes calls down after ``before`` returns."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.lines: list[str] = []
        self.before = before

    def begin(self, sweep: Content) -> None:
        self._write(f"begin {sweep.sweep}")

    def keep(self, sweep: Content, record: Content) -> None:
        self._write(f"keep {record.identity[2] or record.identity[3]}")

    def end(self, sweep: Content, answer: Content, state: State) -> None:
        self._write(f"end {state}")

    def _write(self, line: str) -> None:
        self.before()
        self.lines.append(line)


class Outage:
    """A store that fails while ``lasts`` is True."""

    def __init__(self, error: Exception) -> None:
        self.error, self.lasts, self.tried = error, True, 0

    def __call__(self) -> None:
        self.tried += 1
        if self.lasts:
            raise self.error


@pytest.fixture(scope="module", name="finished")
def finished_sweep(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return finish(tmp_path_factory.mktemp("sweep"))


def queue(recorder: Recorder, finished: Finished) -> list[str]:
    """Queue the records of a sweep. Return the calls that its tracker should receive."""
    records = SweepRecords(finished.sweep, recorder.put)
    records.begin()
    for run in finished.runs:
        records.run_ended(run)
    return [f"begin {finished.sweep.id}", *(f"keep {run.key}" for run in finished.runs)]


def test_everything_arrives_in_order_and_nothing_after_closing(finished: Finished) -> None:
    notebook = Notebook()
    recorder = Recorder(lambda: notebook)
    expected = queue(recorder, finished)
    assert recorder.close(10) == 0
    assert notebook.lines == expected
    assert (recorder.waiting, recorder.warning) == (0, "")
    with pytest.raises(RuntimeError, match="closed"):
        recorder.put(lambda tracker: None)


def test_the_sweep_never_waits_for_a_slow_store(finished: Finished) -> None:
    gate = threading.Event()

    def before() -> None:
        assert gate.wait(60)

    notebook = Notebook(before)
    recorder = Recorder(lambda: notebook)
    expected = queue(recorder, finished)
    assert not notebook.lines  # All records are queued and none is written.
    assert recorder.waiting == len(expected)
    assert recorder.close(0.05) == len(expected)
    gate.set()
    wait_for(lambda: recorder.waiting == 0, 60)


@pytest.mark.parametrize(
    ("error", "message"),
    [(StoreError("the MLflow store X: refused"), "the MLflow store X: refused"), (KeyError("acc"), "KeyError: 'acc'")],
)
def test_an_outage_warns_and_delays_records_but_loses_none(finished: Finished, error: Exception, message: str) -> None:
    outage = Outage(error)
    notebook = Notebook(outage)
    recorder = Recorder(lambda: notebook, retry_s=0.01)
    expected = queue(recorder, finished)
    wait_for(lambda: message in recorder.warning, 60)
    assert f"records waiting: {len(expected)}" in recorder.warning
    assert notebook.lines == []
    outage.lasts = False
    wait_for(lambda: recorder.waiting == 0, 60)
    assert recorder.warning == ""
    assert notebook.lines == expected
    assert recorder.close(1) == 0


@pytest.mark.parametrize("lasts", [True, False])
def test_closing_in_an_outage_tries_once_more_and_counts_remaining_records(finished: Finished, lasts: bool) -> None:
    outage = Outage(StoreError("gone"))
    notebook = Notebook(outage)
    recorder = Recorder(lambda: notebook, retry_s=30)
    expected = queue(recorder, finished)
    wait_for(lambda: recorder.warning != "", 60)
    assert outage.tried == 1
    outage.lasts = lasts
    started = time.monotonic()
    assert recorder.close(20) == (len(expected) if lasts else 0)
    assert time.monotonic() - started < 5
    assert notebook.lines == ([] if lasts else expected)
