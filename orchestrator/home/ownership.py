"""Owner of a home. Commands write only in homes that are this user's own.

A home is this user's own if one of their commands made it, or if they ran ``home trust``. Files in the home cannot
prove that: if the home was copied, cloned or unpacked, its author wrote them. So each own home has a random id in
:data:`ID`, and a private list of the user has the id and the place where the home was made.

- Every home can be read. Its files are only data.
- Commands that train, resume, reuse runs, record, import or delete need an own home (:func:`check_own`).
- Scripts and MLflow open files by their paths, so they also need a home that only this user can write
  (:func:`orchestrator.system.permissions.shared_words`).

A home stays own if its path stays the same, on every machine with this user's list, or if its directory stays the
same: it was renamed or moved within a disk. The user runs ``home trust`` once for a copy, a backup that was restored
elsewhere, or in a container without the list. Neither the id nor the list is enough alone: a copy has the same id, and
another user's home may later have the path of an own one. Files that the user copies *into* an own home count as
theirs.

Homes of versions without ids must also be trusted once. Without that, every archive that another user packed without
an id would become own.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from orchestrator.home.directories import DATABASE, LINES, Home
from orchestrator.home.foreign_files import read_text
from orchestrator.system.commands import command_line
from orchestrator.system.errors import UserError
from orchestrator.system.files import replace_whole
from orchestrator.system.own_lists import VARIABLE, add_to_list, list_flaw, own_list, read_list
from orchestrator.system.permissions import shared_words, user_name

log = logging.getLogger(__name__)

ID = ".id"
"""File of a home with its id. An archive has no hidden files, so an import cannot replace it."""
PATTERN = re.compile(r"[0-9a-f]{32}")
"""Pattern of an id."""
PARTS = ("sweeps", "runs", "claims", "artifacts", DATABASE, LINES)
"""What a home contains once it was used."""


class Place(NamedTuple):
    """An entry of the list: the id of a home, and where it is."""

    id: str
    path: str
    device: int
    inode: int


def homes_list() -> Path:
    """Return the file with this user's homes, one :class:`Place` per line."""
    return own_list("homes.jsonl")


def is_home(root: Path) -> bool:
    """Return True for a directory that contains a part of a home. Raises ``OSError`` if it cannot be read."""
    return any(map(_has_content, (root / part for part in PARTS)))


def _has_content(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir():
        return os.path.lexists(path)
    return next(os.scandir(path), None) is not None


def why_foreign(root: Path) -> str:
    """Return why a home does not count as this user's own, or "". A missing directory counts as a new home. So does one
    without any part of a home, if it belongs to this user or root. Raises ``OSError`` if it cannot be read."""
    if not root.is_dir():
        return ""
    here = _place_of(root, _id_of(root))
    if _is_listed(here):
        return ""
    owner = root.stat().st_uid
    if owner not in (0, os.getuid()):
        return f"it belongs to another user ({user_name(owner)})"
    if not is_home(root):
        return ""
    if flaw := list_flaw(homes_list()):
        return f"your list of homes does not count, because {flaw}"
    if same_id := [known.path for known in _known() if known.id == here.id]:
        return f"it is a copy of {same_id[-1]}, or was moved from there"
    return f"{homes_list()} does not list it" if here.id else "it was not made by a command of this version"


def check_own(root: Path) -> None:
    """Raise :class:`UserError`, with the remedies, unless a home is this user's own."""
    if not (why := why_foreign(root)):
        return
    trust = command_line("home", "trust", root)
    export = command_line("home", "export", "FILE.tar.gz", "--home", root)
    raise UserError(
        f"{root} is not known as a home of yours ({why}), so it is only read. If it is yours, or you trust everyone "
        f"who wrote it, run this once: `{trust}`. Otherwise import its sweeps into a home of yours, where they are "
        f"shown as imported: `{export}`, then `{command_line('home', 'import', 'FILE.tar.gz')}`"
    )


def list_as_own(root: Path, warn: Callable[[str], object] = log.warning) -> None:
    """List an existing directory as a home of this user, because one of their commands begins or continues it.
    ``warn`` gets a warning if that is not possible. Raises :class:`UserError` as :func:`check_own`, and ``OSError`` if
    the home cannot be written."""
    check_own(root)
    # In a new home, an id is not ours: an author who knows it could put another home in this place one day.
    if flaw := _note(root, _id_of(root) if _is_listed(_place_of(root, _id_of(root))) else ""):
        trust = command_line("home", "trust", root)
        warn(f"{flaw}. Until then, later commands only read {root}. To continue there: `{trust}`")


def trust_home(root: Path) -> str:
    """List an existing directory as a home of this user, as they ask. Return a warning if another user can write it, or
    "". Raises :class:`UserError` if it cannot be listed, and ``OSError`` if the home cannot be written."""
    Home(root).check_links()
    if flaw := _note(root, _id_of(root)):
        raise UserError(flaw)
    words = shared_words(root)
    return f"{root} {words}: what they write there counts as yours" if words else ""


def _note(root: Path, known: str) -> str:
    """Add a home with a known id to the list, or give it an id if that is "". Return why that is not possible, with a
    remedy, or "".

    The id is listed before it is written, so a command that reads it finds it in the list. If two commands begin a home
    at the same time, both ids are listed, and the one written last counts.
    """
    here = _place_of(root, known or secrets.token_hex(16))
    path = homes_list()
    try:
        if here not in _known():
            add_to_list(path, here)
        flaw = list_flaw(path)
    except OSError as error:
        flaw = f"{path} cannot be written ({error.strerror}): name a directory of yours in {VARIABLE}, and keep it"
    if not flaw and not known:
        replace_whole(root / ID, here.id)
    return flaw


def _is_listed(here: Place) -> bool:
    """Return True if the list has a home with this id at this path, or with this directory at another."""
    same_id = [known for known in _known() if known.id == here.id]
    return any(known.path == here.path or (known.device, known.inode) == (here.device, here.inode) for known in same_id)


def _known() -> list[Place]:
    return [Place(*value) for value in read_list(homes_list()) if isinstance(value, list) and len(value) == 4]


def _place_of(root: Path, identity: str) -> Place:
    status = root.stat()
    return Place(identity, str(root.resolve()), status.st_dev, status.st_ino)


def _id_of(root: Path) -> str:
    """Return the id in a home, or "" if there is none."""
    try:
        text = read_text(root / ID, 100)
    except (FileNotFoundError, IsADirectoryError, ValueError):
        return ""
    return text if PATTERN.fullmatch(text) else ""
