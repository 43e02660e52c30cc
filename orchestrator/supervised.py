"""What a program that is watched over tells its supervisor (:mod:`orchestrator.drive.supervisor`): JSON lines."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading

LINE = "ORCHESTRATOR_SUPERVISOR"
"""Names the open file by which to tell, in the environment of a program that is watched over."""


class _Supervisor:
    """The supervisor of this process, if it has one."""

    def __init__(self) -> None:
        self._line: socket.socket | None = None

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

    @staticmethod
    def _follow(line: socket.socket) -> None:
        line.recv(1)  # It never says anything: this is its end.
        os.kill(os.getpid(), signal.SIGKILL)


_supervisor = _Supervisor()


def begin() -> None:
    """Called once, first of all. From then on this process ends when its supervisor does, where it has one."""
    _supervisor.begin()


def is_supervised() -> bool:
    """Whether somebody watches over this process."""
    return _supervisor.there


def tell(**said: object) -> None:
    """Tell the supervisor, if there is one: ``home`` and ``sweep`` (what is being run), ``several`` (more than one
    sweep is), ``died`` (a part without which there is nothing to do but to start again), ``ended`` (the exit code of a
    program that ends as it should)."""
    _supervisor.tell(said)
