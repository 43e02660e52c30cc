"""Checks and creates the directory that a user chooses as a home."""

from __future__ import annotations

import fcntl
import logging
import re
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path

from orchestrator.home.directories import NO_LOCKS, Home
from orchestrator.home.ownership import HOME_ID_FILE, check_own, is_home, list_as_own
from orchestrator.system.errors import UserError
from orchestrator.system.permissions import closing_command, foreign_link_text, places_of_others

log = logging.getLogger(__name__)

URL_BEGINNING = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/?")
"""Beginning of a path that is probably a URL, such as s3://BUCKET."""


def check_home(root: Path) -> None:
    """Raise :class:`UserError` if a home's path is a URL, a circular link, behind another user's link, a file or below
    a file."""
    if URL_BEGINNING.match(str(root)):
        raise UserError(f"{root} is a URL: pass a directory as --home; deploy/README.md explains how to copy a home")
    try:
        root.resolve()
    except (RuntimeError, OSError):  # Which one depends on the version of Python.
        raise UserError(f"{root} is a link that leads back to itself: pass a directory as --home") from None
    if text := foreign_link_text(root):  # It could lead to another home of this user.
        raise UserError(f"{text}: pass the directory where it leads as --home, if that is the home you mean")
    for path in (root, *root.parents):
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file: pass a directory as --home")


def check_link(root: Path) -> None:
    """Raise :class:`UserError` if a home's path is a link to a directory that is not a home yet and has other files.

    A downloaded project can contain a link with the name of the default home.
    """
    if root.is_symlink() and not is_home(root) and any(entry.name != HOME_ID_FILE for entry in root.iterdir()):
        target = root.resolve()
        raise UserError(
            f"{root} is a link to {target}, which has other files and is not a home yet. To make it a home, pass "
            f"`--home {shlex.quote(str(target))}`. Otherwise, pass another directory as --home."
        )


def exchange_warning(root: Path) -> str:
    """Return a warning if everyone can rename a home or a directory above it. Return an empty string if not.

    A directory that a group can write does not count, because a group may share its homes.
    """
    root = root.resolve()
    directory = next((directory for directory in places_of_others(root, teams=False) if directory != root), None)
    if directory is None:
        return ""
    return (
        f"everyone can write to {directory}, so other users can replace {root}: remove that permission "
        f"({closing_command(directory, 'o')}), or set the sticky bit ({closing_command(directory, '', '+t')})"
    )


def make_home(root: Path, warn: Callable[[str], object] = log.warning) -> None:
    """Create a home's directory, and list it as this user's own. Only this user can open a new directory, until they
    change its mode.

    Args:
        root: The directory, which may exist.
        warn: Called with a message if other users can replace the home, or if the user's list cannot be written.

    Raises:
        UserError: If the directory cannot be created, or is on a file system without locks. Also if it is someone
            else's home, or a link to a directory with other files.
    """
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{root} cannot be created: {error.strerror}; pass another directory as --home") from None
    check_link(root)
    check_own(root)
    if warning := exchange_warning(root):
        warn(warning)
    Home(root).check_links()
    try:
        with tempfile.TemporaryFile(dir=root) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:  # Later writes report all other errors, such as a full or read-only disk.
            remedy = "mount it with locks, or pass another directory as --home"
            raise UserError(f"{root} is on a file system without locks ({error.strerror}): {remedy}") from None
    list_as_own(root, warn)
