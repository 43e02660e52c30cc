"""Suite for the contract of a tracker (orchestrator/record/tracker.py).

:class:`Bench` describes the tracker and its store; to try another one, pass its bench to every function of
:data:`CHECKS`. A check raises ``AssertionError`` if the tracker breaks its contract.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier

import pytest

from orchestrator.jobs.state import State
from orchestrator.record.tracker import Content, Sample, StoreError, Tracker

FIRST, SECOND = "sums-20260101-000000-aaaa", "sums-20260101-000000-bbbb"
BEGUN, ENDED, LATER = (f"2026-01-0{day}T00:00:00+00:00" for day in (1, 2, 3))
LONG = 1001
"""Points of a curve: more than some stores take in one call."""
AT_ONCE = 20
"""Records that each of two processes writes while the other one does."""
TRIES = 10
"""Maximum number of calls for a record while another process uses the store."""


@dataclass(frozen=True)
class Kept:
    """A record as a reader finds it in the store.

    Attributes:
        started: Start of the recorded work: its end less :attr:`Content.seconds`, or the start of the sweep.
        ended: End of the recorded work. While a sweep is running, it may be any time.
        curves: All samples by name, as steps and values in order.
        artifacts: All texts and files by name, with their folders.
    """

    identity: tuple[str, str, str, str]
    name: str
    group: str
    note: str
    state: State
    started: datetime
    ended: datetime
    params: dict[str, str]
    tags: dict[str, str]
    curves: dict[str, list[tuple[int, float]]]
    artifacts: dict[str, bytes]


@dataclass(frozen=True)
class Bench:
    """A tracker to check.

    Attributes:
        name: Text by which every error names the store, such as its path.
        open: Returns a new tracker of the store, as another process opens it. A check also passes it to other
            processes, so it can be pickled.
        read: Returns the records in the store that are complete, and the sweeps' own.
        outage: Makes the store fail during a block.
        kill: Leaves the store as a process that was killed while it kept a record of a sweep.
        directory: An empty directory for artifacts.
    """

    name: str
    open: Callable[[], Tracker]
    read: Callable[[], list[Kept]]
    outage: Callable[[], AbstractContextManager[object]]
    kill: Callable[[Content, Content], None]
    directory: Path

    def all(self) -> list[Kept]:
        """Return all records, in the order of their identities."""
        return sorted(self.read(), key=lambda kept: kept.identity)

    def runs(self) -> list[Kept]:
        return [kept for kept in self.all() if kept.identity[1] == "run"]

    def own(self, sweep_id: str = FIRST) -> Kept:
        """Return the only record of a sweep itself."""
        [kept] = [kept for kept in self.read() if kept.identity == (sweep_id, "sweep", "", "")]
        return kept


def sweep_record(sweep_id: str = FIRST) -> Content:
    return Content(
        name=sweep_id,
        tags={"kind": "sweep", "sweep": sweep_id, "question": "How small?"},
        params={"target": "add"},
        note="Flat sums.",
        texts={"search_space.yaml": "target: add\n"},
        ended=BEGUN,
        group="sums",
    )


def run_record(key: str = "k1", mix: str = "add", *, sweep_id: str = FIRST, accuracy: float = 0.5) -> Content:
    return Content(
        name=f"{mix} {key}",
        tags={"kind": "run", "sweep": sweep_id, "run_key": key, "status": "finished"},
        params={"mix": mix, "size": "16"},
        samples=(Sample("test_accuracy/add", accuracy, 30),),
        note=f"Trained on {mix}.",
        seconds=60.0,
        ended=ENDED,
        group="sums",
    )


def transition_record(mix: str = "add") -> Content:
    return Content(
        name=f"{mix}: 16",
        tags={"kind": "transition", "sweep": FIRST},
        params={"mix": mix, "verdict": "fewer"},
        samples=(Sample("transition", 16.0),),
        note="Half of the models of size 16 learn it.",
        texts={"transition.json": "{}"},
        ended=ENDED,
        group="sums",
    )


def answer_record(answer: str) -> Content:
    texts = {"answer.txt": answer}
    return Content("", {"answer": answer}, {}, note=f"Answer: {answer}.", texts=texts, ended=ENDED, group="sums")


def _assert_same(kept: Kept, record: Content) -> None:
    """Compare all parts of a record, except its samples, files and state, with those in the store."""
    assert kept.identity == record.identity
    assert kept.name == record.name
    assert kept.group == record.group
    assert kept.note == record.note
    assert kept.params.items() >= record.params.items()
    assert kept.tags.items() >= record.tags.items()
    for name, text in record.texts.items():
        assert kept.artifacts[name] == text.encode()


def keeps_every_part(bench: Bench) -> None:
    """A record is in the store when ``keep`` returns, with all its parts."""
    arrays, probe = bench.directory / "arrays.npz", bench.directory / "fourier.npz"
    arrays.write_bytes(b"\x00\x01")
    probe.write_bytes(b"\x02")
    curve = tuple(Sample("loss", step / 1024, step, step / LONG) for step in range(1, LONG + 1))
    plain = run_record()
    files = {"arrays.npz": arrays, "probes/fourier.npz": probe}
    full = replace(plain, samples=(*curve, *plain.samples), texts={"notes.txt": "ö\n"}, files=files)
    tracker = bench.open()
    tracker.begin(sweep_record())
    tracker.keep(sweep_record(), full)
    [kept] = bench.runs()
    _assert_same(kept, full)
    assert kept.state == State.FINISHED
    assert kept.ended == datetime.fromisoformat(ENDED)
    assert (kept.ended - kept.started).total_seconds() == 60
    assert kept.curves["loss"] == [(step, step / 1024) for step in range(1, LONG + 1)]
    assert kept.curves["test_accuracy/add"] == [(30, 0.5)]
    assert kept.artifacts == {
        "arrays.npz": b"\x00\x01",
        "probes/fourier.npz": b"\x02",
        "notes.txt": "ö\n".encode(),
    }
    _assert_same(bench.own(), sweep_record())
    assert bench.own().started == datetime.fromisoformat(BEGUN)
    assert set(bench.own().artifacts) == {"search_space.yaml"}


def keeps_transitions(bench: Bench) -> None:
    """Transitions of two mixes are kept, although their identities differ only in the mix."""
    tracker = bench.open()
    tracker.begin(sweep_record())
    for mix in ("add", "add+prod"):
        tracker.keep(sweep_record(), transition_record(mix))
    transitions = [kept for kept in bench.all() if kept.identity[1] == "transition"]
    assert [kept.identity[3] for kept in transitions] == ["add", "add+prod"]
    for kept, mix in zip(transitions, ("add", "add+prod"), strict=True):
        _assert_same(kept, transition_record(mix))
        assert kept.state == State.FINISHED
        assert kept.curves == {"transition": [(0, 16.0)]}


def tells_a_failed_run(bench: Bench) -> None:
    """A failed run is seen as failed."""
    failed = run_record()
    bench.open().keep(sweep_record(), replace(failed, tags=failed.tags | {"status": "failed"}, samples=()))
    [kept] = bench.runs()
    assert kept.state == State.FAILED


def writes_a_record_once(bench: Bench) -> None:
    """A replay by the same object or another writes nothing, so the record stays as it was."""
    place = bench.directory / "arrays.npz"
    place.write_bytes(b"\x00\x01")
    records = [run_record("k1"), replace(run_record("k2"), files={place.name: place})]
    first = bench.open()
    first.begin(sweep_record())
    for record in records:
        first.keep(sweep_record(), record)
    before = bench.all()
    assert [kept.identity[2] for kept in before] == ["k1", "k2", ""]
    for record in records:
        for replayed in (record, replace(record, ended=LATER, note="Later."), replace(record, files={"a.npz": place})):
            for tracker in (first, bench.open()):
                tracker.begin(sweep_record())
                tracker.keep(sweep_record(), replayed)
    assert bench.all() == before


def replaces_what_has_changed(bench: Bench) -> None:
    """Of records about the same thing, readers find only the last."""
    tracker = bench.open()
    for number, accuracy in enumerate((0.5, 0.6, 0.7)):
        tracker = tracker if number == 1 else bench.open()
        tracker.keep(sweep_record(), run_record(accuracy=accuracy))
        [kept] = bench.runs()
        assert kept.curves["test_accuracy/add"] == [(30, accuracy)]


def keeps_mixes_apart(bench: Bench) -> None:
    """Two mixes may share a run, and each has its record."""
    twins = [run_record(mix="add"), run_record(mix="the same")]
    for order in (twins, twins[::-1]):
        tracker = bench.open()
        for record in order:
            tracker.keep(sweep_record(), record)
    assert sorted(kept.identity[3] for kept in bench.runs()) == ["add", "the same"]


def keeps_sweeps_apart(bench: Bench) -> None:
    """Two processes record two sweeps of the same runs in turns."""
    trackers = {FIRST: bench.open(), SECOND: bench.open()}
    for sweep_id, tracker in trackers.items():
        tracker.begin(sweep_record(sweep_id))
        tracker.keep(sweep_record(sweep_id), run_record("k0", sweep_id=sweep_id))
    for key in ("k1", "k2"):
        for sweep_id, tracker in trackers.items():
            tracker.keep(sweep_record(sweep_id), run_record(key, sweep_id=sweep_id))
    trackers[SECOND].end(sweep_record(SECOND), answer_record("fewer"), State.FINISHED)
    identities = sorted(one.identity[::2] for one in bench.runs())
    assert identities == [(sweep_id, key) for sweep_id in (FIRST, SECOND) for key in ("k0", "k1", "k2")]
    assert bench.own(FIRST).state == State.RUNNING
    assert bench.own(SECOND).state == State.FINISHED


def keeps_what_processes_write_at_once(bench: Bench) -> None:
    """Two processes record two sweeps at the same time. Neither loses a record, nor one of the other."""
    context = get_context("spawn")
    start = context.Barrier(2)
    processes = [context.Process(target=_keep_runs, args=(bench.open, one, start)) for one in (FIRST, SECOND)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    keys = sorted(f"k{number}" for number in range(AT_ONCE))
    assert [kept.identity[::2] for kept in bench.runs()] == [(one, key) for one in (FIRST, SECOND) for key in keys]


def _keep_runs(open_tracker: Callable[[], Tracker], sweep_id: str, start: Barrier) -> None:
    """Record the runs of a sweep as another process."""
    tracker = open_tracker()
    start.wait(timeout=120)
    for number in range(AT_ONCE):
        _try_to_keep(tracker, sweep_record(sweep_id), run_record(f"k{number}", sweep_id=sweep_id))


def _try_to_keep(tracker: Tracker, sweep: Content, record: Content) -> None:
    """Keep a record, and call again after a failure, as the recorder does. A store may be busy for a moment."""
    for _ in range(TRIES - 1):
        try:
            return tracker.keep(sweep, record)
        except StoreError:
            time.sleep(0.1)
    return tracker.keep(sweep, record)


def takes_any_order(bench: Bench) -> None:
    """A run or an answer also records its sweep, if that is missing."""
    bench.open().keep(sweep_record(FIRST), run_record())
    bench.open().end(sweep_record(SECOND), answer_record("fewer"), State.FINISHED)
    assert bench.own(FIRST).state == State.RUNNING
    _assert_same(bench.own(FIRST), sweep_record(FIRST))
    assert bench.own(SECOND).params["target"] == "add"
    assert bench.own(SECOND).tags["answer"] == "fewer"


def follows_the_state(bench: Bench) -> None:
    """A sweep is running, stopped, running again, failed and answered. Its record has the last state."""
    sweep = sweep_record()
    first = bench.open()
    first.begin(sweep)
    assert bench.own().state == State.RUNNING
    first.end(sweep, answer_record("undecided"), State.INTERRUPTED)
    assert bench.own().state == State.INTERRUPTED
    assert bench.own().tags["answer"] == "undecided"
    later = bench.open()
    later.begin(sweep)
    assert bench.own().state == State.RUNNING
    later.end(sweep, answer_record("undecided"), State.FAILED)
    assert bench.own().state == State.FAILED
    later.end(sweep, answer_record("fewer"), State.FINISHED)
    for tracker, key in ((later, "k1"), (bench.open(), "k2")):
        tracker.keep(sweep, run_record(key))
        assert bench.own().state == State.FINISHED
        assert bench.own().tags["answer"] == "fewer"


def adds_the_answer(bench: Bench) -> None:
    """The record of an answered sweep has the last answer, figures that are drawn later, and still its own parts."""
    sweep = sweep_record()
    tracker = bench.open()
    tracker.begin(sweep)
    tracker.end(sweep, answer_record("undecided"), State.INTERRUPTED)
    tracker.end(sweep, answer_record("fewer"), State.FINISHED)
    picture = bench.directory / "curve.png"
    picture.write_bytes(b"\x89PNG")
    tracker.end(sweep, replace(answer_record("fewer"), files={picture.name: picture}), State.FINISHED)
    _assert_same(bench.own(), replace(sweep, tags=sweep.tags | {"answer": "fewer"}, note="Answer: fewer."))
    assert bench.own().started == datetime.fromisoformat(BEGUN)
    assert bench.own().ended == datetime.fromisoformat(ENDED)
    assert bench.own().artifacts == {
        "search_space.yaml": b"target: add\n",
        "answer.txt": b"fewer",
        "curve.png": b"\x89PNG",
    }


def fails_with_a_store_error(bench: Bench) -> None:
    """If the store fails, every method names it and the reason. Called again, the same object completes the record."""
    tracker = bench.open()
    sweep = sweep_record()
    calls: list[Callable[[], None]] = [
        lambda: tracker.begin(sweep),
        lambda: tracker.keep(sweep, run_record()),
        lambda: tracker.end(sweep, answer_record("fewer"), State.FINISHED),
    ]
    for call in calls:
        with bench.outage(), pytest.raises(StoreError) as failure:
            call()
        message = str(failure.value)
        assert bench.name in message
        assert message.replace(bench.name, "").strip(" :."), "the message has no reason"
        call()
    assert [kept.identity[2] for kept in bench.runs()] == ["k1"]
    assert bench.own().tags["answer"] == "fewer"


def completes_what_a_crash_cut_off(bench: Bench) -> None:
    """Half of a record is not found, and does not stop later ones. A replay completes it."""
    sweep = sweep_record()
    bench.open().keep(sweep, run_record("k1"))
    bench.kill(sweep, run_record("k2"))
    assert [kept.identity[2] for kept in bench.runs()] == ["k1"]
    tracker = bench.open()
    for key in ("k3", "k2", "k1"):
        tracker.keep(sweep, run_record(key))
    assert sorted(kept.identity[2] for kept in bench.runs()) == ["k1", "k2", "k3"]


def draws_only_what_it_writes(bench: Bench) -> None:
    """A replay draws no picture again, and a picture that cannot be drawn costs the record nothing else."""
    drawn = []

    def draw(directory: Path) -> dict[str, Path]:
        drawn.append(directory)
        path = directory / "similarity.png"
        path.write_bytes(b"\x89PNG")
        return {path.name: path}

    def fail(directory: Path) -> dict[str, Path]:
        raise ValueError("the font is missing")

    first = bench.open()
    for tracker in (first, first, bench.open()):
        tracker.keep(sweep_record(), replace(run_record("k1"), draw=draw))
    assert len(drawn) <= 1
    [kept] = bench.runs()
    assert kept.artifacts == ({"similarity.png": b"\x89PNG"} if drawn else {})
    first.keep(sweep_record(), replace(run_record("k2"), draw=fail))
    assert sorted(kept.identity[2] for kept in bench.runs()) == ["k1", "k2"]


CHECKS: tuple[Callable[[Bench], None], ...] = (
    keeps_every_part,
    keeps_transitions,
    tells_a_failed_run,
    writes_a_record_once,
    replaces_what_has_changed,
    keeps_mixes_apart,
    keeps_sweeps_apart,
    keeps_what_processes_write_at_once,
    takes_any_order,
    follows_the_state,
    adds_the_answer,
    fails_with_a_store_error,
    completes_what_a_crash_cut_off,
    draws_only_what_it_writes,
)
"""Checks of the contract. Some demands have several."""
