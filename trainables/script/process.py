"""The process of a script. A learner starts it, watches it through files and two pipes, and ends it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainables.contract.user_code import PYTHON_PATH, USER_PATH, user_path
from trainables.script import guard
from trainables.script.guard import FIRST, segments, started_at

GRACE_S = 30.0
"""Seconds between SIGTERM and SIGKILL, in which a script may write a checkpoint."""
GUARD_ENDS_S = guard.KILLED_S + 5.0
"""Seconds after :data:`GRACE_S` in which the guard must have killed the script and ended."""
KILLS = frozenset({-1, -2, -9, -15, 129, 130, 137, 143})
"""Exit codes of a program that was ended from outside (SIGHUP, SIGINT, SIGKILL, SIGTERM), also as shells report
them."""
HIDDEN = ("RAY_", "TUNE_", "_MLFLOW_")
"""Starts of names of variables that belong to the worker. With them, a script that uses Ray would join its cluster."""


@dataclass(frozen=True)
class ScriptExit:
    """How a script ended.

    Attributes:
        code: Exit code, negative for a signal. None if the script was not started, was stopped or ended with its guard.
        stopped: True if the worker stopped the script.
        memory: True if the script exceeded its memory.
        left: Number of processes that were left when the script ended.
        error: Why the script did not start, or why its output cannot be kept. Empty if it did.
        errno: Number of the error, if the machine caused it.
    """

    code: int | None = None
    stopped: bool = False
    memory: bool = False
    left: int = 0
    error: str = ""
    errno: int | None = None

    @property
    def was_killed(self) -> bool:
        """True if the script was killed, so it may be started again."""
        return (self.code is None or self.code in KILLS) and not (self.error or self.memory)


class ScriptProcess:
    """A running script.

    Its output is in numbered files in ``logs``, an existing directory that only this run uses. If an earlier process
    started a script there, that script is ended before this one begins.
    """

    def __init__(
        self,
        command: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        logs: Path,
        *,
        grace_s: float | None = None,
        memory_bytes: int = 0,
    ) -> None:
        control, self._control = os.pipe()
        self._status, status = os.pipe()
        os.set_blocking(self._status, False)
        self._read = b""
        self._ended: ScriptExit | None = None
        self._grace_s = grace_s = GRACE_S if grace_s is None else grace_s
        self.process: int | None = None
        """Pid of the script, which is also the number of its group and session. None before it is known."""
        orders: guard.GuardOrders = {
            "command": list(command),
            "directory": str(directory),
            "logs": str(logs),
            "grace_s": grace_s,
            "memory": memory_bytes,
            "control": control,
            "status": status,
            "worker": os.getpid(),
            "started": started_at(os.getpid()),
        }
        try:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, json.dumps(orders)],
                pass_fds=(control, status),
                env=own_environment(os.environ) | dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(control)
            os.close(status)

    def ended(self) -> ScriptExit | None:
        """Return how the script ended, or None while it runs."""
        if self._ended is None:
            is_over = self._guard.poll() is not None
            with suppress(BlockingIOError):
                while data := os.read(self._status, 1 << 16):
                    self._read += data
            *lines, self._read = self._read.split(b"\n")
            for line in lines:
                values = json.loads(line)
                if "process" in values:
                    self.process = values["process"]
                else:
                    self._ended = ScriptExit(**values)
            if is_over and self._ended is None:
                self._ended = ScriptExit()
        return self._ended

    def stop(self) -> None:
        """End the script and all processes that it started, and wait until they have ended."""
        if self._control >= 0:
            os.close(self._control)
            self._control = -1
            with suppress(subprocess.TimeoutExpired):  # The guard continues without us.
                self._guard.wait(self._grace_s + GUARD_ENDS_S)
            self.ended()
            os.close(self._status)
            if self._ended is None:
                self._ended = ScriptExit(stopped=True)


def own_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that a script gets from the worker."""
    hidden = (*HIDDEN, USER_PATH, PYTHON_PATH)
    environment = {name: value for name, value in variables.items() if not name.startswith(hidden)}
    # Not the worker's path: with it, a script would import the worker's packages instead of those of its environment.
    if path := user_path(variables):
        environment[PYTHON_PATH] = path
    # Unbuffered, so that metrics arrive when they are printed.
    return {"PYTHONUNBUFFERED": "1"} | environment


