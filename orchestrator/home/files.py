"""Paths of a home directory, all in one place."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator import environment
from orchestrator.errors import SweepError, UserError
from trainables.files import flush

ID = re.compile(r"-\d{8}-\d{6}-[0-9a-f]{4}$")
"""How a sweep's id ends: when it was begun, in UTC, and four random digits."""

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/?")
"""Beginning of a path that was meant as an address, such as s3://BUCKET."""
ABANDONED_S = 3600.0
"""A directory that is written aside takes seconds."""


@dataclass(frozen=True)
class SweepFiles:
    """The files of one sweep."""

    directory: Path

    @property
    def id(self) -> str:
        return self.directory.name

    @property
    def spec(self) -> Path:
        """The resolved search space (YAML)."""
        return self.directory / "space.yaml"

    @property
    def family(self) -> Path:
        """Description of the family (JSON), for a time when it cannot be imported."""
        return self.directory / "family.json"

    @property
    def journal(self) -> Path:
        """Journal of the sweep, a JSON line an event."""
        return self.directory / "journal.jsonl"

    @property
    def stop_requests(self) -> Path:
        """Requests to stop, a JSON line each; absent if there are none."""
        return self.directory / "stop.jsonl"

    @property
    def lock(self) -> Path:
        """Held by the process that drives the sweep."""
        return self.directory / "driver.lock"

    @property
    def tune(self) -> Path:
        """Ray Tune's own files; nothing in them is needed again."""
        return self.directory / "tune"

    @property
    def home(self) -> Home:
        return Home(self.directory.parent.parent)

    @property
    def checkpoints(self) -> Path:
        """The checkpoints of stacks that train on this machine."""
        return self.directory / "checkpoints"

    @property
    def stacks(self) -> Path:
        """Progress of stacks in training: a directory each."""
        return self.directory / "stacks"

    def stack(self, stack_id: str) -> Path:
        """Progress of a stack in training."""
        return self.stacks / stack_id


@dataclass(frozen=True)
class Home:
    """A directory of runs and of the sweeps that asked for them, with the MLflow store beside them."""

    root: Path

    @property
    def runs(self) -> Path:
        """Every finished run, a directory a key, whichever sweeps refer to it."""
        return self.root / "runs"

    @property
    def claims(self) -> Path:
        """Which sweep trains a run now: a file a key."""
        return self.root / "claims"

    def sweep(self, sweep_id: str) -> SweepFiles:
        return SweepFiles(self.root / "sweeps" / sweep_id)

    def sweep_ids(self) -> list[str]:
        """Every sweep there is, newest first (ids begin with the space's name, then the time), and behind them whatever
        else holds a sweep's files. Other directories are somebody else's."""
        directory = self.root / "sweeps"
        if not directory.is_dir():
            return []
        names = [path.name for path in directory.glob("[!.]*") if SweepFiles(path).journal.is_file()]
        return sorted(names, key=_age, reverse=True)


def _age(sweep_id: str) -> tuple[bool, list[str]]:
    """Sort key of sweeps."""
    return ID.search(sweep_id) is not None, sweep_id.rsplit("-", 3)[1:]


def is_held(path: Path) -> bool:
    """True if a process, this one or another, holds the lock of a file. Writes nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def check_home(root: Path) -> None:
    """Raise :class:`UserError` for an address, and for a home that is a file, below one or behind circular links."""
    if ADDRESS.match(str(root)):
        raise UserError(f"{root} is an address: give a directory as --home; deploy/README.md says how to copy one")
    for each in (root, *root.parents):
        if each.exists() and not each.is_dir():
            raise UserError(f"{each} is a file: give a directory as --home")
    try:
        root.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UserError(f"{root} is a link that leads in a circle: give another directory as --home") from None


def make_home(root: Path) -> None:
    """Make the directory of a home. Raises :class:`UserError` if it cannot be made."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{root} cannot be made: {error.strerror}; give another directory as --home") from None


CONTENTS = "contents.json"
"""In the directory of a run and of a checkpoint: the checksum of every other file, written last."""
PROBES = "probes"
"""In the directory of a run: for every probe NAME.json and, where it gives arrays, NAME.npz. They are not sealed, for a
later result of the same probe replaces them."""


def seal(directory: Path) -> None:
    """Write down the checksum of every file in a directory."""
    there = sorted(path for path in directory.rglob("*") if path.is_file() and path.parent.name != PROBES)
    sums = {str(path.relative_to(directory)): _checksum(path) for path in there}
    (directory / CONTENTS).write_text(json.dumps(sums), encoding="utf-8")


def flaw_of(directory: Path, *names: str) -> str:
    """The first file of a sealed directory, or of these in it, that is missing or not what was sealed; ``""`` if all
    are whole."""
    try:
        sums = json.loads((directory / CONTENTS).read_text(encoding="utf-8"))
        for name in names or (each for each in sums if not each.startswith(f"{PROBES}/")):
            if name not in sums:
                return f"{CONTENTS} does not list {name}"
            if _checksum(directory / name) != sums[name]:
                return f"{name} differs from its checksum"
    except (OSError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return ""


def _checksum(path: Path) -> int:
    found = 0
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            found = zlib.crc32(part, found)
    return found


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
        for file in (*aside.rglob("*"), aside):
            flush(file)
        try:
            aside.rename(path)
        except OSError as error:
            if not path.is_dir():
                raise SweepError(f"cannot write {path}: {error.strerror}") from error
        flush(path.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def scratch(chosen: str | None) -> Path:
    """Return the directory that was chosen, or else a private one beneath the system's temporary directory; made if
    missing. It outlives a sweep: what is in it is found again under the name of what it was made from.

    Raises :class:`UserError` as :func:`orchestrator.environment.private_directory` does.
    """
    if not chosen:
        return environment.private_directory()
    path = environment.user_path(chosen)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path} cannot be made: {error.strerror}; name another directory as --scratch") from error
    return path
