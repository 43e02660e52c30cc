"""The parent of the process that drives a sweep: it starts the driver again, to resume the sweep, when that was killed
or lost its Ray. The journal is safe whatever dies.

The driver tells its parent, by a pipe, which sweep it drives and that it ends by itself. It dies with its parent.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from orchestrator.signals import leave_terminal, show_cursor, standing_still, stop_signals, terminal_outputs

if TYPE_CHECKING:
    import psutil

STARTS = 3
"""Times that a sweep is resumed by itself."""
LOST_RAY = 75
"""Exit code of a driver whose Ray died: EX_TEMPFAIL of sysexits.h."""
INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""
VARIABLE = "ORCHESTRATOR_PARENT"
"""In a driver's environment: its parent's process id and the number of the pipe."""
RESUMED = "ORCHESTRATOR_RESUMED"
"""Likewise: the sweep that it resumes (empty for all of a space), whatever the arguments say."""
LOOK_EVERY_S = 0.2


def supervise(arguments: Sequence[str], say: Callable[[str], object]) -> int:
    """Run the program with these arguments in a process of its own; its exit code. Called once, before the exit.

    ``say`` is told what died. On the machine's own Ray the sweep is resumed, up to :data:`STARTS` times; on a cluster
    (``--address``) it is told how to resume it.
    """
    sweep: str | None = None
    asked = False
    driver: subprocess.Popen[bytes] | None = None

    terminals = terminal_outputs()

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        if number == signal.SIGHUP:
            leave_terminal(terminals)
        if driver is not None:
            driver.send_signal(signal.SIGHUP if number == signal.SIGHUP else signal.SIGINT)

    def pause(number: int, frame: FrameType | None) -> None:
        with standing_still(driver):
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)  # Returns when the shell continues this process (`fg`, `bg`).
            signal.signal(signal.SIGTSTP, pause)

    for each in stop_signals():
        signal.signal(each, ask)
    if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
        signal.signal(signal.SIGTSTP, pause)
    for start in range(STARTS + 1):
        driver, pipe = _start(arguments, sweep)
        if asked:  # Before there was a driver.
            driver.send_signal(signal.SIGINT)
        with os.fdopen(pipe, encoding="utf-8") as told:
            said = {word: rest for word, _, rest in (line.rstrip("\n").partition(" ") for line in told)}
        code = driver.wait()
        driver = None
        no_new_ray = sweep is not None and code == 1 and "sweep" not in said
        if "ended" in said and (asked or not no_new_ray):
            return code
        sweep = said.get("sweep", sweep)
        again = f"finished runs are kept. Continue with the same command and --resume {sweep or ''}".rstrip()
        show_cursor()
        if asked:
            if sweep is not None:
                say(f"stopped at once, as asked; {again}")
            return INTERRUPTED
        if sweep is None:
            say(f"{_cause(code)} before a sweep was begun: start it again")
            return 1
        if start == STARTS or any(word.partition("=")[0] == "--address" for word in arguments):
            say(f"{_cause(code)}; {again}")
            return 1
        say(f"{_cause(code)}; finished runs are kept. Resuming with a new Ray ({start + 1} of {STARTS})")
    raise AssertionError("the last start returns")


def _cause(code: int) -> str:
    if code == LOST_RAY:
        return "Ray died (its raylet or its GCS)"
    if code < 0:
        return f"the driver was killed ({signal.Signals(-code).name})"
    return f"the driver ended with exit code {code}, or did not start: Ray no longer answers"


def _start(arguments: Sequence[str], resumed: str | None) -> tuple[subprocess.Popen[bytes], int]:
    """Start this very program as a driver, of the sweep to be ``resumed`` if there is one; the process, and the pipe to
    read what it tells."""
    ours, theirs = os.pipe()
    own = len(sys.orig_argv) - len(sys.argv) + 1
    # A script that sets ``sys.argv`` and calls ``main()`` is no command line that could be repeated.
    program = sys.orig_argv[1:own] if sys.orig_argv[own:] == sys.argv[1:] and own > 1 else ["-m", "orchestrator"]
    # A group of its own: Ctrl-C at the terminal reaches it once, through this process.
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
"""The processes of Ray that this driver depends on."""


def begin() -> None:
    """Called once, first of all, in every process of the program. A driver dies with its parent from then on."""
    global _pipe, _resumed
    # No process that this one starts is a driver.
    given, _resumed = os.environ.pop(VARIABLE, "").split(), os.environ.pop(RESUMED, None)
    if given:
        parent, _pipe = map(int, given)
        os.set_inheritable(_pipe, False)
        # Its process group is never the terminal's own: after `stty tostop` its first line would stop it for good.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        threading.Thread(target=_look, args=(parent,), name="parent", daemon=True).start()


def has_parent() -> bool:
    """True if this process drives a sweep for a parent that starts it again."""
    return _pipe is not None


def resumed() -> str | None:
    """The sweep that this driver resumes, since the one before it died: its id, ``""`` for all of a space."""
    return _resumed


def age_s() -> float:
    """Seconds since this driver's parent was started, 0 without one."""
    if not has_parent():
        return 0.0
    import psutil  # Not above: most commands need none.

    return time.time() - float(psutil.Process(os.getppid()).create_time())


def tell(word: str, rest: str = "") -> None:
    """Tell the parent, if there is one: ``sweep ID`` (the one that is driven; no id for all of a space), ``ended``."""
    if _pipe is not None:
        with suppress(BrokenPipeError):
            os.write(_pipe, f"{word} {rest}\n".encode())


def watch_ray(parts: Sequence[psutil.Process]) -> None:
    """Watch these processes from now on, instead of those before, if there is a parent."""
    _ray[:] = parts if has_parent() else []


def check_ray() -> None:
    """End this process at once, to be started again, if a part of its Ray died: Ray itself waits for minutes."""
    if not all(map(_lives, _ray)):
        os._exit(LOST_RAY)


def _look(parent: int) -> None:
    while os.getppid() == parent:
        check_ray()
        time.sleep(LOOK_EVERY_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _lives(process: psutil.Process) -> bool:
    import psutil  # Not above: most commands need none.

    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running()) and bool(process.status() != psutil.STATUS_ZOMBIE)
    return False
