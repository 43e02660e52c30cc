"""Writes a sweep's records in a separate thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from orchestrator.record.tracker import StoreError, Tracker

RETRY_S = 30.0
"""Seconds to wait after a failed write."""


class Recorder:
    """Writes records in order in a separate thread, so that the sweep never waits for the store.

    If a record cannot be written, the recorder tries again every :data:`RETRY_S` seconds. Later records wait, and
    :attr:`warning` has the reason. All records are also in the sweep's journal: if some are not written when the
    recorder closes, a resumed sweep or `sync` writes them. The thread calls ``open_tracker`` for the first record.
    """

    def __init__(self, open_tracker: Callable[[], Tracker], *, retry_s: float = RETRY_S) -> None:
        self._open = open_tracker
        self._retry_s = retry_s
        self._tracker: Tracker | None = None
        self._calls: deque[Callable[[Tracker], None]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._failure = ""
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self._thread.start()

    def put(self, call: Callable[[Tracker], None]) -> None:
        """Call a function with the tracker, after all earlier functions. Repeat the call until it succeeds."""
        with self._changed:
            if self._closed:
                raise RuntimeError("the recorder is closed")
            self._calls.append(call)
            self._changed.notify_all()

    @property
    def waiting(self) -> int:
        """Number of records that are not in the store yet, including the one being written."""
        with self._changed:
            return len(self._calls)

    @property
    def warning(self) -> str:
        """Why records are waiting. Empty if the store works."""
        with self._changed:
            return f"{self._failure}; records waiting: {len(self._calls)}" if self._failure else ""

    def close(self, timeout_s: float) -> int:
        """Write waiting records for at most ``timeout_s`` seconds, and stop at the first failure. Return the number of
        records that were not written."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        return self.waiting

    def _work(self) -> None:
        while (call := self._next()) is not None:
            try:
                self._tracker = self._tracker or self._open()
                call(self._tracker)
            except Exception as error:  # noqa: BLE001 - not lost: `warning` reports it, and `sync` raises it
                known = isinstance(error, StoreError)
                with self._changed:
                    self._failure = str(error) if known else f"recording failed: {type(error).__name__}: {error}"
                    if self._closed:
                        return
                    self._changed.wait_for(lambda: self._closed, self._retry_s)
            else:
                with self._changed:
                    self._failure = ""
                    self._calls.popleft()

    def _next(self) -> Callable[[Tracker], None] | None:
        """Return the oldest record, or None after the last. It stays in the queue until it is written."""
        with self._changed:
            self._changed.wait_for(lambda: self._calls or self._closed)
            return self._calls[0] if self._calls else None
