"""NVIDIA's multi-process service (MPS), for as long as sweeps of this user need it.

Without it the processes of a GPU take turns; with it they compute at the same time. Its control daemon and the
processes that are to use it find one another by a directory, which an environment variable names: workers inherit it
from whoever starts them. The daemon outlives a sweep that is killed; the next one finds it, and the last one out ends
it. Who is in is said by a lock on a file, which goes with its process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.space.hardware import MPS_CONTROL, MPS_PIPE_VARIABLE, has_mps

try:
    import fcntl
except ImportError:  # Windows has no MPS either.
    fcntl = None  # type: ignore[assignment]

COMMAND = "nvidia-cuda-mps-control"
LOG_VARIABLE = "CUDA_MPS_LOG_DIRECTORY"
COMES_WITHIN_S, ANSWERS_WITHIN_S = 10.0, 30.0


@contextmanager
def multi_process_service(say: Callable[[str], object]) -> Iterator[None]:
    """A block in which MPS runs on this machine, and what is started uses it. One that runs already is used and left as
    it is; where none can be started, ``say`` hears why and processes take turns. No process of the block may have used
    a GPU before."""
    if has_mps():
        yield
        return
    command = shutil.which(COMMAND)
    if command is None or fcntl is None:
        say(f"resources.mps: {COMMAND} is not installed here, so stacks on one GPU take turns")
        yield
        return
    with _named(_directory()) as place, _Daemon(command, place).used(say):
        yield


class _Daemon:
    """The control daemon of one directory."""

    def __init__(self, command: str, place: Path) -> None:
        self._command, self._place = command, place

    @contextmanager
    def used(self, say: Callable[[str], object]) -> Iterator[None]:
        """A block in which the daemon runs, begun by the first who comes and ended by the last who goes."""
        with (self._place / "users").open("w") as users:
            with self._alone():
                why = "" if self._answers() else self._begin()
                if why:
                    say(f"resources.mps: MPS does not start, so stacks on one GPU take turns: {why}")
                fcntl.flock(users, fcntl.LOCK_SH)
            try:
                yield
            finally:
                with self._alone():
                    if self._last(users) and self._there:
                        self._ask("quit")

    @property
    def _there(self) -> bool:
        return (self._place / MPS_CONTROL).exists()

    def _begin(self) -> str:
        """Start the daemon; why that did not work, ``""`` where it did."""
        (self._place / MPS_CONTROL).unlink(
            missing_ok=True
        )  # Of one that was killed: it would be taken for one that runs.
        words = [self._command, "-d"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=ANSWERS_WITHIN_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        deadline = time.monotonic() + COMES_WITHIN_S
        while done.returncode == 0 and not self._there:
            if time.monotonic() > deadline:
                return f"it has not come within {COMES_WITHIN_S:g} s; its log is in {self._place}"
            time.sleep(0.05)
        said = (done.stderr or done.stdout).strip()
        return "" if done.returncode == 0 else said or f"{COMMAND} -d ends with exit code {done.returncode}"

    def _answers(self) -> bool:
        return self._there and self._ask("get_server_list")

    def _ask(self, command: str) -> bool:
        """Send a command to the daemon; whether it took it."""
        try:
            done = subprocess.run(
                [self._command],
                input=f"{command}\n",
                capture_output=True,
                text=True,
                timeout=ANSWERS_WITHIN_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A block in which nobody else begins or ends the daemon."""
        with (self._place / "turn").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield

    @staticmethod
    def _last(users: object) -> bool:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[arg-type]
        except OSError:
            return False
        return True


@contextmanager
def _named(place: Path) -> Iterator[Path]:
    """A block in which this process, and what it starts, looks for MPS in this directory."""
    place.mkdir(mode=0o700, exist_ok=True)
    before = {name: os.environ.get(name) for name in (MPS_PIPE_VARIABLE, LOG_VARIABLE)}
    os.environ.update(dict.fromkeys(before, str(place)))
    try:
        yield place
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _directory() -> Path:
    """This user's own: short, since sockets lie in it, whose names may have 108 characters."""
    return Path(tempfile.gettempdir()) / f"orchestrator-mps-{os.getuid()}"
