"""Finished runs of a home, stored once and shared by all sweeps.

A run's key covers everything that affects its computation, so a stored run can replace a new one. Before training a
run, a sweep checks whether the run is stored or in training by another sweep.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.home.directories import IMPORTED_MARK, Home
from orchestrator.home.foreign_files import KEY_PATTERN, SWEEP_NAME_PATTERN, checked_key, read_text, whole_lines
from orchestrator.home.run_files import OUTCOME, read_origin, read_outcome, read_run, weights_file, write_origin
from orchestrator.home.safe_writing import open_plain, own_file, own_path
from orchestrator.home.seals import seal
from orchestrator.system.files import (
    entries,
    is_directory,
    is_file,
    locked,
    opened_directory,
    remove_file,
    remove_old_directories,
    whole_directory,
)
from trainables.base import Outcome

log = logging.getLogger(__name__)

UNKNOWN_SWEEP = "an unknown sweep"
"""Text instead of a sweep's id for a stored run that does not contain the id."""
LONGEST_CLAIM = 1000
"""Maximum number of bytes of a claim that is read. A claim contains the id of a sweep."""
KEY_WORD = re.compile(rb"\w+")
"""Pattern of a part of a journal that may be a key."""
JOINED_KEY_WORDS = re.compile(rb"\w+[\w.-]*")
"""Pattern of a part of a journal that may be a key with dots or dashes."""


ASIDE = re.compile(r"\.[\w.-]+-[0-9a-f]{8}([0-9a-f]{8})?")
"""Pattern of the names of directories of runs that are being written or deleted."""


