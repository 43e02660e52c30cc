"""Real faults to inject into a sweep. After each the sweep may need ``--resume``."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from orchestrator.home.run_files import OUTCOME
from tests.chaos.disturbed import Disturbed
from tests.chaos.ground import KeptRay
from tests.chaos.program import POLL_EVERY_S, journalled, wait_until_gone
from tests.scripted import fill

DISK_MIB = 48
"""Size of the disk that fills up. A home of these sweeps takes 6 MiB."""
NOTICE_S = 30.0
"""Seconds between the notice and the end of a preemption, as in clouds and at Slurm sites."""
STILL_S = 5.0
"""Seconds for which all processes are suspended."""
SEEN_WITHIN_S = 60.0
"""Longest wait for an effect that other processes must detect, in seconds."""


def ask_to_stop(sweep: Disturbed, rng: np.random.Generator) -> bool:
    sweep.program.process.send_signal(signal.SIGTERM)
    return sweep.program.end() != 0


def preempt(sweep: Disturbed, rng: np.random.Generator) -> bool:
    """Preempt the machine: ask every process to end, then kill the remaining processes."""
    existing = sweep.processes
    for item in existing:
        _send(item, signal.SIGTERM)
    _kill(*wait_until_gone(existing, NOTICE_S))
    return sweep.program.process.wait() != 0


def lose_node(sweep: Disturbed, rng: np.random.Generator) -> bool:
    assert isinstance(sweep.ground, KeptRay)
    worker = sweep.worker
    sweep.ground.lose_node()
    return not wait_until_gone([worker], SEEN_WITHIN_S)


def stand_still(sweep: Disturbed, rng: np.random.Generator) -> bool:
    """Suspend all processes for a while, like a laptop that sleeps. No process may assume that another is dead."""
    existing = sweep.processes
    for item in existing:
        _send(item, signal.SIGSTOP)
    before = sweep.runs
    time.sleep(STILL_S)
    after = sweep.runs
    for item in existing:
        _send(item, signal.SIGCONT)
    return before == after


def fill_the_disk(sweep: Disturbed, rng: np.random.Generator) -> bool:
    """Fill the disk until the sweep reports it, then free the space."""
    ballast, since = sweep.home.parent / "ballast", sweep.log_length
    fill(ballast)
    try:
        return in_time(lambda: sweep.logged(FULL, since))
    finally:
        ballast.unlink()


def truncate_checkpoint(sweep: Disturbed, rng: np.random.Generator) -> bool:
    """Crash the worker, and sometimes the driver too, and leave half-written files of a stack in training."""
    also_driver = bool(rng.integers(2))

    def crash() -> bool:
        victims = [sweep.worker, *([sweep.program.driver] if also_driver else [])]
        return _crash(victims, lambda: _truncate_checkpoints(sweep, rng))

    return in_time(crash)


def damage_journal(sweep: Disturbed, rng: np.random.Generator) -> bool:
    """Crash the driver and change a byte of a line of its journal."""

    def damage() -> bool:
        journal = sweep.files.journal
        lines = journal.read_bytes().splitlines(keepends=True)
        at = int(rng.integers(len(lines)))
        line = bytearray(lines[at])
        line[int(rng.integers(len(line) - 1))] = 0xFF
        journal.write_bytes(b"".join([*lines[:at], bytes(line), *lines[at + 1 :]]))
        return True

    return _crash([sweep.program.driver], damage)


def empty_outcome(sweep: Disturbed, rng: np.random.Generator) -> bool:
    """Simulate a power failure that empties the last run's outcome and loses the journal's last line."""

    def lose() -> bool:
        journal, last = sweep.files.journal, journalled(sweep.home)[-1]
        (sweep.home / "runs" / last.key / OUTCOME).write_bytes(b"")
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
        return True

    return _crash([sweep.program.driver, sweep.worker], lose)


@dataclass(frozen=True)
class Fault:
    """A fault. ``make`` injects it into a running sweep and returns True if it happened and had its immediate effect.

    ``message`` is a regular expression for the program's message, which comes at the latest soon after the next run
    ends. ``own`` faults need a sweep with its own Ray, ``cluster`` faults a cluster, and ``disk`` faults a disk that
    can fill up. ``any_time`` faults can also happen, and are reported, while the program starts.
    """

    make: Callable[[Disturbed, np.random.Generator], bool]
    message: str = ""
    own: bool = False
    cluster: bool = False
    disk: bool = False
    any_time: bool = False


FULL = r"the disk of .* is full"
LOST = "has stopped: Ray died"
STOPPED = rf"Stopped; \d+ runs? kept|{LOST}"
FAULTS: dict[str, Fault] = {
    "SIGKILL of the driver": Fault(lambda sweep, rng: _kill(sweep.program.driver), any_time=True),
    "SIGKILL of a worker": Fault(lambda sweep, rng: _kill(sweep.worker)),
    "SIGKILL of the raylet": Fault(lambda sweep, rng: _kill(sweep.program.raylet), LOST, own=True),
    "SIGKILL of the GCS": Fault(lambda sweep, rng: _kill(sweep.program.gcs), LOST, own=True),
    "SIGKILL of everything": Fault(lambda sweep, rng: _kill(*sweep.processes), own=True, any_time=True),
    "node lost, another joins": Fault(lose_node, cluster=True),
    "SIGTERM": Fault(ask_to_stop, STOPPED),
    "preemption: SIGTERM to all, 30 s": Fault(preempt, STOPPED, own=True),
    "all stand still for 5 s": Fault(stand_still, any_time=True),
    "disk full": Fault(fill_the_disk, FULL, disk=True),
    "truncated checkpoint": Fault(truncate_checkpoint, r"the checkpoint .* is damaged"),
    "damaged journal line": Fault(damage_journal, r", line \d+, is damaged", any_time=True),
    "empty outcome, journal's end lost": Fault(empty_outcome, r"is damaged \(outcome\.json.* the run is trained again"),
}


@contextmanager
def small_disk(place: Path) -> Iterator[bool]:
    """Mount a file system of :data:`DISK_MIB` here. Yield False if that is not allowed."""
    options = ["-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs"]
    mounted = subprocess.run(["mount", *options, place], capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", place], check=True)


def _crash(victims: list[psutil.Process], spoil: Callable[[], bool]) -> bool:
    """Suspend processes, spoil files and kill the processes. If that is impossible, resume them and return False."""
    stands = [_send(item, signal.SIGSTOP) for item in victims]
    if all(stands) and spoil():
        return _kill(*victims)
    for item in victims:
        _send(item, signal.SIGCONT)
    return False


def _truncate_checkpoints(sweep: Disturbed, rng: np.random.Generator) -> bool:
    """Truncate every file. Return False if no stack in training has a checkpoint."""
    files = sorted(sweep.files.directory.glob("checkpoints/[!.]*/checkpoint/*"))
    spoiled = [file for file in files if file.stat().st_size]
    for file in spoiled:
        content = file.read_bytes()
        file.write_bytes(content[: int(rng.integers(len(content)))])
    return bool(spoiled)


def _kill(*processes: psutil.Process) -> bool:
    """Kill processes; return True if the first was alive. Raises ``TimeoutError`` unless all die."""
    lived = [_send(item, signal.SIGKILL) for item in processes]
    if left := wait_until_gone(processes, SEEN_WITHIN_S):
        raise TimeoutError(f"{left} do not die")
    return bool(lived) and lived[0]


def _send(process: psutil.Process, number: signal.Signals) -> bool:
    """Send a signal. Return False if the process has ended, for example after a process that it depends on."""
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True


def in_time(seen: Callable[[], bool]) -> bool:
    """Return True if ``seen`` returns True within :data:`SEEN_WITHIN_S`."""
    until = time.monotonic() + SEEN_WITHIN_S
    while not (result := seen()) and time.monotonic() < until:
        time.sleep(POLL_EVERY_S)
    return result
