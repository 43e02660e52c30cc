"""Signals of a terminal and of a batch system: those that stop a sweep, and Ctrl-Z, which lets it stand still."""

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
"""A live view that was stopped or killed has left the cursor hidden."""


def stop_signals() -> list[signal.Signals]:
    """Return the signals that stop a sweep: Ctrl-C, a batch system's notice, and the loss of the terminal, unless
    ``nohup`` has that ignored."""
    lost = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *lost]


def terminal_outputs() -> list[int]:
    """Return which of stdout and stderr (1, 2) are terminals. Once a terminal is gone, nothing can tell."""
    return [each for each in (1, 2) if os.isatty(each)]


def leave_terminal(outputs: Sequence[int]) -> None:
    """Have these outputs go nowhere: their terminal is gone, and to write to it is an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for each in outputs:
        os.dup2(nowhere, each)
    os.close(nowhere)


def show_cursor() -> None:
    """Show the terminal's cursor, if stderr is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(SHOW_CURSOR)
        sys.stderr.flush()


@contextmanager
def standing_still(driver: subprocess.Popen[bytes] | None) -> Iterator[None]:
    """A block during which a driver and all processes below it are stopped. They are in process groups of their own,
    which Ctrl-Z at the terminal does not reach."""
    import psutil  # Not above: few supervisors need it.

    stopped: list[psutil.Process] = []
    if driver is not None:
        with suppress(psutil.NoSuchProcess):
            stopped.append(psutil.Process(driver.pid))
            stopped[0].suspend()
            for _ in range(2):  # One that was just being started is found the second time.
                stopped += [each for each in stopped[0].children(recursive=True) if each not in stopped]
                for each in stopped:
                    _signal(each, signal.SIGSTOP)
    show_cursor()
    try:
        yield
    finally:
        for each in reversed(stopped):
            _signal(each, signal.SIGCONT)


def _signal(process: psutil.Process, number: int) -> None:
    import psutil

    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)
