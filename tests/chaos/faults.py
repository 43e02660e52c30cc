"""What can happen to a sweep, made to happen for real. Each fault leaves a sweep that may need ``--resume``."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from orchestrator.store.files import Home, SweepFiles
from tests.chaos.program import Program
from tests.engine.troubled import fill

DISK_MIB = 32
"""Of the disk that becomes full. A home of these sweeps has 3 MiB."""

Fault = Callable[[Program, np.random.Generator], None]
"""Called while a sweep is under way."""


def kill_driver(program: Program, rng: np.random.Generator) -> None:
    program.driver.send_signal(signal.SIGKILL)


def kill_worker(program: Program, rng: np.random.Generator) -> None:
    program.worker.send_signal(signal.SIGKILL)


def kill_raylet(program: Program, rng: np.random.Generator) -> None:
    program.raylet.send_signal(signal.SIGKILL)


def kill_gcs(program: Program, rng: np.random.Generator) -> None:
    program.gcs.send_signal(signal.SIGKILL)


def pull_the_plug(program: Program, rng: np.random.Generator) -> None:
    """All of it, at once."""
    program.kill()


def ask_to_stop(program: Program, rng: np.random.Generator) -> None:
    program.process.send_signal(signal.SIGTERM)


def fill_the_disk(program: Program, rng: np.random.Generator) -> None:
    """Until the sweep has stopped for it; then there is room again."""
    ballast = program.home.parent / "ballast"
    fill(ballast)
    program.end()
    ballast.unlink()


def truncate_checkpoint(program: Program, rng: np.random.Generator) -> None:
    """A crash that leaves a part of a file, in every checkpoint there is."""
    program.kill()
    for file in _files(program).directory.glob("checkpoints/*/checkpoint/*"):
        content = file.read_bytes()
        file.write_bytes(content[: int(rng.integers(len(content)))])


def damage_journal(program: Program, rng: np.random.Generator) -> None:
    """A byte of a line in the middle of the journal is another one."""
    program.kill()
    journal = _files(program).journal
    lines = journal.read_bytes().splitlines(keepends=True)
    at = int(rng.integers(1, len(lines)))
    line = bytearray(lines[at])
    line[int(rng.integers(len(line) - 1))] = 0xFF
    journal.write_bytes(b"".join([*lines[:at], bytes(line), *lines[at + 1 :]]))


FAULTS: dict[str, Fault] = {
    "SIGKILL of the driver": kill_driver,
    "SIGKILL of a worker": kill_worker,
    "SIGKILL of the raylet": kill_raylet,
    "SIGKILL of the GCS": kill_gcs,
    "SIGKILL of everything": pull_the_plug,
    "SIGTERM": ask_to_stop,
    "disk full": fill_the_disk,
    "truncated checkpoint": truncate_checkpoint,
    "damaged journal line": damage_journal,
}


@contextmanager
def small_disk(place: Path) -> Iterator[bool]:
    """A block in which a file system of :data:`DISK_MIB` is mounted here; False where that is not allowed."""
    options = ["-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs"]
    mounted = subprocess.run(["mount", *options, place], capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", place], check=True)


def _files(program: Program) -> SweepFiles:
    [sweep_id] = Home(program.home).sweep_ids()
    return Home(program.home).sweep(sweep_id)
