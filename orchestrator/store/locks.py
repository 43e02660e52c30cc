"""Locks between the processes of one machine: files that one of them holds."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout


def is_held(path: Path) -> bool:
    """Whether a process, this one or another, holds a lock."""
    if not path.exists():
        return False
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False
