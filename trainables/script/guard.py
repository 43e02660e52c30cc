"""Sits between a worker and a script. It starts the script in a new session and copies its output to files. When the
worker asks, or when the worker is killed, it kills the script and all its descendants.

It runs as a program, ``python -I -S guard.py ORDERS``, and uses only the standard library. It consists of two
processes. Ray kills the children of a worker that died. The first process therefore only waits for the second, which is
not a child of the worker. If the second process is killed, the first one ends the script.

The second process adopts processes whose parent has ended. It therefore also finds a daemon that has left the script's
session.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import re
import select
import signal
import sys
import time
from contextlib import suppress
from typing import TypedDict

PR_SET_PDEATHSIG = 1
"""Option of ``prctl``: the signal that a process gets when its parent ends."""
PR_SET_CHILD_SUBREAPER = 36
"""Option of ``prctl``: adopt descendants whose parent has ended."""
POLL_S = 0.5
"""Seconds between polls of the worker and of the memory."""
LEFT_S = 5.0
"""Seconds that other processes have to end after the script itself has ended."""
KILLED_S = 10.0
"""Seconds to wait for killed processes, which may hang in the kernel."""
SEGMENT_BYTES = 1 << 20
"""Size of a file of output."""
MOST_SEGMENTS = 16
"""Maximum number of files of output that wait to be read. At this number, the script waits."""
LONGEST_LINE = 1 << 16
"""Bytes of a line after which it is cut."""
FIRST = "first"
"""Suffix of the first file of output of a process."""
NEXT = "log"
"""Suffix of the other files of output."""
SEGMENT = re.compile(r"(\d{6,12})\.(first|log)")
"""Pattern of the names of files of output."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
"""Bytes of a page of memory."""


def segments(directory: str) -> list[tuple[int, str]]:
    """Return number and name of each file of output in a directory, in order."""
    matches = filter(None, map(SEGMENT.fullmatch, os.listdir(directory)))
    return sorted((int(match[1]), match[0]) for match in matches)


def started_at(process: int) -> str:
    """Return when a process started, in the kernel's ticks, or an empty string if it has ended.

    Together with the pid, this identifies a process even if the pid is reused.
    """
    values = _stat(process)
    return "" if not values or values[0] == "Z" else values[19]


