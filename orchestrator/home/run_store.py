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
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.home.directories import IMPORTED, Home
from orchestrator.home.foreign_files import (
    KEY,
    NAME,
    checked_key,
    open_plain,
    own_file,
    own_path,
    read_text,
    whole_lines,
)
from orchestrator.home.run_files import OUTCOME, read_origin, read_outcome, read_run, weights_file, write_origin
from orchestrator.home.seals import seal
from orchestrator.system.files import (
    entries,
    is_directory,
    is_file,
    locked,
    opened_directory,
    remove_abandoned,
    remove_file,
    whole_directory,
)
from trainables.base import Outcome

log = logging.getLogger(__name__)

UNKNOWN = "an unknown sweep"
"""In place of the sweep that a stored run was trained for, if the run does not say."""
LONGEST_CLAIM = 1000
"""Largest claim that is read: the id of a sweep."""
WORD, JOINED_WORDS = re.compile(rb"\w+"), re.compile(rb"\w+[\w.-]*")
"""Patterns of the parts of a journal that may be a key."""


@dataclass(frozen=True)
class RunStore:
    """The runs of a home, one directory per key, for the sweep ``sweep_id`` ("" for other readers). Directories are
    flushed and renamed, so that readers never see an incomplete run. ``source`` is the hash of the family's source,
    which is kept with each new run."""

    home: Home
    sweep_id: str = ""
    source: str = ""

    def directory(self, key: str) -> Path:
        """Return the directory of a run, which may not exist."""
        return self.home.runs / checked_key(key)

    def stored_keys(self) -> list[str]:
        paths = entries(self.home.runs)
        return [path.name for path in paths if KEY.fullmatch(path.name) and is_directory(path)]

    def has(self, key: str) -> bool:
        """Return True if a run is stored, intact or damaged."""
        return is_directory(self.directory(key))

    def weights(self, key: str) -> Path | None:
        """Return the file with the weights of a stored run, or None without weights."""
        return weights_file(self.directory(key))

    def find(self, key: str) -> Outcome | None:
        """Return the outcome of a stored run, or None if it must be trained. Log and delete a damaged run.

        Raises ``OSError`` for a run that cannot be read for another reason, such as its permissions.
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
        """Store a run that ended, unless another sweep has stored it first. Return the stored outcome.

        ``files`` are its weights, arrays and probe results by path in its directory. ``donor`` is the key of the run
        whose weights it started from, or "". If they came with an archive, or this sweep did with its checkpoints,
        another user may have trained a part of this run, so it is marked as imported.
        """
        is_imported = self.home.sweep(self.sweep_id).is_imported or (donor != "" and self.is_imported(donor))
        with whole_directory(self.directory(key)) as directory:
            for name, content in files.items():
                (directory / name).parent.mkdir(exist_ok=True)
                (directory / name).write_bytes(content)
            # Within the directory, so that a run and its origin appear at the same moment.
            write_origin(directory, self.sweep_id, self.source)
            (directory / OUTCOME).write_text(json.dumps(outcome.to_json()), encoding="utf-8")
            seal(directory)
            if is_imported:  # With the name of this sweep, for which the run is still one that it has trained.
                (directory / IMPORTED).write_text(self.sweep_id, encoding="utf-8")
        # Read back, because another sweep may have stored the run first.
        return read_outcome(self.directory(key))

    def trained_for(self, key: str) -> str:
        """Return the id of the other sweep that trained a stored run, :data:`UNKNOWN` if it does not say, or "" if it
        was this one.

        A run that came with an archive may name any sweep, even this one, so it is never a run of this sweep.
        """
        origin = read_origin(self.directory(key))
        if self.is_imported(key):
            if self.sweep_id and self._marked_by(key) == self.sweep_id:
                return ""
            return f"{'' if origin is None else origin.sweep} (imported)".strip()
        if origin is None or not origin.sweep:
            return UNKNOWN  # For example in a copy of another user's home.
        return "" if origin.sweep == self.sweep_id else origin.sweep

    def is_imported(self, key: str) -> bool:
        """Return True for a stored run that came with an archive, or continued from files of an archive."""
        return is_file(self.directory(key) / IMPORTED)

    def _marked_by(self, key: str) -> str:
        """Return the sweep that trained an imported run from what came with an archive, "" if the run itself came."""
        try:
            return read_text(self.directory(key) / IMPORTED, LONGEST_CLAIM)
        except (FileNotFoundError, ValueError):
            return ""

    def source_of(self, key: str) -> str:
        """Return the hash of the source of the family that trained a stored run, or "" if it is unknown."""
        origin = read_origin(self.directory(key))
        return "" if origin is None else origin.source

    def delete(self, key: str) -> None:
        """Delete a run atomically if it is stored, and nothing through a link."""
        if self.has(key):
            aside = f".{key}-{secrets.token_hex(4)}"
            with opened_directory(self.home.runs) as runs:
                os.rename(key, aside, src_dir_fd=runs, dst_dir_fd=runs)
                os.utime(aside, dir_fd=runs)  # To others, an old directory of this name is abandoned.
                shutil.rmtree(aside, dir_fd=runs)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Prevent other processes from removing or claiming runs, and from adding references to stored runs."""
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
            # The claim of a sweep that was killed stays on disk. Its lock does not, so the claim is free.
            if holder and self.home.sweep(holder).is_driven():
                return False
            claim.parent.mkdir(exist_ok=True)
            with open(own_file(claim), "w", encoding="utf-8", opener=open_plain) as file:
                file.write(self.sweep_id)
        return True

    def free(self, key: str) -> None:
        """Release this sweep's claim on a run that has ended or that this sweep has stopped training."""
        # Without the lock: while this sweep is driven, no other replaces its claim.
        if self._holder(key) == self.sweep_id:
            remove_file(self.home.claims / key)

    def remove_own(self) -> None:
        """Delete :meth:`own_keys`. Call this under :meth:`locked`."""
        remove_abandoned(self.home.runs, ".*-*")
        for key in self.own_keys():
            self.delete(key)
            remove_file(self.home.claims / key)

    def own_keys(self) -> list[str]:
        """Return the keys of runs, including tuning runs, that only this sweep trains or names in its journal."""
        own: set[bytes] = set()
        others: set[bytes] = set()
        # If a journal cannot be read, the error ends this: its runs would look unused.
        for sweep_id in self.home.sweep_ids():
            words = own if sweep_id == self.sweep_id else others
            words.update(_words(self.home.sweep(sweep_id).journal))
        # A search for words instead of entries: even a damaged line may name a run that its sweep still needs.
        unshared = [key for key in self.stored_keys() if key.encode() not in others]
        return [key for key in unshared if self._is_own(key, own) and not self._is_training(key)]

    def _is_own(self, key: str, named: AbstractSet[bytes]) -> bool:
        """Return True if this sweep's journal has a run's key, or the run was trained for this sweep."""
        if key.encode() in named:
            return True
        origin = read_origin(self.directory(key))
        return origin is not None and origin.sweep == self.sweep_id

    def _is_training(self, key: str) -> bool:
        """Return True if another running sweep has claimed a run."""
        holder = self._holder(key)
        return holder not in ("", self.sweep_id) and self.home.sweep(holder).is_driven()

    def _holder(self, key: str) -> str:
        """Return the sweep that has claimed a run, or "" if the run is unclaimed or the claim is damaged."""
        try:
            claim = read_text(self.home.claims / checked_key(key), LONGEST_CLAIM)
        except (FileNotFoundError, ValueError):
            return ""
        return claim if NAME.fullmatch(claim) else ""


def _words(journal: Path) -> set[bytes]:
    """Return the words in the lines of a journal, also in damaged ones, none if it is not a file that can be read.

    They contain every key that the journal names, because a key is a word, or words joined by ``.`` and ``-``.
    """
    try:
        text = b"\n".join(whole_lines(journal))
    except ValueError:
        return set()
    return {*WORD.findall(text), *JOINED_WORDS.findall(text)}
