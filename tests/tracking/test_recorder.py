"""The queue in front of a tracker: nothing waits, nothing is lost, nothing is swallowed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from orchestrator.report.answer import Answer
from orchestrator.store.records import RunRecord, Sweep
from orchestrator.tracking import recorder as recorder_module
from orchestrator.tracking.base import Ending, OutageError, RefusedError, Tracker
from orchestrator.tracking.recorder import MOST_WAITING, Recorder
from orchestrator.tracking.system import SystemSample
from tests.tracking.samples import Finished, finish
from trainables.base import Outcome, RunConfig


class Notebook(Tracker):
    """Writes down what it is told, after asking ``before`` for permission to."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.lines: list[str] = []
        self.before = before

    def begin(self, sweep: Sweep) -> None:
        self.before()
        self.lines.append(f"begin {sweep.id}")

    def run_ended(self, sweep: Sweep, run: RunRecord) -> None:
        self.before()
        self.lines.append(f"run {run.key}")

    def measured(self, sweep: Sweep, samples: Sequence[SystemSample]) -> None:
        self.before()
        self.lines += [f"measured at {sample.at_ms}" for sample in samples]

    def so_far(self, sweep: Sweep, answer: Answer) -> None:
        self.before()
        self.lines.append(f"so far {sum(mix.runs for mix in answer.mixes)} runs")

    def end(self, sweep: Sweep, answer: Answer, ending: Ending, files: Sequence[Path] = ()) -> None:
        self.before()
        self.lines.append(f"end {ending}")

    def describe(self) -> str:
        return "a notebook"