def _stat(process: int) -> list[str]:
    """Return the values of ``/proc/PROCESS/stat`` from the state on, or an empty list if the process has ended."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def descendants(process: int) -> list[int]:
    """Return the processes below a process that have not ended."""
    children: dict[int, list[int]] = {}
    living = set()
    for name in os.listdir("/proc"):
        if name.isdigit() and (values := _stat(int(name))):
            children.setdefault(int(values[1]), []).append(int(name))
            if values[0] not in "ZX":
                living.add(int(name))
    below = []
    todo = [process]
    while todo:
        inner = children.get(todo.pop(), [])
        below += inner
        todo += inner
    return [descendant for descendant in below if descendant in living]


def memory_of(processes: list[int]) -> int:
    """Return the memory of processes in bytes. Shared pages count several times."""
    return sum(int(values[21]) * PAGE_BYTES for values in map(_stat, processes) if values)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


class Output:
    """Writes whole lines to files of bounded size. Their numbers continue those of the files in the directory."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._number = max([number for number, _ in segments(directory)], default=0)
        self._kind = FIRST
        self._file = -1
        self._size = SEGMENT_BYTES
        self._begin()

    def _begin(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._number += 1
        path = os.path.join(self._directory, f"{self._number:06}.{self._kind}")
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._kind = NEXT
        self._size = 0

    def write(self, lines: bytes) -> None:
        """Write whole lines."""
        if self._size >= SEGMENT_BYTES:
            self._begin()
        self._size += len(lines)
        while lines:
            lines = lines[os.write(self._file, lines) :]

    def is_full(self) -> bool:
        """Return True if so many files wait to be read that the script must wait."""
        return len(segments(self._directory)) >= MOST_SEGMENTS


class Stream:
    """One of a script's two outputs. Each keeps its unfinished line, so lines of the two are never mixed."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._rest = b""

    def read(self, output: Output) -> bool:
        """Copy the data that can be read now. Return False at the end of the output."""
        data = os.read(self.descriptor, LONGEST_LINE)
        text = (self._rest + data).replace(b"\r", b"\n")  # A progress bar returns to the start of its line.
        end = text.rfind(b"\n") + 1
        if not end and (len(text) >= LONGEST_LINE or (not data and text)):
            text += b"\n"
            end = len(text)
        self._rest = text[end:]
        if end:
            output.write(text[:end])
        if not data and self._rest:
            output.write(self._rest + b"\n")
        return bool(data)


class GuardOrders(TypedDict):
    """Orders for the guard from :class:`trainables.script.process.ScriptProcess`, sent as JSON.

    Attributes:
        command: The script's program and its arguments.
        directory: Working directory of the script.
        logs: Directory for files of output.
        grace_s: Seconds between SIGTERM and SIGKILL.
        memory: Bytes of memory at which the script is ended, or 0 for no limit.
        control: Descriptor of the pipe that the worker closes to end the script.
        status: Descriptor of the pipe for the guard's answers.
        worker: Pid of the worker.
        started: Start of the worker (:func:`started_at`).
    """

    command: list[str]
    directory: str
    logs: str
    grace_s: float
    memory: int
    control: int
    status: int
    worker: int
    started: str


class Guard:
    """Starts the script and watches it."""

    def __init__(self, orders: GuardOrders, to_first: int) -> None:
        self._command = orders["command"]
        self._directory = orders["directory"]
        self._logs = orders["logs"]
        self._grace_s = orders["grace_s"]
        self._memory = orders["memory"]
        self._control = orders["control"]
        self._status = orders["status"]
        self._worker = orders["worker"]
        self._started = orders["started"]
        self._to_first = to_first
        self._ends = False
        """True once the worker has asked to end the script, or has ended."""
        self._code: int | None = None
        self._script = 0
        self._streams: list[Stream] = []
        self._output: Output | None = None

    def run(self) -> dict[str, object]:
        """Run the script. Return how it ended, as arguments of :class:`trainables.script.process.ScriptExit`."""
        if not self._lock():
            return {"stopped": True}
        self._output = Output(self._logs)
        if error := self._start():
            return {"error": error}
        polled_at = 0.0
        exceeded = False
        while self._code is None and not self._ends:
            self._turn(POLL_S)
            if time.monotonic() - polled_at >= POLL_S:
                polled_at = time.monotonic()
                self._check_worker()
                exceeded = bool(self._memory) and memory_of(descendants(os.getpid())) > self._memory
                self._ends = self._ends or exceeded
        stopped = self._code is None and not exceeded
        left = self._end(self._grace_s if stopped else 0.0 if exceeded else LEFT_S)
        return {"code": self._code, "stopped": stopped, "memory": exceeded, "left": left}

    def _lock(self) -> bool:
        """Wait until the processes of an earlier script in this directory have ended. Return False if the worker stops
        waiting first."""
        # The guard of the earlier script holds the lock until then.
        lock = os.open(os.path.join(self._logs, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        while not self._ends:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:  # The file system does not support locks.
                return True
            self._ends = bool(select.select([self._control], [], [], 0)[0])
            self._check_worker()
        return False

    def _check_worker(self) -> None:
        self._ends = self._ends or started_at(self._worker) != self._started

    def _start(self) -> str:
        """Start the script. Return why it cannot be started, or an empty string."""
        guard = os.getpid()
        # The end of a child writes to this pipe, so select wakes up.
        wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes[1], warn_on_full_buffer=False)
        self._wakes = wakes[0]
        out = os.pipe()
        err = os.pipe()
        # Closed by a successful exec, so the guard reads either an error or the end.
        failed = os.pipe2(os.O_CLOEXEC)
        self._script = os.fork()
        if not self._script:
            try:
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                os.setsid()
                _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != guard:  # The guard ended before the signal was set.
                    os._exit(1)
                os.dup2(out[1], 1)
                os.dup2(err[1], 2)
                os.chdir(self._directory)
                os.execvp(self._command[0], self._command)
            except OSError as error:
                os.write(failed[1], f"{error.strerror}".encode())
            finally:
                os._exit(127)
        for end in (out[1], err[1], failed[1]):
            os.close(end)
        os.write(self._to_first, str(self._script).encode())
        os.write(self._status, json.dumps({"process": self._script}).encode() + b"\n")
        self._streams = [Stream(out[0]), Stream(err[0])]
        why = os.read(failed[0], 1000).decode()
        os.close(failed[0])
        return why

    def _turn(self, within_s: float, *, is_over: bool = False) -> None:
        """Wait for output, the end of a process, or the worker's request, and handle it.

        When the script ``is_over``, write its last output even if earlier output was not read, because the worker may
        have ended.
        """
        assert self._output is not None, "the script was started"
        is_full = not is_over and self._output.is_full()
        streams = [] if is_full else self._streams
        watched = [self._wakes, *(stream.descriptor for stream in streams), *([] if self._ends else [self._control])]
        ready, _, _ = select.select(watched, [], [], 0.02 if is_full else within_s)
        for stream in [stream for stream in streams if stream.descriptor in ready]:
            if not stream.read(self._output):
                os.close(stream.descriptor)
                self._streams.remove(stream)
        if self._wakes in ready:
            os.read(self._wakes, 1000)
        self._reap()
        self._ends = self._ends or self._control in ready

    def _reap(self) -> None:
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not process:
                return
            if process == self._script:
                self._code = os.waitstatus_to_exitcode(status)

    def _end(self, grace_s: float) -> int:
        """End all processes that the script has started. Return how many were left when the script ended."""
        self._ends = True  # Ignore the worker from now on.
        left = -1
        for number, within_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILLED_S)):
            limit = time.monotonic() + within_s
            signalled: set[int] = set()
            while living := descendants(os.getpid()):
                left = len(living) if left < 0 else left
                # New processes may appear at any time, so look again after every signal.
                for process in living:
                    if process not in signalled:
                        _kill(process, number)
                signalled |= set(living)
                if time.monotonic() >= limit:
                    break
                self._turn(0.1)
        while self._streams and select.select([stream.descriptor for stream in self._streams], [], [], 0)[0]:
            self._turn(0, is_over=True)
        self._reap()
        return max(left, 0)


def _kill(process: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def _moved(descriptor: int) -> int:
    """Return a lower number for a descriptor. Select only accepts low numbers, and the script does not inherit it."""
    low = os.dup(descriptor)
    os.close(descriptor)
    return low


def main() -> None:
    """Run as the first of the two processes, then as the second."""
    orders: GuardOrders = json.loads(sys.argv[1])
    orders["control"] = _moved(orders["control"])
    orders["status"] = _moved(orders["status"])
    from_second, to_first = os.pipe()
    second = os.fork()
    if second:
        for descriptor in (orders["control"], orders["status"], to_first):
            os.close(descriptor)
        _, status = os.waitpid(second, 0)
        script = os.read(from_second, 100)
        if status and script:  # The second process was killed.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(int(script), signal.SIGKILL)
        sys.exit(bool(status))
    os.close(from_second)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        ended = Guard(orders, to_first).run()
    except OSError as error:  # For example, the disk is full.
        ended = {"errno": error.errno, "error": f"{error.strerror}: {error.filename or orders['logs']}"}
        for process in descendants(os.getpid()):
            _kill(process, signal.SIGKILL)
    with suppress(BrokenPipeError):  # The worker has ended.
        os.write(orders["status"], json.dumps(ended).encode() + b"\n")


if __name__ == "__main__":
    main()
