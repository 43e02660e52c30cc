"""The finished runs of a home as one sweep sees them: each is kept once, whichever sweep trained it.

A run's key holds everything that changes its mathematics, so a finished run of the same key is as good as a new one. A
sweep asks here before it trains: the run may be kept, or another sweep may be training it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from orchestrator.home.driver_lock import is_driven
from orchestrator.home.files import Home, SweepFiles
from orchestrator.home.run_files import (
    OUTCOME,
    WEIGHTS,
    Storage,
    kept_runs,
    read_origin,
    read_outcome,
    read_run,
    write_origin,
)
from trainables.base import Outcome

log = logging.getLogger(__name__)

CLAIM = re.compile(r"[\w.-]+")
"""What a claim holds: the id of a sweep."""


@dataclass(frozen=True)
class Found:
    """A run that is kept. ``trained_for`` is the id of the sweep it was trained for, ``""`` for the one that asks."""

    outcome: Outcome
    trained_for: str


class SweepRuns:
    """For the process that drives the sweep."""

    def __init__(self, files: SweepFiles) -> None:
        self.sweep_id = files.id
        self._home = files.home
        self._runs = kept_runs(files)

    def has(self, key: str) -> bool:
        """True if a finished run of this key is kept, whole or damaged."""
        return self._runs.has(key)

    def weights(self, key: str) -> Path | None:
        """The file with the weights of a finished run; None if it left none."""
        path = self._runs.get(key) / WEIGHTS
        return path if path.is_file() else None

    def find(self, key: str) -> Found | None:
        """The finished run of this key; None if it must be trained. A damaged one is named and deleted."""
        outcome = take(self._runs, key)
        return None if outcome is None else Found(outcome, self.trained_for(key))

    def trained_for(self, key: str) -> str:
        """The other sweep that a kept run was trained for; ``""`` for this one."""
        origin = read_origin(self._runs.get(key))
        return "" if origin is None or origin.sweep == self.sweep_id else origin.sweep

    def keep(self, key: str, outcome: Outcome, files: Mapping[str, bytes]) -> Found:
        """Write a run that ended, whole and flushed; the run as it is kept. If another sweep was first, theirs stays.
        ``files`` are its weights, arrays and probe results, by their paths in its directory."""
        with self._runs.put(key) as directory:
            for name, content in files.items():
                (directory / name).parent.mkdir(exist_ok=True)
                (directory / name).write_bytes(content)
            write_origin(directory, self.sweep_id)
            (directory / OUTCOME).write_text(json.dumps(outcome.to_json()), encoding="utf-8")
        return Found(read_outcome(self._runs.get(key)), self.trained_for(key))

    def kept(self) -> AbstractContextManager[None]:
        """A block during which no run is removed: a run found in it may be journalled."""
        return removal_lock(self._home)

    def claim(self, key: str) -> bool:
        """Claim a run for this sweep to train; False if another sweep that is driven has claimed it."""
        claim = self._home.claims / key
        with removal_lock(self._home):
            holder = _holder(claim)
            if holder == self.sweep_id:
                return True
            if holder and is_driven(self._home.sweep(holder)):
                return False
            claim.parent.mkdir(exist_ok=True)
            claim.write_text(self.sweep_id, encoding="utf-8")
        return True

    def free(self, key: str) -> None:
        """Give up a claim: the run has ended, or is not trained here any more."""
        claim = self._home.claims / key
        if _holder(claim) == self.sweep_id:
            claim.unlink(missing_ok=True)


def take(runs: Storage, key: str) -> Outcome | None:
    """Return the outcome of a finished run whose every file is whole; None if it must be trained.

    A damaged run is logged and deleted.
    """
    if not runs.has(key):
        return None
    outcome = read_run(runs.get(key), whole=True)
    if not isinstance(outcome, str):
        return outcome
    log.warning(f"{runs}/{key} is damaged ({outcome}): the run is trained again")
    runs.delete(key)
    return None


def removable(home: Home, sweep_id: str) -> list[str]:
    """Keys of the runs, those of tuning included, that only this sweep refers to or trains: they can go with it."""
    shared = Storage(home.runs)
    sweeps = {path.name: SweepFiles(path) for path in (home.root / "sweeps").glob("*")}
    others = [_journalled(files) for name, files in sweeps.items() if name != sweep_id]
    said = _journalled(home.sweep(sweep_id))
    found = []
    for name in shared.list():
        key = name.encode()
        origin = read_origin(shared.get(name))
        if (key in said or (origin is not None and origin.sweep == sweep_id)) and not any(
            key in each for each in others
        ):
            holder = _holder(home.claims / name)
            if not holder or holder == sweep_id or not is_driven(home.sweep(holder)):
                found.append(name)
    return found


def _journalled(files: SweepFiles) -> bytes:
    """The text of a sweep's journal."""
    return files.journal.read_bytes() if files.journal.exists() else b""


def remove(home: Home, keys: list[str]) -> None:
    """Delete these runs. Called under :func:`removal_lock`."""
    shared = Storage(home.runs)
    for key in keys:
        shared.delete(key)
        (home.claims / key).unlink(missing_ok=True)


@contextmanager
def removal_lock(home: Home) -> Iterator[None]:
    """A block during which no other process removes or claims runs of this home, or refers to a kept one."""
    home.root.mkdir(parents=True, exist_ok=True)
    with FileLock(home.root / ".runs.lock"):
        yield


def _holder(claim: Path) -> str:
    """The sweep that a claim names; ``""`` if there is none, or it is damaged."""
    try:
        said = claim.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return said if CLAIM.fullmatch(said) else ""
