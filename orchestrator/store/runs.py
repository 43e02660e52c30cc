"""The finished runs of a home as one sweep sees them: each lies there once, whoever asked for it first.

A run's key holds everything that changes its mathematics, so a finished run of the same key is as good as a new one. A
sweep asks here before it trains: the run may be there, or another sweep may be training it now.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from filelock import FileLock

from orchestrator.store.damage import Say, is_whole
from orchestrator.store.driving import is_driven
from orchestrator.store.files import Home, SweepFiles, write_whole
from orchestrator.store.remains import OUTCOME, WEIGHTS, read_origin, read_outcome, write_origin
from orchestrator.store.storage import kept_runs, storage_at
from orchestrator.store.trouble import REMOTE, trouble_words
from trainables.base import Outcome

ALIVE_FOR_S = 0.5
"""How long a look whether another sweep is being driven holds good."""
ASK_AGAIN_S = (1.0, 5.0, 15.0)
"""How long a store on the network that does not answer is left alone, before the driver asks it again."""
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Found:
    """A run that was there. ``trained_for`` is the id of the sweep it was trained for, ``""`` for the one that asks."""

    outcome: Outcome
    trained_for: str


class SweepRuns:
    """Used by the process that drives the sweep. A sweep that keeps its runs by itself (``--fresh``, or made before
    runs were shared) finds its own alone and shares none. ``say`` is told of damaged runs."""

    def __init__(self, files: SweepFiles, say: Say = warnings.warn) -> None:
        self._files = files
        self._say = say
        self.sweep_id = files.directory.name
        self._home = files.home
        self._shared = not files.keeps_its_runs
        self._runs = kept_runs(files)
        self._alive: dict[str, tuple[float, bool]] = {}

    def has(self, key: str) -> bool:
        """Whether a finished run of this key is there, whole or not."""
        return self._shared and self._asked(lambda: self._runs.has(key))

    def weights(self, key: str) -> Path | None:
        """Where the weights of a finished run lie, the sweep's own or the home's; None where it left none."""
        path = self._asked(lambda: self._runs.get(key)) / WEIGHTS
        return path if path.is_file() else None

    def find(self, key: str) -> Found | None:
        """The finished run of this key; None where it must be trained. A damaged one is put aside and named."""
        if not self.has(key) or not self._asked(lambda: is_whole(self._runs, key, self._say)):
            return None
        return Found(read_outcome(self._asked(lambda: self._runs.get(key))), self.trained_for(key))

    def trained_for(self, key: str) -> str:
        """The other sweep a run that is there was trained for; ``""`` where it was this one."""
        origin = read_origin(self._asked(lambda: self._runs.get(key))) if self._shared else None
        return "" if origin is None or origin.sweep == self.sweep_id else origin.sweep

    def keep(self, key: str, outcome: Outcome, files: Mapping[str, bytes]) -> Found:
        """Write a run that ended, whole and flushed; the run as it is kept: where another sweep was first, theirs.
        ``files`` are what it left, by their paths in its directory."""
        with self._runs.put(key) as directory:
            for name, content in files.items():
                (directory / name).parent.mkdir(exist_ok=True)
                (directory / name).write_bytes(content)
            write_origin(directory, self.sweep_id)
            (directory / OUTCOME).write_text(json.dumps(outcome.to_json()), encoding="utf-8")
        return Found(read_outcome(self._runs.get(key)), self.trained_for(key))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """A block during which no sweep's runs are removed: what is found in it may be journalled."""
        with removal_lock(self._home):
            yield

    def claim(self, key: str) -> bool:
        """Say that this sweep trains a run from now on; False where another one that is being driven said so before.

        Two sweeps that claim at the very moment in which a third one died may both be told True. Both train then, and
        the first to finish is right.
        """
        if not self._shared:
            return True
        claim = self._home.claims / key
        holder = _read_claim(claim)
        if holder is None and _create(claim, self.sweep_id):
            return True
        holder = holder or _read_claim(claim)
        if holder == self.sweep_id:
            return True
        if holder is not None and self._is_driven(holder):
            return False
        write_whole(claim, self.sweep_id)
        return True

    def free(self, key: str) -> None:
        """The run has ended, or is given up: whoever wants it may look for it, or train it."""
        claim = self._home.claims / key
        if self._shared and _read_claim(claim) == self.sweep_id:
            claim.unlink(missing_ok=True)

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        """What the storage answers. One on the network that does not is asked again a few times: what is trained
        meanwhile goes on."""
        for wait_s in ASK_AGAIN_S:
            try:
                return ask()
            except OSError as error:
                if error.errno != REMOTE:
                    raise
                self._say(f"Machine error (not a result): {trouble_words(error, '')}; retrying in {wait_s:g} s")
            time.sleep(wait_s)
        return ask()

    def _is_driven(self, sweep_id: str) -> bool:
        seen, alive = self._alive.get(sweep_id, (-ALIVE_FOR_S, False))
        if time.monotonic() - seen >= ALIVE_FOR_S:
            alive = is_driven(self._home.sweep(sweep_id))
            self._alive[sweep_id] = (time.monotonic(), alive)
        return alive


def removable(home: Home, sweep_id: str) -> list[str]:
    """The keys of the runs that no sweep but this one refers to or is training: they can go with it. Runs of its tuning
    are among them; a sweep refers to all that its tuning has trained or found."""
    shared = storage_at(home.runs_at)
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
            holder = _read_claim(home.claims / name)
            if not holder or holder == sweep_id or not is_driven(home.sweep(holder)):
                found.append(name)
    return found


def _journalled(files: SweepFiles) -> bytes:
    """All that a sweep's journals say."""
    return b"".join(path.read_bytes() for path in (files.journal, files.tuning.journal) if path.exists())


def remove(home: Home, keys: list[str]) -> None:
    """Delete these runs. Called under :func:`removal_lock`."""
    shared = storage_at(home.runs_at)
    for key in keys:
        shared.delete(key)
        (home.claims / key).unlink(missing_ok=True)


def remove_own(files: SweepFiles) -> None:
    """Delete the runs that a sweep keeps by itself."""
    if files.keeps_its_runs:
        storage = kept_runs(files)
        for name in storage.list():
            storage.delete(name)


@contextmanager
def removal_lock(home: Home) -> Iterator[None]:
    """A block during which nobody else removes runs of this home, or refers to one that was there."""
    home.root.mkdir(parents=True, exist_ok=True)
    with FileLock(home.root / ".runs.lock"):
        yield


def _read_claim(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _create(path: Path, text: str) -> bool:
    """Write a file that was not there; False where it is. It is never seen empty: linked to its name when whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.link(name, path)
    except FileExistsError:
        return False
    except OSError:  # A file system without links: two that come at the same moment may both be told True.
        write_whole(path, text)
    finally:
        os.unlink(name)
    return True