class LogReader:
    """Reads the lines in a directory of output, and deletes files that were read."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self.number = 0
        """Number of the file that is being read."""
        self._name = ""
        self._offset = 0
        self._rest = b""
        self._done: list[Path] = []

    @property
    def newest(self) -> int:
        """Number of the newest file, 0 if there are no files."""
        return max((number for number, _ in segments(str(self._logs))), default=0)

    def read(self) -> list[str | None]:
        """Return new lines, and None before the first line of each process.

        The caller must have used the lines of the previous call, because their file may be deleted now.
        """
        for path in self._done:
            path.unlink(missing_ok=True)
        self._done = []
        lines: list[str | None] = []
        for number, name in segments(str(self._logs)):
            if number > self.number:
                if self._name:
                    lines += self._new_lines(at_end=True)
                    self._done.append(self._logs / self._name)
                self.number = number
                self._name = name
                self._offset = 0
                lines += [None] if name.endswith(FIRST) else []
                if len(lines) > 1:
                    return lines  # The next call returns the rest.
        return lines + (self._new_lines(at_end=False) if self._name else [])

    def _new_lines(self, *, at_end: bool) -> list[str | None]:
        with (self._logs / self._name).open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if at_end and self._rest:
            lines = [*lines, self._rest]
            self._rest = b""
        return [line.decode(errors="replace") for line in lines]


class NoFileError(Exception):
    """Raised if a script's file is a pipe, a device or a directory."""


class FileReader:
    """Reads the lines that a script adds to a file.

    If the file has become shorter, start from its beginning. Text without line breaks is read in chunks and discarded.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._rest = b""

    def read(self) -> list[str | None]:
        """Return new lines, with None before them if the file has started again.

        Raises :class:`NoFileError` if it is not a regular file.
        """
        try:
            # Otherwise, opening a pipe would wait until the script also opens it.
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                raise NoFileError
            with open(descriptor, "rb") as file:
                is_shorter = os.fstat(file.fileno()).st_size < self._offset
                if is_shorter:
                    self._offset = 0
                    self._rest = b""
                file.seek(self._offset)
                data = file.read(guard.SEGMENT_BYTES)
        except FileNotFoundError:
            return []
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) >= guard.SEGMENT_BYTES:
            lines = [*lines, self._rest]
            self._rest = b""
        begun: list[str | None] = [None] if is_shorter else []
        return [*begun, *(line.decode(errors="replace") for line in lines)]

    def last(self) -> list[str | None]:
        """Return the last line if it has no line break, and forget it."""
        rest = self._rest
        self._rest = b""
        return [rest.decode(errors="replace")] if rest else []


class TruncatedText:
    """The first and the last part of a text. Lines between them are dropped, so that a run's output stays small."""

    def __init__(self, first: int = 1 << 16, last: int = 3 << 16) -> None:
        self._first = first
        self._last = last
        self._head: list[str] = []
        self._tail: list[str] = []
        self._sizes = [0, 0]
        self._dropped = 0

    def add(self, line: str) -> None:
        """Add a line at the end."""
        line = line[:2000]
        if self._sizes[0] < self._first and not self._tail:
            self._head.append(line)
            self._sizes[0] += len(line) + 1
            return
        self._tail.append(line)
        self._sizes[1] += len(line) + 1
        if self._sizes[1] > 2 * self._last:  # Rarely, because a list loses its first items slowly.
            while self._sizes[1] > self._last:
                half = len(self._tail) // 2 or 1
                self._dropped += half
                self._sizes[1] -= sum(len(dropped) + 1 for dropped in self._tail[:half])
                del self._tail[:half]

    def text(self) -> str:
        """Return the text, with a line about dropped lines."""
        gap = [f"... {self._dropped} lines are not kept ..."] if self._dropped else []
        return "".join(f"{line}\n" for line in (*self._head, *gap, *self._tail))

    def last_lines(self, count: int) -> list[str]:
        """Return up to ``count`` last lines that are not empty."""
        lines = [*self._head[-count:], *self._tail[-count:]]
        return [line for line in lines if line.strip()][-count:]
