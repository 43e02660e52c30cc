"""Owner of a home. Commands write only in homes that are this user's own.

A home is this user's own if one of their commands made it, or if they ran ``home trust``. Files in the home cannot
prove that: if the home was copied, cloned or unpacked, its author wrote them. So each own home has a random id in
:data:`ID`, and a private list of the user has the id and the place where the home was made.

- Every home can be read. Its files are only data.
- Commands that train, resume, reuse runs, record, import or delete need an own home (:func:`check_own`).
- Scripts and MLflow open files by their paths, so they also need a home that only this user can write
  (:func:`orchestrator.system.permissions.shared_words`).

A home stays own if its path stays the same, on every machine with this user's list, or if its file :data:`ID` stays the
same: it was renamed or moved within a disk. In another user's directory, the file must be the same. The user runs
``home trust`` once for a copy, a backup that was restored elsewhere, or in a container without the list. Neither the id
nor the list is enough alone: a copy has the same id, and another user's home may later have the path of an own one.
Files that the user copies *into* an own home count as theirs.

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
    """An entry of the list: the id of a home, its path, and which file :data:`ID` is there.

    A file keeps its number and the time of its last change when the home is renamed. No user can choose that time, so a
    copy that gets the number of a deleted file has another one. All three are 0 while a command writes the file.
    """

    id: str
    path: str
    device: int = 0
    inode: int = 0
    changed_ns: int = 0

    @property
    def file(self) -> tuple[int, int, int]:
        """Which file it is, or zeros if that is unknown."""
        return self.device, self.inode, self.changed_ns


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
    here = _place_of(root)
    owner = root.stat().st_uid
    if _is_listed(here, same_file=owner not in (0, os.getuid())):
        return ""
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
        f"{root} is not listed as a home of yours ({why}), so it is read-only. If it is yours, or you trust everyone "
        f"who wrote it, run this once: `{trust}`. Otherwise import its sweeps into a home of yours, where they are "
        f"shown as imported: `{export}`, then `{command_line('home', 'import', 'FILE.tar.gz')}`"
    )


def list_as_own(root: Path, warn: Callable[[str], object] = log.warning) -> None:
    """List an existing directory as a home of this user, because one of their commands begins or continues it.
    ``warn`` gets a warning if that is not possible. Raises :class:`UserError` as :func:`check_own`, and ``OSError`` if
    the home cannot be written."""
    check_own(root)
    # In a new home, an id is not ours: an author who knows it could put another home in this place one day.
    here = _place_of(root)
    if flaw := _note(root, here.id if _is_listed(here) else ""):
        trust = command_line("home", "trust", root)
        warn(f"{flaw}. Until then, later commands only read {root}. To continue there: `{trust}`")


def trust_home(root: Path) -> str:
    """List an existing directory as a home of this user, as they ask. Return a warning if another user can write it, or
    "". Raises :class:`UserError` if it cannot be listed, and ``OSError`` if the home cannot be written."""
    Home(root).check_links()
    if flaw := _note(root, _place_of(root).id):
        raise UserError(flaw)
    words = shared_words(root)
    return f"{root} {words}: what they write there counts as yours" if words else ""


def _note(root: Path, known: str) -> str:
    """Add a home with a known id to the list, or give it an id if that is "". Return why that is not possible, with a
    remedy, or "".

    The id is listed before it is written, so a command that reads it finds it in the list. If two commands begin a home
    at the same time, both ids are listed, and the one written last counts.
    """
    here = Place(known or secrets.token_hex(16), str(root.resolve()))
    if not _is_listed(here) and (flaw := _add(here)):
        return flaw
    if not known:
        replace_whole(root / ID, here.id)
    written = _place_of(root)
    return "" if written in _known() else _add(written)


def _add(place: Place) -> str:
    """Add an entry to the list. Return why that is not possible, with a remedy, or ""."""
    path = homes_list()
    try:
        add_to_list(path, place)
        return list_flaw(path)
    except OSError as error:
        return f"{path} cannot be written ({error.strerror}): name a directory of yours in {VARIABLE}, and keep it"


def _is_listed(here: Place, *, same_file: bool = False) -> bool:
    """Return True if the list has a home with this id and this file, or, unless it must be the ``same_file``, at this
    path."""
    same_id = [known for known in _known() if known.id == here.id]
    return any(
        (known.path == here.path and not same_file) or (known.file == here.file and here.inode > 0) for known in same_id
    )


def _known() -> list[Place]:
    """Return the entries of the list. Those of earlier versions have the number of a directory in place of a file's."""
    entries = [value for value in read_list(homes_list()) if isinstance(value, list) and len(value) in (4, 5)]
    return [Place(*value) if len(value) == 5 else Place(*value[:2]) for value in entries]


def _place_of(root: Path) -> Place:
    """Return where a home is, with its id, or "" if it has none."""
    path = str(root.resolve())
    try:
        text = read_text(root / ID, 100)
        status = os.lstat(root / ID)
    except (FileNotFoundError, IsADirectoryError, ValueError):
        return Place("", path)
    if not PATTERN.fullmatch(text):
        return Place("", path)
    return Place(text, path, status.st_dev, status.st_ino, status.st_ctime_ns)
