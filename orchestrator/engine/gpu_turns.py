"""Who computes on a GPU: several stacks that train, or one that is being timed, alone.

What a step takes is kept as a measurement of the device, so nothing else may compute there meanwhile. Locks are files
in the machine's temporary directory, one pair for each GPU, and go with the process that holds them.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

try:
    import fcntl
except ImportError:  # Windows has no such locks: stacks are timed there beside whatever else trains.
    fcntl = None  # type: ignore[assignment]


@contextmanager
def training_on(gpu: str) -> Iterator[None]:
    """A block that shares the GPU with others like it, and waits for one that times. ``""``: no GPU, no waiting."""
    with _turn(gpu, alone=False):
        yield


@contextmanager
def timing_on(gpu: str) -> Iterator[None]:
    """A block that has the GPU to itself. It is next: who wants to train after it has come waits for it."""
    with _turn(gpu, alone=True):
        yield


@functools.cache
def this_gpu() -> str:
    """The name of this process's GPU on this machine, the same in every process; ``""`` without one."""
    return str(torch.cuda.get_device_properties(0).uuid) if torch.cuda.is_available() else ""


@contextmanager
def _turn(gpu: str, *, alone: bool) -> Iterator[None]:
    if not gpu or fcntl is None:
        yield
        return
    door, room = _files(gpu)
    with door.open("w") as at_the_door, room.open("w") as inside:
        # One that times keeps the door while it waits for the room, so that trainers cannot pass it for ever.
        fcntl.flock(at_the_door, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(inside, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if not alone:
            fcntl.flock(at_the_door, fcntl.LOCK_UN)
        yield


def _files(gpu: str) -> tuple[Path, Path]:
    """Of this user: in a directory that all share, another one's files cannot be opened."""
    digest = hashlib.sha256(gpu.encode()).hexdigest()[:12]
    user = os.getuid() if hasattr(os, "getuid") else 0
    first = Path(tempfile.gettempdir()) / f"orchestrator-gpu-{user}-{digest}"
    return Path(f"{first}.door"), Path(f"{first}.room")
