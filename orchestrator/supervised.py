"""What a program that is watched over tells its supervisor (:mod:`orchestrator.drive.supervisor`): JSON lines. What it
hears from there: the number of a signal, a byte, whenever somebody has asked the supervisor to stop."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from contextlib import suppress

LINE = "ORCHESTRATOR_SUPERVISOR"
"""Names the open file by which to tell, in the environment of a program that is watched over."""


class _Supervisor:
    """The supervisor of this process, if it has one. ``asked`` is how often it has handed on a signal."""

    def __init__(self) -> None:
        self._line: socket.socket | None = None
        self.asked = 0

    @property
    def there(self) -> bool:
        return self._line is not None

    def begin(self) -> None:
        number = os.environ.pop(LINE, None)  # No process that this one starts is watched over.
        if number is None:
            return
        self._line = socket.socket(fileno=int(number))
        self._line.set_inheritable(False)
        threading.Thread(target=self._follow, args=(self._line,), name="supervisor", daemon=True).start()

    def tell(self, said: dict[str, object]) -> None:
        if self._line is not None:
            self._line.sendall(json.dumps(said).encode() + b"\n")

    def _follow(self, line: socket.socket) -> None:
        with suppress(ConnectionResetError):  # It was killed before it had read all that it was told.
            while number := line.recv(1):
                self.asked += 1
                os.kill(os.getpid(), number[0])
        os.kill(os.getpid(), signal.SIGKILL)


_supervisor = _Supervisor()


def begin() -> None:
    """Called once, first of all. From then on this process ends when its supervisor does, where it has one, and gets
    the signals that ask the supervisor to stop."""
    _supervisor.begin()


def is_supervised() -> bool:
    """Whether somebody watches over this process."""
    return _supervisor.there


def asked() -> int:
    """How often the supervisor has handed on that somebody wants this process to stop: each time just before the signal
    comes. One that is sent to all processes comes twice, and only once from there."""
    return _supervisor.asked


def tell(**said: object) -> None:
    """Tell the supervisor, if there is one: ``home`` and ``sweep`` (what is being run), ``several`` (more than one
    sweep is), ``died`` (a part without which there is nothing to do but to start again), ``ended`` (the exit code of a
    program that ends as it should)."""
    _supervisor.tell(said)