@pytest.fixture(scope="module", name="finished")
def finished_sweep(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return finish(tmp_path_factory.mktemp("sweep"))


def queue(recorder: Recorder, finished: Finished) -> list[str]:
    """Queue a whole sweep; returns what a tracker should be told."""
    recorder.begin(finished.sweep)
    for run in finished.runs:
        recorder.run_ended(finished.sweep, run)
    recorder.measured(finished.sweep, SystemSample(17, {"cpu_utilization_percentage": 50.0}))
    recorder.end(finished.sweep, finished.answer, Ending.FINISHED)
    return [
        f"begin {finished.sweep.id}",
        *(f"run {run.key}" for run in finished.runs),
        "measured at 17",
        "end finished",
    ]


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until, "waited 10 s in vain"
        time.sleep(0.005)


def test_a_store_slower_than_the_sweep_is_behind_and_one_that_is_out_is_not(finished: Finished) -> None:
    gate = threading.Event()
    out = True

    def before() -> None:
        if out:
            raise OutageError("out")
        gate.wait(10)

    recorder = Recorder(Notebook(before), first_wait_s=0.01)
    for _ in range(MOST_WAITING + 2):
        recorder.begin(finished.sweep)
    wait_until(lambda: "is out" in recorder.warning)
    assert not recorder.behind
    out = False
    # The outage is over with the first record that arrives, and then they come one by one.
    gate.set()
    assert recorder.close(10) == 0
    assert not recorder.behind

    slow = threading.Event()

    def wait() -> None:
        slow.wait(10)

    behind = Recorder(Notebook(wait))
    for _ in range(MOST_WAITING + 1):
        behind.begin(finished.sweep)
    assert behind.behind
    slow.set()
    wait_until(lambda: not behind.behind)
    assert behind.close(10) == 0


def test_everything_arrives_in_order(finished: Finished) -> None:
    notebook = Notebook()
    recorder = Recorder(notebook)
    expected = queue(recorder, finished)
    assert recorder.close(10) == 0
    assert notebook.lines == expected
    assert recorder.waiting == 0
    assert recorder.warning == ""


def test_the_sweep_never_waits(finished: Finished) -> None:
    gate = threading.Event()

    def before() -> None:
        assert gate.wait(10)

    recorder = Recorder(Notebook(before))
    started = time.monotonic()
    expected = queue(recorder, finished)
    assert time.monotonic() - started < 1
    assert recorder.waiting == len(expected)
    assert recorder.close(0.05) == len(expected)
    gate.set()


def test_a_refused_login_is_tried_seldom_and_not_waited_for_at_the_end(finished: Finished) -> None:
    tried = 0

    def before() -> None:
        nonlocal tried
        tried += 1
        raise RefusedError("asks for a login: set the variable")

    recorder = Recorder(Notebook(before), first_wait_s=0.01)
    expected = queue(recorder, finished)
    wait_until(lambda: recorder.refused)
    waiting = f"the sweep goes on, {len(expected)} records wait"
    assert recorder.warning == f"the MLflow store a notebook asks for a login: set the variable; {waiting}"
    time.sleep(0.1)
    begun = time.monotonic()
    assert recorder.close(60) == len(expected)
    assert time.monotonic() - begun < 5
    assert tried == 1


def test_records_arrive_once_a_login_is_let_in(finished: Finished) -> None:
    refuses = threading.Event()
    refuses.set()

    def before() -> None:
        if refuses.is_set():
            raise RefusedError("asks for a login")

    notebook = Notebook(before)
    recorder = Recorder(notebook, refused_wait_s=0.01)
    expected = queue(recorder, finished)
    wait_until(lambda: recorder.refused)
    refuses.clear()
    wait_until(lambda: recorder.waiting == 0)
    assert recorder.close(10) == 0
    assert notebook.lines == expected
    assert not recorder.refused


def test_an_outage_delays_records_and_loses_none(finished: Finished) -> None:
    out = threading.Event()
    out.set()

    def before() -> None:
        if out.is_set():
            raise OutageError("connection refused")

    notebook = Notebook(before)
    recorder = Recorder(notebook, first_wait_s=0.01)
    expected = queue(recorder, finished)
    wait_until(lambda: recorder.warning != "")
    assert "a notebook is out (connection refused)" in recorder.warning
    assert f"{len(expected)} records wait" in recorder.warning
    assert notebook.lines == []
    out.clear()
    wait_until(lambda: recorder.waiting == 0)
    assert recorder.warning == ""
    assert notebook.lines == expected
    assert recorder.close(1) == 0


def test_a_record_that_fails_halfway_is_tried_again_before_the_next(finished: Finished) -> None:
    calls: list[int] = []

    def before() -> None:
        calls.append(1)
        if len(calls) % 2:
            raise OutageError("again")

    notebook = Notebook(before)
    recorder = Recorder(notebook, first_wait_s=0.001)
    expected = queue(recorder, finished)
    assert recorder.close(20) == 0
    assert notebook.lines == expected
    assert len(calls) == 2 * len(expected)


def test_closing_in_an_outage_gives_up_in_time_and_counts_what_is_left(finished: Finished) -> None:
    def before() -> None:
        raise OutageError("gone")

    recorder = Recorder(Notebook(before), first_wait_s=30)
    expected = queue(recorder, finished)
    wait_until(lambda: recorder.warning != "")
    started = time.monotonic()
    assert recorder.close(0.2) == len(expected)
    assert time.monotonic() - started < 2


def test_closing_waits_for_a_store_that_comes_back(finished: Finished) -> None:
    back = time.monotonic() + 0.3

    def before() -> None:
        if time.monotonic() < back:
            raise OutageError("restarting")

    notebook = Notebook(before)
    recorder = Recorder(notebook, first_wait_s=0.02)
    expected = queue(recorder, finished)
    assert recorder.close(10) == 0
    assert notebook.lines == expected


def test_a_bug_shows_at_once_and_is_raised_at_the_end(finished: Finished) -> None:
    def before() -> None:
        raise KeyError("test_accuracy")

    recorder = Recorder(Notebook(before))
    expected = queue(recorder, finished)
    wait_until(lambda: recorder.warning != "")
    assert "KeyError" in recorder.warning
    assert f"{len(expected)} records are left" in recorder.warning
    with pytest.raises(KeyError, match="test_accuracy"):
        recorder.close(1)


def test_nothing_is_taken_after_closing(finished: Finished) -> None:
    recorder = Recorder(Notebook())
    recorder.close(1)
    with pytest.raises(RuntimeError, match="closed"):
        recorder.begin(finished.sweep)


def test_what_is_known_so_far_is_recorded_now_and_then(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "SO_FAR_EVERY_S", 0.2)
    notebook = Notebook()
    asked: list[None] = []

    def outcomes() -> list[tuple[RunConfig, Outcome]]:
        asked.append(None)
        return [(run.config, run.outcome) for run in finished.runs]

    recorder = Recorder(notebook)
    recorder.so_far(finished.sweep, outcomes)
    assert not asked  # A sweep has just begun.
    time.sleep(0.25)
    for _ in range(5):
        recorder.so_far(finished.sweep, outcomes)
    assert recorder.close(30) == 0
    assert notebook.lines == ["so far 6 runs"]
    assert len(asked) == 1
