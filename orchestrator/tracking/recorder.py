"""A queue in front of a tracker, so that a sweep never waits for its record."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.report.answer import Answer
from orchestrator.report.answer import answer as judged
from orchestrator.store.records import RunRecord, Sweep
from orchestrator.tracking.base import DamagedStoreError, Ending, OutageError, RefusedError, Tracker
from orchestrator.tracking.system import SystemSample
from trainables.base import Outcome, RunConfig

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
"""Pauses between attempts while the store is out: doubled from the first to the longest."""

REFUSED_WAIT_S = 30.0
"""The pause where the store refuses the login: servers lock out who tries too often."""

MOST_WAITING = 200
"""Records that may wait for a store that works before it counts as slower than the sweep: 10 to 30 s of its time, so
that a sweep's end does not wait for long."""

SO_FAR_EVERY_S = 60.0
"""The least time between two provisional answers in the record."""

Call = Callable[[], None]


class Recorder:
    """Hands records to a tracker in their order, from a thread of its own.

    While the store is out, records wait and :attr:`warning` says so; they arrive, once each, when it is back. So they
    do where it refuses the login, which is tried again now and then, and no more once the recorder closes. With a
    damaged one nothing more is recorded, and the records wait for good. Any other error stops the recording, shows in
    :attr:`warning` at once and is raised by :meth:`close`: the sweep itself goes on, because its journal holds
    everything the record needs.
    """

    def __init__(
        self, tracker: Tracker, *, first_wait_s: float = FIRST_WAIT_S, refused_wait_s: float = REFUSED_WAIT_S
    ) -> None:
        self._tracker = tracker
        self._first_wait_s = first_wait_s
        self._refused_wait_s = refused_wait_s
        self._calls: deque[Call] = deque()
        self._changed = threading.Condition()
        self._stop_at: float | None = None
        self._so_far_at = time.monotonic()
        self._outage = ""
        self._refused = False
        self._damaged = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self._thread.start()

    def begin(self, sweep: Sweep) -> None:
        """Queue :meth:`Tracker.begin`."""
        self._put(lambda: self._tracker.begin(sweep))

    def run_ended(self, sweep: Sweep, run: RunRecord) -> None:
        """Queue :meth:`Tracker.run_ended`."""
        self._put(lambda: self._tracker.run_ended(sweep, run))

    def measured(self, sweep: Sweep, sample: SystemSample) -> None:
        """Queue :meth:`Tracker.measured`."""
        self._put(lambda: self._tracker.measured(sweep, [sample]))

    def so_far(self, sweep: Sweep, outcomes: Callable[[], Sequence[tuple[RunConfig, Outcome]]]) -> None:
        """Queue :meth:`Tracker.so_far` with what the sweep's outcomes say, at most once every :data:`SO_FAR_EVERY_S`;
        where records wait already, not at all. They are asked for only then, and judged in the recorder's thread."""
        now = time.monotonic()
        if now - self._so_far_at >= SO_FAR_EVERY_S and not self.waiting:
            self._so_far_at = now
            known = outcomes()
            self._put(lambda: self._tracker.so_far(sweep, judged(sweep.spec, known)))

    def end(self, sweep: Sweep, answer: Answer, ending: Ending, files: Sequence[Path] = ()) -> None:
        """Queue :meth:`Tracker.end`."""
        self._put(lambda: self._tracker.end(sweep, answer, ending, files))

    @property
    def waiting(self) -> int:
        """Records not yet in the store, the one being written included."""
        with self._changed:
            return len(self._calls)

    @property
    def damaged(self) -> bool:
        """Whether the store has to be made anew before it can be written."""
        with self._changed:
            return self._damaged

    @property
    def refused(self) -> bool:
        """Whether the store wants another login, or a permission: :attr:`warning` says what to set."""
        with self._changed:
            return bool(self._outage) and self._refused

    @property
    def behind(self) -> bool:
        """Whether runs end faster than a working store takes them in. During an outage the sweep goes on, and so too
        where recording has stopped."""
        with self._changed:
            return len(self._calls) > MOST_WAITING and not self._outage and self._error is None

    @property
    def warning(self) -> str:
        """What a person should know about the record now; empty when all is well."""
        with self._changed:
            if self._error is not None:
                return (
                    f"recording in {self._tracker.describe()} stopped: {type(self._error).__name__}: {self._error}; "
                    f"the sweep goes on, {len(self._calls)} records are left to its journal"
                )
            if self._outage:
                said = self._outage if self._refused else f"is out ({self._outage})"
                waiting = f"{len(self._calls)} records wait"
                return f"the MLflow store {self._tracker.describe()} {said}; the sweep goes on, {waiting}"
            return ""

    def close(self, timeout_s: float) -> int:
        """Wait at most ``timeout_s`` for the queue to empty, then stop. Returns the number of records left unwritten.

        Raises what stopped the recording, where that was no outage.
        """
        with self._changed:
            self._stop_at = time.monotonic() + timeout_s
            self._changed.notify_all()
        self._thread.join(timeout_s)
        with self._changed:
            if self._error is not None:
                raise self._error
            return len(self._calls)

    def _put(self, call: Call) -> None:
        with self._changed:
            if self._stop_at is not None:
                raise RuntimeError("the recorder is closed")
            self._calls.append(call)
            self._changed.notify_all()

    def _work(self) -> None:
        wait_s = self._first_wait_s
        while (call := self._next()) is not None:
            try:
                call()
            except DamagedStoreError as error:
                with self._changed:
                    self._outage, self._damaged = str(error), True
                return  # No repetition mends it.
            except RefusedError as error:
                self._pause(str(error), self._refused_wait_s, refused=True)
                if self._stop_at is not None:
                    return
            except OutageError as error:
                self._pause(str(error), wait_s)
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
            except Exception as error:  # noqa: BLE001 - not swallowed: close() raises it in the sweep's thread
                with self._changed:
                    self._error = error
                return
            else:
                wait_s = self._first_wait_s
                with self._changed:
                    self._outage = ""
                    self._calls.popleft()

    def _next(self) -> Call | None:
        """The oldest record, left in the queue until it is written; None when there is no more to do."""
        with self._changed:
            self._changed.wait_for(lambda: self._calls or self._stop_at is not None)
            return self._calls[0] if self._calls and self._time_left_s() > 0 else None

    def _pause(self, why: str, wait_s: float, *, refused: bool = False) -> None:
        """Wait before the next attempt; no longer than the first pause once the recorder closes."""
        until = time.monotonic() + wait_s
        with self._changed:
            self._outage, self._refused = why, refused
            self._changed.wait_for(lambda: self._stop_at is not None, wait_s)
            rest_s = min(until - time.monotonic(), self._first_wait_s, self._time_left_s())
            self._changed.wait(max(rest_s, 0.0))

    def _time_left_s(self) -> float:
        return float("inf") if self._stop_at is None else self._stop_at - time.monotonic()
