"""Signals from a terminal or batch system that stop a sweep, and Ctrl-Z, which suspends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

SHOW_CURSOR = "\x1b[?25h"
"""Escape sequence that shows the cursor, which a live view hides."""


def stop_signals() -> list[signal.Signals]:
    """Return the signals that stop a sweep: Ctrl-C, a batch system's notice, and a lost terminal without ``nohup``."""
    lost = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *lost]


def terminal_outputs() -> list[int]:
    """Return which of stdout and stderr (1, 2) are terminals. This cannot be found after the terminal is lost."""
    return [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]


def leave_terminal(outputs: Sequence[int]) -> None:
    """Discard these outputs because their terminal is lost and writing would raise an error."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in outputs:
        os.dup2(null, descriptor)
    os.close(null)


def show_cursor() -> None:
    """Show the terminal's cursor if stderr is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(SHOW_CURSOR)
        sys.stderr.flush()


@contextmanager
def suspended(driver: subprocess.Popen[bytes] | None) -> Iterator[None]:
    """Suspend a driver and its descendants, whose process groups Ctrl-Z does not reach, during the block."""
    import psutil  # Few supervisors need it.

    processes: list[psutil.Process] = []
    if driver is not None:
        with suppress(psutil.NoSuchProcess):
            processes.append(psutil.Process(driver.pid))
            processes[0].suspend()
            for _ in range(2):  # The second time finds processes that were just starting.
                processes += [child for child in processes[0].children(recursive=True) if child not in processes]
                for process in processes:
                    _signal(process, signal.SIGSTOP)
    show_cursor()
    try:
        yield
    finally:
        for process in reversed(processes):
            _signal(process, signal.SIGCONT)


def _signal(process: psutil.Process, number: int) -> None:
    import psutil

    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)
