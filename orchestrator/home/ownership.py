"""Owner of a home. Commands write only in homes that are this user's own.

A home is this user's own if one of their commands made it, or if they ran ``home trust``. Files in the home cannot
prove that: if the home was copied, cloned or unpacked, its author wrote them. So each home has a random id in
:data:`HOME_ID_FILE`, and a private list of the user contains the ids of the user's homes and the paths where they were
made.

- Every home can be read. Its files are only data.
- Commands that train, resume, reuse runs, record, import or delete need a home that belongs to this user
  (:func:`check_own`).
- Scripts and MLflow open files by their paths, so they also need a home that only this user can write
  (:func:`orchestrator.system.permissions.sharing_text`).

A home stays the user's if its path is unchanged, on any machine that has the list. It also stays the user's if the file
:data:`HOME_ID_FILE` is still the same inode: then the home was only renamed, or moved within a disk. In a directory
that belongs to another user, only the inode counts. The user runs ``home trust`` once for a copy, a backup that was
restored elsewhere, or in a container without the list. Neither the id nor the list is enough alone: a copy has the same
id, and another user's home may later have the path of one of this user's homes. Files that the user copies *into* such
a home count as theirs.

Homes of versions without ids must also be trusted once. Otherwise, every home that another user packed without an id
would count as this user's.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from orchestrator.home.directories import DATABASE, LINES, Home, SweepDirectory
from orchestrator.home.foreign_files import read_text
from orchestrator.system.commands import command_line
from orchestrator.system.errors import UserError
from orchestrator.system.files import replace_whole
from orchestrator.system.own_lists import CONFIG_VARIABLE, add_to_list, list_flaw, own_list, read_list
from orchestrator.system.permissions import sharing_text, user_name

log = logging.getLogger(__name__)

HOME_ID_FILE = ".id"
"""File of a home with its id. An archive cannot contain hidden files, so an import cannot replace it."""
HOME_ID = re.compile(r"[0-9a-f]{32}")
"""Pattern of a home's id."""
HOME_PARTS = ("sweeps", "runs", "claims", "artifacts", DATABASE, LINES)
"""Files and directories that a home contains after its first sweep."""


class HomeEntry(NamedTuple):
    """An entry of the list: the id of a home, its path, and the identity of its file :data:`HOME_ID_FILE`.

    The file keeps its inode and the time of its last change when the home is renamed. No user can choose that time, so
    a copy that gets the inode of a deleted file differs in the time. ``device``, ``inode`` and ``changed_ns`` are 0
    while a command writes the file.
    """

    id: str
    path: str
    device: int = 0
    inode: int = 0
    changed_ns: int = 0

    @property
    def file(self) -> tuple[int, int, int]:
        """Identity of the file: device, inode and time of the last change in ns, or zeros if it is unknown."""
        return self.device, self.inode, self.changed_ns


def homes_list() -> Path:
    """Return the file with this user's homes, one :class:`HomeEntry` per line."""
    return own_list("homes.jsonl")


def is_home(root: Path) -> bool:
    """Return True for a directory that contains a part of a home. Raises ``OSError`` if it cannot be read."""
    return any(map(_has_content, (root / part for part in HOME_PARTS)))