@dataclass(frozen=True)
class RunStore:
    """The runs of a home, one directory per key. Directories are flushed and renamed, so that readers never see an
    incomplete run.

    Attributes:
        home: The home.
        sweep_id: Id of the sweep that uses the store, or an empty string for any other reader.
        source: Hash of the family's source, which is stored with each new run.
        hash_nearby: Function that returns the hash of the programs next to a script, which is stored, too.
    """

    home: Home
    sweep_id: str = ""
    source: str = ""
    hash_nearby: Callable[[], str] = str

    def directory(self, key: str) -> Path:
        """Return the directory of a run, which may not exist."""
        return self.home.runs / checked_key(key)

    def stored_keys(self) -> list[str]:
        paths = entries(self.home.runs)
        return [path.name for path in paths if KEY_PATTERN.fullmatch(path.name) and is_directory(path)]

    def has(self, key: str) -> bool:
        """Return True if a run is stored, intact or damaged."""
        return is_directory(self.directory(key))

    def weights(self, key: str) -> Path | None:
        """Return the file with the weights of a stored run, or None if the run has no weights."""
        return weights_file(self.directory(key))

    def find(self, key: str) -> Outcome | None:
        """Return the outcome of a stored run, or None if it must be trained. Log and delete a damaged run.

        Raises ``OSError`` if the run cannot be read for another reason, such as its permissions.
        """
        if not self.has(key):
            return None
        outcome = read_run(self.directory(key), whole=True)
        if isinstance(outcome, Outcome):
            return outcome
        log.warning(f"{self.directory(key)} is damaged ({outcome}): the run is trained again")
        self.delete(key)
        return None

    def put(self, key: str, outcome: Outcome, files: Mapping[str, bytes], *, donor: str = "") -> Outcome:
        """Store a run that ended, unless another sweep has stored it first. Return the stored outcome. A run of an
        archive that was imported in the meantime is replaced.

        If its initial weights or this sweep's checkpoints came with an archive, another user may have trained a part of
        the run. Then it is marked as imported.

        Args:
            key: The run's key.
            outcome: Its outcome.
            files: Its weights, arrays and probe results by path in its directory.
            donor: Key of the run whose weights it started from, or an empty string.
        """
        is_imported = self.home.sweep(self.sweep_id).is_imported or (donor != "" and self.is_imported(donor))
        if not is_imported and self.is_imported(key) and not self._marked_by(key):
            log.warning(f"run {key} was imported while it trained here: the run that was trained here is kept")
            with self.locked():
                self.delete(key)
        with whole_directory(self.directory(key)) as directory:
            for name, content in files.items():
                (directory / name).parent.mkdir(exist_ok=True)
                (directory / name).write_bytes(content)
            # In the same directory, so that a run and its origin appear at the same moment.
            write_origin(directory, self.sweep_id, self.source, self.hash_nearby())
            (directory / OUTCOME).write_text(json.dumps(outcome.to_json()), encoding="utf-8")
            seal(directory)
            if is_imported:
                # Store this sweep's id in the mark, so that this sweep still recognizes the run as its own.
                (directory / IMPORTED_MARK).write_text(self.sweep_id, encoding="utf-8")
        # Read back, because another sweep may have stored the run first.
        return read_outcome(self.directory(key))

    def trained_for(self, key: str) -> str:
        """Return the id of the sweep that trained a stored run. Return an empty string if this sweep trained it, and
        :data:`UNKNOWN_SWEEP` if the run does not contain an id.

        A run from an archive may claim to belong to any sweep, even to this one, so it never counts as this sweep's.
        """
        origin = read_origin(self.directory(key))
        if self.is_imported(key):
            if self.sweep_id and self._marked_by(key) == self.sweep_id:
                return ""
            return f"{'' if origin is None else origin.sweep} (imported)".strip()
        if origin is None or not origin.sweep:
            return UNKNOWN_SWEEP  # For example in a copy of another user's home.
        return "" if origin.sweep == self.sweep_id else origin.sweep

    def is_imported(self, key: str) -> bool:
        """Return True for a stored run that came with an archive, or that continued from an archive's files."""
        return is_file(self.directory(key) / IMPORTED_MARK)

    def _marked_by(self, key: str) -> str:
        """Return the local sweep that trained this run from imported weights or checkpoints. Return an empty string if
        the run itself was imported."""
        try:
            return read_text(self.directory(key) / IMPORTED_MARK, LONGEST_CLAIM)
        except (FileNotFoundError, ValueError):
            return ""

    def source_of(self, key: str) -> str:
        """Return the source hash of the family that trained a stored run, or an empty string if it is unknown."""
        origin = read_origin(self.directory(key))
        return "" if origin is None else origin.source

    def delete(self, key: str) -> None:
        """Delete a run atomically if it is stored. Follow no links."""
        if self.has(key):
            aside = f".{key}-{secrets.token_hex(4)}"
            with opened_directory(self.home.runs) as runs:
                os.rename(key, aside, src_dir_fd=runs, dst_dir_fd=runs)
                os.utime(aside, dir_fd=runs)  # Other processes delete old directories with such names.
                shutil.rmtree(aside, dir_fd=runs)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Prevent other processes from deleting or claiming runs, and from adding references to stored runs."""
        self.home.root.mkdir(parents=True, exist_ok=True)
        with locked(own_path(self.home.root / ".runs.lock")):
            yield

    def claim(self, key: str) -> bool:
        """Claim a run for this sweep to train. Return False if another running sweep has claimed it."""
        claim = self.home.claims / checked_key(key)
        with self.locked():
            holder = self._holder(key)
            if holder == self.sweep_id:
                return True
            # If a sweep is killed, its claim stays on disk, but the system releases its lock. Such a claim is free.
            if holder and self.home.sweep(holder).is_driven():
                return False
            claim.parent.mkdir(exist_ok=True)
            with open(own_file(claim), "w", encoding="utf-8", opener=open_plain) as file:
                file.write(self.sweep_id)
        return True

    def free(self, key: str) -> None:
        """Release this sweep's claim on a run that has ended or that this sweep has stopped training."""
        # No lock is needed: while a process drives this sweep, no other sweep replaces its claim.
        if self._holder(key) == self.sweep_id:
            remove_file(self.home.claims / key)

    def delete_own(self) -> None:
        """Delete :meth:`own_keys`. Call this under :meth:`locked`."""
        remove_old_directories(self.home.runs, ASIDE)
        for key in self.own_keys():
            self.delete(key)
            remove_file(self.home.claims / key)

    def own_keys(self) -> list[str]:
        """Return the keys of runs that only this sweep trains or names in its journal, including tuning runs."""
        in_own: set[bytes] = set()
        in_others: set[bytes] = set()
        stored = {key.encode() for key in self.stored_keys()}
        # An error while reading a journal must not be caught: the journal's runs would look unused and be deleted.
        for sweep_id in self.home.sweep_ids():
            named = in_own if sweep_id == self.sweep_id else in_others
            named |= _named_in(self.home.sweep(sweep_id).journal, stored)
        # Words are compared instead of entries, because a damaged line may name a run that its sweep still needs.
        unshared = sorted(key.decode() for key in stored - in_others)
        return [key for key in unshared if self._is_own(key, in_own) and not self._is_training(key)]

    def _is_own(self, key: str, named: AbstractSet[bytes]) -> bool:
        """Return True if this sweep's journal contains a run's key, or if the run was trained for this sweep."""
        if key.encode() in named:
            # The author of an imported journal may have named runs that this home trained.
            return self.is_imported(key) or not self.home.sweep(self.sweep_id).is_imported
        origin = read_origin(self.directory(key))
        return origin is not None and origin.sweep == self.sweep_id

    def _is_training(self, key: str) -> bool:
        """Return True if another running sweep has claimed a run."""
        holder = self._holder(key)
        return holder not in ("", self.sweep_id) and self.home.sweep(holder).is_driven()

    def _holder(self, key: str) -> str:
        """Return the id of the sweep that has claimed a run. Return an empty string if the run is unclaimed, or if the
        claim is damaged."""
        try:
            claim = read_text(self.home.claims / checked_key(key), LONGEST_CLAIM)
        except (FileNotFoundError, ValueError):
            return ""
        return claim if SWEEP_NAME_PATTERN.fullmatch(claim) else ""


def _named_in(journal: Path, keys: AbstractSet[bytes]) -> set[bytes]:
    """Return the keys that lines of a journal name, even damaged lines. A link, pipe or device names none.

    A key is a word, or words joined by ``.`` and ``-``.
    """
    try:
        lines = whole_lines(journal)
    except ValueError:
        return set()
    # Not all words at once: a journal from an archive may have millions.
    words = (match[0] for line in lines for pattern in (KEY_WORD, JOINED_KEY_WORDS) for match in pattern.finditer(line))
    return {word for word in words if word in keys}
