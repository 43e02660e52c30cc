"""The directory that a user gives as a home: checked, and created."""

from __future__ import annotations

import fcntl
import re
import tempfile
from pathlib import Path

from orchestrator.home.directories import NO_LOCKS, Home
from orchestrator.system.errors import UserError

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/?")
"""Beginning of a path that is probably a URL, such as s3://BUCKET."""


def check_home(root: Path) -> None:
    """Raise :class:`UserError` if a home's path is a URL, a circular link, a file or below a file."""
    if ADDRESS.match(str(root)):
        raise UserError(f"{root} is a URL: give a directory as --home; deploy/README.md explains how to copy a home")
    try:
        root.resolve()
    except (RuntimeError, OSError):  # Which one depends on the version of Python.
        raise UserError(f"{root} is a link that leads back to itself: give a directory as --home") from None
    for path in (root, *root.parents):
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file: give a directory as --home")


def make_home(root: Path) -> None:
    """Create a home's directory, which only this user can open until they change its mode. Raises :class:`UserError` if
    that fails or the file system does not support locks."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{root} cannot be created: {error.strerror}; give another directory as --home") from None
    Home(root).check_links()
    try:
        with tempfile.TemporaryFile(dir=root) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:  # Later writes report a full or read-only disk.
            remedy = "mount it with locks, or give another directory as --home"
            raise UserError(f"{root} is on a file system without locks ({error.strerror}): {remedy}") from None
