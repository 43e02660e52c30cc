"""Notices that a part of Ray has died, long before Ray does: its own time-outs take minutes and end the process."""

from __future__ import annotations

import os

import psutil

from orchestrator import supervised
from orchestrator.alongside import Alongside

PARTS = {
    "raylet": "Ray's raylet (the daemon that starts workers on this machine) died",
    "gcs_server": "Ray's GCS (its head, which knows where everything is) died",
}
"""What to say of Ray's processes without which nothing goes on, by the beginnings of their names."""
EVERY_S = 0.1
EXIT_CODE = 75
"""EX_TEMPFAIL of sysexits.h: try again later."""


class Watch(Alongside):
    """While its block runs, looks whether the processes live that this one started Ray with. Where one has died, the
    supervisor is told and this process ends at once: the journal is on disk, and nothing else matters. It watches
    only where there is a supervisor to go on."""

    def __init__(self) -> None:
        super().__init__("watch")
        children = psutil.Process().children() if supervised.is_supervised() else []
        named = {child: _part(child) for child in children}
        self._watched = {child: name for child, name in named.items() if name}

    def look(self) -> None:
        """Look now. Does not return where a part has died."""
        for process, name in self._watched.items():
            if not _lives(process):
                supervised.tell(died=PARTS[name])
                os._exit(EXIT_CODE)

    def _work(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.look()


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _part(process: psutil.Process) -> str:
    """The key of :data:`PARTS` that a process is; ``""`` for any other."""
    try:
        name = process.name()
    except psutil.NoSuchProcess:
        return ""
    return name if name in PARTS else ""
