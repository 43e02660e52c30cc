"""The finished runs of a home. Each is stored once, whichever sweep trained it.

A run's key covers everything that changes its mathematics, so a stored run is as good as a new one. Before a sweep
trains a run it asks whether the run is stored, or another sweep is training it.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from orchestrator.home.files import Home, seal, whole_directory
from orchestrator.home.run_files import OUTCOME, WEIGHTS, read_origin, read_outcome, read_run, write_origin
from trainables.base import Outcome

log = logging.getLogger(__name__)

SWEEP_ID = re.compile(r"[\w.-]+")
"""Content of a claim: the id of a sweep."""


@dataclass(frozen=True)
class StoredRun:
    """A stored run. ``trained_for`` is the id of the sweep that trained it, "" if that is the sweep that reads it."""

    outcome: Outcome
    trained_for: str


@dataclass(frozen=True)
class RunStore:
    """The runs of a home, a directory per key, as the sweep ``sweep_id`` sees them ("" for any reader).

    A directory is written aside, flushed and renamed, so a reader sees it whole or not at all.
    """

    home: Home
    sweep_id: str = ""

    def directory(self, key: str) -> Path:
        """Return the directory of a run, which need not exist."""
        return self.home.runs / key

    def stored_keys(self) -> list[str]:
        """Return the keys of all stored runs, sorted."""
        if not self.home.runs.is_dir():
            return []
        return sorted(path.name for path in self.home.runs.iterdir() if path.is_dir() and not path.name.startswith("."))

    def has(self, key: str) -> bool:
        """Return True if a run is stored, whole or damaged."""
        return self.directory(key).is_dir()

    def weights(self, key: str) -> Path | None:
        """Return the file with the weights of a stored run, None if it has none."""
        path = self.directory(key) / WEIGHTS
        return path if path.is_file() else None

    def find(self, key: str) -> StoredRun | None:
        """Return a stored run, None if it must be trained. A damaged one is logged and deleted."""
        if not self.has(key):
            return None
        outcome = read_run(self.directory(key), whole=True)
        if isinstance(outcome, Outcome):
            return StoredRun(outcome, self._trained_for(key))
        log.warning(f"{self.directory(key)} is damaged ({outcome}): the run is trained again")
        self.delete(key)
        return None

    def put(self, key: str, outcome: Outcome, files: Mapping[str, bytes]) -> StoredRun:
        """Store a run that ended and return it as stored: if another sweep was first, its run stays.

        ``files`` are its weights, arrays and probe results, by their paths in its directory.
        """
        with whole_directory(self.directory(key)) as directory:
            for name, content in files.items():
                (directory / name).parent.mkdir(exist_ok=True)
                (directory / name).write_bytes(content)
            write_origin(directory, self.sweep_id)
            (directory / OUTCOME).write_text(json.dumps(outcome.to_json()), encoding="utf-8")
            seal(directory)
        return StoredRun(read_outcome(self.directory(key)), self._trained_for(key))

    def delete(self, key: str) -> None:
        """Delete a run, if it is stored, at once for every reader."""
        if self.has(key):
            aside = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=self.home.runs))
            self.directory(key).rename(aside / key)
            shutil.rmtree(aside)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from removing or claiming runs of this home, and from referring to a stored one."""
        self.home.root.mkdir(parents=True, exist_ok=True)
        with FileLock(self.home.root / ".runs.lock"):
            yield

    def claim(self, key: str) -> bool:
        """Claim a run for this sweep to train. Return False if another sweep that is driven has claimed it."""
        claim = self.home.claims / key
        with self.locked():
            holder = self._holder(key)
            if holder == self.sweep_id:
                return True
            if holder and self.home.sweep(holder).is_driven():
                return False
            claim.parent.mkdir(exist_ok=True)
            claim.write_text(self.sweep_id, encoding="utf-8")
        return True

    def free(self, key: str) -> None:
        """Release this sweep's claim on a run, which has ended or is no longer trained here."""
        if self._holder(key) == self.sweep_id:
            (self.home.claims / key).unlink(missing_ok=True)

    def remove_own(self) -> None:
        """Delete :meth:`own_keys`. Called under :meth:`locked`."""
        for key in self.own_keys():
            self.delete(key)
            (self.home.claims / key).unlink(missing_ok=True)

    def own_keys(self) -> list[str]:
        """Return the keys of the runs, tuning included, that only this sweep refers to or trains."""
        # A sweep refers to a run if its journal contains the key.
        journals = {path.parent.name: path.read_bytes() for path in self.home.root.glob("sweeps/*/journal.jsonl")}
        own = journals.pop(self.sweep_id, b"")
        keys = []
        for key in self.stored_keys():
            origin, holder, name = read_origin(self.directory(key)), self._holder(key), key.encode()
            is_own = name in own or (origin is not None and origin.sweep == self.sweep_id)
            is_shared = any(name in journal for journal in journals.values())
            is_training = holder not in ("", self.sweep_id) and self.home.sweep(holder).is_driven()
            if is_own and not is_shared and not is_training:
                keys.append(key)
        return keys

    def _trained_for(self, key: str) -> str:
        """Return the other sweep that a stored run was trained for, "" for this one."""
        origin = read_origin(self.directory(key))
        return "" if origin is None or origin.sweep == self.sweep_id else origin.sweep

    def _holder(self, key: str) -> str:
        """Return the sweep that has claimed a run, "" if there is none or the claim is damaged."""
        try:
            claim = (self.home.claims / key).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return claim if SWEEP_ID.fullmatch(claim) else ""
