"""A separate disk for a test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(place: Path, *options: str) -> Iterator[Path]:
    """Mount a file system in memory at this place with these options, or skip the test if mounting is not allowed."""
    place.mkdir()
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", *options, "tmpfs", place], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no program to mount a file system with")
    if done.returncode:
        pytest.skip(f"a file system of its own cannot be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)  # Lazy, because MLflow keeps its database open.
