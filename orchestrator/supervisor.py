"""Parent of the process that drives a sweep. It restarts a driver that was killed or lost its Ray, and the new driver
resumes the sweep from the journal.

Through a pipe the driver sends its parent the sweep's id and, before a normal exit, a message that it has ended. If the
parent dies, the driver dies too. Signals from a terminal or batch system stop a sweep, and Ctrl-Z suspends it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

import psutil

RESTARTS = 3
"""Maximum number of times that a sweep is resumed automatically."""
LOST_RAY = 75
"""Exit code of a driver whose Ray died (EX_TEMPFAIL in sysexits.h)."""
INTERRUPTED = 130
"""Exit code after an interruption: 128 + SIGINT, as in shells."""
VARIABLE = "ORCHESTRATOR_PARENT"
"""Environment variable of a driver with its parent's process id and the descriptor of the pipe."""
RESUMED = "ORCHESTRATOR_RESUMED"
"""Environment variable of a driver with the sweep to resume ("" for all of a space), which overrides the arguments."""
LOOK_EVERY_S = 0.2
"""Seconds between checks of the parent and of Ray."""
TERMINALS = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
"""Which of stdout and stderr are terminals. This cannot be found after the terminal is lost."""


def stop_signals() -> list[signal.Signals]:
    """Return the signals that stop a sweep: Ctrl-C, a batch system's notice, and a lost terminal without ``nohup``."""
    lost = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *lost]


def leave_terminal() -> None:
    """Discard further output to the terminal, because it is lost and writing would raise an error."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in TERMINALS:
        os.dup2(null, descriptor)
    os.close(null)


def _show_cursor() -> None:
    """Show the cursor, which a live view hides, if stderr is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h")
        sys.stderr.flush()


@contextmanager
def _suspended(driver: subprocess.Popen[bytes] | None) -> Iterator[None]:
    """Suspend a driver and its descendants, whose process groups Ctrl-Z does not reach, during the block."""
    processes: list[psutil.Process] = []
    if driver is not None:
        with suppress(psutil.NoSuchProcess):
            processes.append(psutil.Process(driver.pid))
            processes[0].suspend()
            for _ in range(2):  # The second time finds processes that were just starting.
                processes += [child for child in processes[0].children(recursive=True) if child not in processes]
                for process in processes:
                    _signal(process, signal.SIGSTOP)
    _show_cursor()
    try:
        yield
    finally:
        for process in reversed(processes):
            _signal(process, signal.SIGCONT)


def _signal(process: psutil.Process, number: int) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def supervise(arguments: Sequence[str], report: Callable[[str], object]) -> int:
    """Run the program with these arguments in a separate process, and return its exit code. Called once.

    If the driver dies, ``report`` gets a sentence with the cause. With this machine's Ray the sweep is then resumed, up
    to :data:`RESTARTS` times; on a cluster (``--address``) the sentence explains how to resume it.
    """
    sweep: str | None = None
    interrupted = False
    driver: subprocess.Popen[bytes] | None = None

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        if number == signal.SIGHUP:
            leave_terminal()
        if driver is not None:
            driver.send_signal(signal.SIGHUP if number == signal.SIGHUP else signal.SIGINT)

    def pause(number: int, frame: FrameType | None) -> None:
        with _suspended(driver):
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)  # Returns when the shell continues this process (`fg`, `bg`).
            signal.signal(signal.SIGTSTP, pause)

    for stop_signal in stop_signals():
        signal.signal(stop_signal, interrupt)
    if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
        signal.signal(signal.SIGTSTP, pause)
    for start in range(RESTARTS + 1):
        driver, pipe = _start(arguments, sweep)
        if interrupted:  # Interrupted before the driver was started.
            driver.send_signal(signal.SIGINT)
        with os.fdopen(pipe, encoding="utf-8") as lines:
            messages = {word: rest for word, _, rest in (line.rstrip("\n").partition(" ") for line in lines)}
        code = driver.wait()
        driver = None
        no_new_ray = sweep is not None and code == 1 and "sweep" not in messages
        if "ended" in messages and (interrupted or not no_new_ray):
            return code
        sweep = messages.get("sweep", sweep)
        remedy = f"finished runs are kept. Continue with the same command and --resume {sweep or ''}".rstrip()
        _show_cursor()
        if interrupted:
            if sweep is not None:
                report(f"stopped immediately, as requested; {remedy}")
            return INTERRUPTED
        if sweep is None:
            report(f"{_cause(code)} before a sweep began: run the command again")
            return 1
        if start == RESTARTS or any(word.partition("=")[0] == "--address" for word in arguments):
            report(f"{_cause(code)}; {remedy}")
            return 1
        report(f"{_cause(code)}; finished runs are kept. Resuming with a new Ray ({start + 1} of {RESTARTS})")
    raise AssertionError("the last start returns")


