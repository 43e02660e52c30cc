"""What the person at the terminal sees while a sweep runs: a live table, or plain lines where there is no terminal."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

from orchestrator.terminal.bars import speaks_ascii
from orchestrator.terminal.snapshot import Snapshot
from orchestrator.terminal.view import render
from orchestrator.terminal.words import status_line

REFRESHES_PER_S = 2.0
STATUS_EVERY_S = 30.0
"""The least time between two status lines where there is no terminal."""


class LiveView:
    """Shows a sweep under way; a context manager.

    ``snapshot`` is called from a thread of the view's own, a few times a second on a terminal and every
    :data:`STATUS_EVERY_S` elsewhere: it must be quick and bear being called while the sweep goes on. All methods may
    be called from any thread.
    """

    def __init__(
        self, console: Console, snapshot: Callable[[], Snapshot], *, status_every_s: float = STATUS_EVERY_S
    ) -> None:
        self._console = console
        self._snapshot = snapshot
        self._status_every_s = status_every_s
        self._lock = threading.Lock()
        self._last = ""
        self._warned: set[str] = set()
        self._stop = threading.Event()
        self._live: Live | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(
                console=self._console, get_renderable=self._render, refresh_per_second=REFRESHES_PER_S, transient=False
            )
            self._live.start(refresh=True)
        else:
            self._thread = threading.Thread(target=self._write_status, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._live is not None:
            self._live.stop()
        if self._thread is not None:
            self._thread.join()
            self._write_warnings(self._snapshot())

    def run_ended(self, mix: str, size: int, seed: int, outcome: str) -> None:
        """Say how a run ended: a line of its own where there is no terminal, else the view's last line."""
        line = f"{mix} {size} seed {seed}: {outcome}"
        if self._live is None:
            self._print(line)
        with self._lock:
            self._last = line

    def _render(self) -> RenderableType:
        with self._lock:
            last = self._last
        return render(self._snapshot(), last, self._console.width, ascii_only=speaks_ascii(self._console))

    def _write_status(self) -> None:
        while not self._stop.wait(self._status_every_s):
            snapshot = self._snapshot()
            self._write_warnings(snapshot)
            self._print(status_line(snapshot))

    def _write_warnings(self, snapshot: Snapshot) -> None:
        """Each warning once; one whose numbers change is another one, so numbers do not count."""
        for warning in snapshot.warnings:
            said = "".join(letter for letter in warning if not letter.isdigit())
            if said not in self._warned:
                self._warned.add(said)
                self._print(f"warning: {warning}")

    def _print(self, line: str) -> None:
        # One line whatever the console's width: these are read by programs and in log files.
        self._console.print(f"{datetime.now():%H:%M:%S} {line}", markup=False, highlight=False, soft_wrap=True)
