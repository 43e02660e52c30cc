"""Where everything lies: all paths of a home directory in one place."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import SweepError

ID = re.compile(r"-\d{8}-\d{6}-[0-9a-f]{4}$")
"""How a sweep's id ends: when it was begun, in UTC, and four random digits."""

ABANDONED_S = 3600.0
"""A directory that is written aside takes seconds."""


@dataclass(frozen=True)
class SweepFiles:
    """The files of one sweep."""

    directory: Path

    @property
    def spec(self) -> Path:
        """The resolved search space (YAML)."""
        return self.directory / "space.yaml"

    @property
    def about(self) -> Path:
        """When and where the sweep was started (JSON)."""
        return self.directory / "sweep.json"

    @property
    def journal(self) -> Path:
        """What has happened, a JSON line each."""
        return self.directory / "journal.jsonl"

    @property
    def notes(self) -> Path:
        """What a person wrote about the sweep (JSON); absent where nobody did."""
        return self.directory / "notes.json"

    @property
    def stop_requests(self) -> Path:
        """What people ask its driver to stop, a JSON line each; absent where nobody did."""
        return self.directory / "stop.jsonl"

    @property
    def resumed_log(self) -> Path:
        """What processes said that went on with the sweep for somebody at the page; absent where none did."""
        return self.directory / "resumed.log"

    @property
    def lock(self) -> Path:
        """Held by the process that drives the sweep."""
        return self.directory / "driver.lock"

    @property
    def tunings(self) -> Path:
        """What tuning found for each mix before the sweep began (JSON); absent where nothing was tuned."""
        return self.directory / "tunings.json"

    @property
    def tuning(self) -> TuningFiles:
        """The same files with the journal of the tuning before the sweep."""
        return TuningFiles(self.directory)

    @property
    def tune(self) -> Path:
        """Ray Tune's own files; nothing in them is needed again."""
        return self.directory / "tune"

    @property
    def home(self) -> Home:
        """The home the sweep lies in."""
        return Home(self.directory.parent.parent)

    @property
    def own_runs(self) -> Path:
        """The finished runs of a sweep that keeps them by itself; absent where it shares the home's."""
        return self.directory / "runs"

    @property
    def keeps_its_runs(self) -> bool:
        """Whether its runs are not shared: it was asked for afresh, or made before runs were shared."""
        return self.own_runs.is_dir()

    @property
    def runs_at(self) -> str:
        """The address of the storage that keeps its finished runs."""
        own = f"sweeps/{self.directory.name}/{self.own_runs.name}"
        return self.home.address(own) if self.keeps_its_runs else self.home.runs_at

    @property
    def checkpoints(self) -> Path:
        """The checkpoints of stacks that train on this machine."""
        return self.directory / "checkpoints"

    @property
    def stacks(self) -> Path:
        """What stacks in training have to show: a directory each."""
        return self.directory / "stacks"

    def stack(self, stack_id: str) -> Path:
        """What a stack in training has to show."""
        return self.stacks / stack_id


class TuningFiles(SweepFiles):
    """A sweep's files as its tuning sees them: it has a journal of its own; all else it shares."""

    @property
    def journal(self) -> Path:
        """What has happened in the tuning, a JSON line each; absent where nothing was tuned."""
        return self.directory / "tuning.jsonl"


@dataclass(frozen=True)
class Home:
    """A directory of runs and of the sweeps that asked for them, with the MLflow store beside them."""

    root: Path

    def address(self, place: str) -> str:
        """Where whole directories are kept (:mod:`orchestrator.store.storage`): in the home itself, unless its file
        ``storage`` names another place."""
        elsewhere = self.root / "storage"
        return f"{elsewhere.read_text(encoding='utf-8').strip() if elsewhere.is_file() else self.root}/{place}"

    @property
    def runs_at(self) -> str:
        """The address of the storage that keeps every finished run, once, whichever sweeps refer to it."""
        return self.address("runs")

    @property
    def claims(self) -> Path:
        """Which sweep trains a run now: a file a key."""
        return self.root / "claims"

    def sweep(self, sweep_id: str) -> SweepFiles:
        """The files of the sweep with this id."""
        return SweepFiles(self.root / "sweeps" / sweep_id)

    def sweep_ids(self) -> list[str]:
        """Every sweep there is, newest first (ids begin with the space's name, then the time), and behind them whatever
        else holds a sweep's files. Other directories are somebody else's."""
        directory = self.root / "sweeps"
        if not directory.is_dir():
            return []
        names = [path.name for path in directory.iterdir() if _holds_a_sweep(path)]
        return sorted(names, key=_age, reverse=True)


def _holds_a_sweep(path: Path) -> bool:
    """Whether a directory is a sweep's, whole or not. With a specification alone it was not begun; with a journal alone
    it is the pilot of a tuning of former versions."""
    files = SweepFiles(path)
    return not path.name.startswith(".") and (
        files.about.is_file() or (files.spec.is_file() and files.journal.is_file())
    )


def _age(sweep_id: str) -> tuple[bool, list[str]]:
    """What sweeps are sorted by."""
    return ID.search(sweep_id) is not None, sweep_id.rsplit("-", 3)[1:]


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file so that it is either absent or whole: aside, flushed, renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """A directory to fill that appears at ``path`` only when the block ends well, flushed and in one rename.

    Where ``path`` exists by then, the older one stays: whoever finished first is right.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{path.name}-*"):
        if time.time() - left.stat().st_mtime > ABANDONED_S:  # By a process that was killed.
            shutil.rmtree(left, ignore_errors=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield aside
        for file in aside.rglob("*"):
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        try:
            aside.rename(path)
        except OSError as error:
            if not path.is_dir():
                raise SweepError(f"cannot write {path}: {error.strerror}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