def _cause(code: int) -> str:
    if code == LOST_RAY:
        return "Ray died (its raylet or its GCS)"
    if code < 0:
        return f"the driver was killed ({signal.Signals(-code).name})"
    return f"the driver exited with code {code}, or could not start because Ray stopped responding"


def _start(arguments: Sequence[str], resumed: str | None) -> tuple[subprocess.Popen[bytes], int]:
    """Start a driver, which resumes the sweep ``resumed`` if given. Return the process and its message pipe."""
    ours, theirs = os.pipe()
    own = len(sys.orig_argv) - len(sys.argv) + 1
    # A script that sets ``sys.argv`` and calls ``main()`` has no command line to repeat.
    program = sys.orig_argv[1:own] if sys.orig_argv[own:] == sys.argv[1:] and own > 1 else ["-m", "orchestrator"]
    # In its own process group, so that Ctrl-C at the terminal reaches it once, through this process.
    driver = subprocess.Popen(
        [sys.executable, *program, *arguments],
        env=os.environ | {VARIABLE: f"{os.getpid()} {theirs}"} | ({} if resumed is None else {RESUMED: resumed}),
        pass_fds=[theirs],
        process_group=0,
    )
    os.close(theirs)
    return driver, ours


_pipe: int | None = None
_resumed: str | None = None
_ray: list[psutil.Process] = []
"""Ray processes that this driver depends on."""


def begin() -> None:
    """Make this process a driver that dies with its parent, if it was started as such. Called first of all."""
    global _pipe, _resumed
    # Removed, so that child processes do not become drivers.
    numbers, _resumed = os.environ.pop(VARIABLE, "").split(), os.environ.pop(RESUMED, None)
    if numbers:
        parent, _pipe = map(int, numbers)
        os.set_inheritable(_pipe, False)
        # A driver is never in the terminal's foreground group: after `stty tostop`, printing would stop it.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        threading.Thread(target=_watch_parent, args=(parent,), name="parent", daemon=True).start()


def has_parent() -> bool:
    """Return True if this process drives a sweep for a parent that restarts it."""
    return _pipe is not None


def resumed() -> str | None:
    """Return the id of the sweep to resume after the previous driver died, or "" to resume every variant of a space."""
    return _resumed


def age_s() -> float:
    """Return the seconds since this driver's parent was started, or 0 without a parent."""
    return time.time() - float(psutil.Process(os.getppid()).create_time()) if has_parent() else 0.0


def tell(word: str, rest: str = "") -> None:
    """Send ``sweep ID`` (the current sweep; no id for all of a space) or ``ended`` to the parent, if there is one."""
    if _pipe is not None:
        with suppress(BrokenPipeError):
            os.write(_pipe, f"{word} {rest}\n".encode())


def watch_ray(parts: Sequence[psutil.Process]) -> None:
    """Watch these processes instead of the previous ones, if there is a parent."""
    _ray[:] = parts if has_parent() else []


def check_ray() -> None:
    """Exit at once, to be restarted, if a process of this driver's Ray died. Ray itself would wait for minutes."""
    if not all(map(_is_alive, _ray)):
        os._exit(LOST_RAY)


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        check_ray()
        time.sleep(LOOK_EVERY_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running()) and bool(process.status() != psutil.STATUS_ZOMBIE)
    return False
