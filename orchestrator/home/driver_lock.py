"""The lock of a sweep: one process drives it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from orchestrator.errors import UserError
from orchestrator.home.files import SweepFiles, is_held

GLANCE_S = 0.5
"""Longest wait for a sweep's lock, which :func:`is_driven` also takes for a moment."""


@contextmanager
def driving(files: SweepFiles) -> Iterator[None]:
    """Hold a sweep's lock. Raises :class:`UserError` while another process drives it."""
    files.directory.mkdir(parents=True, exist_ok=True)
    lock = FileLock(files.lock)
    try:
        lock.acquire(timeout=GLANCE_S)
    except Timeout:
        raise _driven(files) from None
    try:
        yield
    finally:
        lock.release()


def is_driven(files: SweepFiles) -> bool:
    """True if a process drives a sweep."""
    return is_held(files.lock)


def check_free(files: SweepFiles) -> None:
    """Raise :class:`UserError` if a process drives a sweep."""
    if is_driven(files):
        raise _driven(files)


def _driven(files: SweepFiles) -> UserError:
    return UserError(f"{files.id} is being run by another process; wait for it or stop it")