def _has_content(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir():
        return os.path.lexists(path)
    return next(os.scandir(path), None) is not None


def is_foreign(root: Path) -> bool:
    """Return True if a home does not count as this user's own, or if that is unknown."""
    try:
        return bool(why_foreign(root))
    except OSError:
        return True


def why_foreign(root: Path) -> str:
    """Return why a home does not count as this user's own. Return an empty string if it does.

    A missing directory counts as a new home. So does a directory without any part of a home, if it belongs to this user
    or root. Raises ``OSError`` if the directory cannot be read.
    """
    if not root.is_dir():
        return ""
    here = _entry_of(root)
    owner = root.stat().st_uid
    # In another user's directory the path proves nothing: its owner can put another home there, with a copy of the id.
    if _is_listed(here, same_file=owner not in (0, os.getuid())):
        return ""
    if owner not in (0, os.getuid()):
        return f"it belongs to another user ({user_name(owner)})"
    if not is_home(root):
        return ""
    if flaw := list_flaw(homes_list()):
        return f"your list of homes does not count, because {flaw}"
    if same_id := [entry.path for entry in _listed() if entry.id == here.id]:
        return f"it is a copy of {same_id[-1]}, or was moved from there"
    return f"{homes_list()} does not list it" if here.id else "it was not made by a command of this version"


def is_of_others(files: SweepDirectory) -> bool:
    """Return True for a sweep that another user may have written."""
    return files.is_imported or is_foreign(files.home.root)


def foreign_note(root: Path) -> str:
    """Return a note for a command that only reads a home, or an empty string if the home is this user's own."""
    try:
        why = why_foreign(root)
    except OSError as error:
        why = f"{error.strerror}: {error.filename}"
    if not why:
        return ""
    trust = command_line("home", "trust", root)
    return (
        f"{root} is not in your list of homes ({why}), so anyone may have written its results. If it is yours, run "
        f"once: `{trust}`"
    )


def check_own(root: Path) -> None:
    """Raise :class:`UserError`, with the remedies, unless a home is this user's own."""
    if not (why := why_foreign(root)):
        return
    trust = command_line("home", "trust", root)
    export = command_line("home", "export", "FILE.tar.gz", "--home", root)
    raise UserError(
        f"{root} is not in your list of homes ({why}), so it is read-only. If you trust everyone who wrote it, run "
        f"once: `{trust}`. If not, import its sweeps into your own home: `{export}`, then "
        f"`{command_line('home', 'import', 'FILE.tar.gz')}`."
    )


def list_as_own(root: Path, warn: Callable[[str], object] = log.warning) -> None:
    """List an existing directory as a home of this user, because one of their commands begins or continues it.

    Args:
        root: The directory.
        warn: Called with a message if the list cannot be written.

    Raises:
        UserError: If the directory is a home that is not this user's own.
        OSError: If the home cannot be written.
    """
    check_own(root)
    # An id in a new home comes from someone else. They know it, and could put another home at this path one day.
    here = _entry_of(root)
    if flaw := _add_home(root, here.id if _is_listed(here) else ""):
        trust = command_line("home", "trust", root)
        warn(f"{flaw}. Until then, later commands only read {root}. To continue there: `{trust}`")


def trust_home(root: Path) -> str:
    """List an existing directory as a home of this user, because they ask for it.

    Return a warning if another user can write the home, otherwise an empty string. Raises :class:`UserError` if it
    cannot be listed, and ``OSError`` if the home cannot be written.
    """
    Home(root).check_links()
    known_id = _entry_of(root).id
    if not known_id and not os.access(root, os.W_OK):  # Its new id would have to be written there.
        raise UserError(
            f"{root} belongs to {user_name(root.stat().st_uid)}, and you cannot write there, so it cannot become your "
            f"home: run `{command_line('home', 'export', 'FILE', '--home', root)}`, then "
            f"`{command_line('home', 'import', 'FILE')}`"
        )
    if flaw := _add_home(root, known_id):
        raise UserError(flaw)
    sharing = sharing_text(root)
    return f"{root} {sharing}: what they write there counts as yours" if sharing else ""


def _add_home(root: Path, known_id: str) -> str:
    """Add a home with this id to the list. If the id is empty, give the home a new id.

    Return why that is not possible, with a remedy. Return an empty string if the home was added.
    """
    here = HomeEntry(known_id or secrets.token_hex(16), str(root.resolve()))
    # First list the id, without a file, and only then write it: any command that reads the id must find it in the list.
    # If this process is killed in between, the list has an entry for an id that no home has.
    if not _is_listed(here) and (flaw := _add_entry(here)):
        return flaw
    if not known_id:
        replace_whole(root / HOME_ID_FILE, here.id)
    # Then list the file too, so that the home stays own when it is renamed. The id is read back, because another
    # command may begin the home at the same time: both ids are listed, and the id that was written last counts.
    written = _entry_of(root)
    return "" if written in _listed() else _add_entry(written)


def _add_entry(entry: HomeEntry) -> str:
    """Add an entry to the list. Return why that is not possible, with a remedy. Return an empty string on success."""
    path = homes_list()
    try:
        if flaw := list_flaw(path):
            return flaw
        add_to_list(path, entry)
        return list_flaw(path)
    except OSError as error:
        return (
            f"{path} cannot be written ({error.strerror}): set {CONFIG_VARIABLE} to a directory of yours, and keep it"
        )


def _is_listed(here: HomeEntry, *, same_file: bool = False) -> bool:
    """Return True if the list contains a home with this id, at the same path or with the same file. With ``same_file``,
    the path does not count."""
    # | same path | same file | the home was                      | counts as own         |
    # |-----------|-----------|-----------------------------------|-----------------------|
    # | yes       | yes       | not moved                         | yes                   |
    # | yes       | no        | restored, or on another machine   | yes, unless same_file |
    # | no        | yes       | renamed, or moved within its disk | yes                   |
    # | no        | no        | copied, or moved to another disk  | no                    |
    # An inode of 0 is unknown, and two unknown files are not the same file.
    same_id = [entry for entry in _listed() if entry.id == here.id]
    return any(
        (entry.path == here.path and not same_file) or (entry.file == here.file and here.inode > 0) for entry in same_id
    )


def _listed() -> list[HomeEntry]:
    """Return the entries of the list."""
    entries = [value for value in read_list(homes_list()) if isinstance(value, list) and len(value) in (4, 5)]
    # Earlier versions wrote four values, with the inode of the home's directory. Only its id and path count.
    return [HomeEntry(*value) if len(value) == 5 else HomeEntry(*value[:2]) for value in entries]


def _entry_of(root: Path) -> HomeEntry:
    """Return a home as an entry of the list would describe it now. Its id is empty if the home has no id."""
    path = str(root.resolve())
    try:
        text = read_text(root / HOME_ID_FILE, 100)
        status = os.lstat(root / HOME_ID_FILE)
    except (FileNotFoundError, IsADirectoryError, ValueError):
        return HomeEntry("", path)
    if not HOME_ID.fullmatch(text):
        return HomeEntry("", path)
    return HomeEntry(text, path, status.st_dev, status.st_ino, status.st_ctime_ns)
