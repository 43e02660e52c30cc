"""Homes in an object store, as ``--home`` names them: each has a directory on this machine, where its journals are
written, locks are held and MLflow's record lies."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

from orchestrator.store.bucket import Bucket, is_address
from orchestrator.store.files import write_whole
from orchestrator.store.mirror import DIRECTORY, Mirror
from orchestrator.store.s3_client import need_boto3

VARIABLE = "ORCHESTRATOR_LOCAL"
"""Names the directory in which the local directories of such homes lie, one for each address."""
FOLLOW_EVERY_S = 5.0
"""How often a command that goes on looks what other machines have written."""

_open: dict[Path, Mirror] = {}
"""By their directories: the homes in object stores that this process uses."""


def open_home(given: str | Path, say: Callable[[str], object]) -> Path:
    """The directory of a home by its path or address. What is in a store is brought there first; ``say`` is told of
    what had to be put aside, and of trouble with the store while the home is used.

    Raises :class:`UserError` for a bucket that is not there and for credentials that are missing or refused,
    ``OSError`` where the store does not answer.
    """
    root = local_directory(given)
    address = _address(root)
    if not address:
        return root
    root = root.resolve()
    mirror = _open.get(root)
    if mirror is None:
        need_boto3()
        mirror = Mirror(root, address, say)
        mirror.bucket.check()
        _open[root] = mirror
    mirror.pull()
    return root


def mirror_of(root: Path) -> Mirror | None:
    """Between the directory of a home and its store; None where it has none, or was not opened."""
    return _open.get(root.resolve()) if _open else None


def local_directory(given: str | Path) -> Path:
    """The directory of a home by its path or address; for a new address it is made. Nothing is asked of a store."""
    if not is_address(str(given)):
        return Path(given)
    address = Bucket(str(given)).address
    root = (_locals() / _folder(address)).resolve()
    if not _address(root):
        write_whole(root / DIRECTORY / "address", f"{address}\n")
    return root


def home_words(root: Path) -> str:
    """A home as ``--home`` names it."""
    mirror = mirror_of(root)
    return str(root) if mirror is None else mirror.address


def place_words(root: Path) -> str:
    """Where what lies, of a home in an object store; ``""`` of any other."""
    mirror = mirror_of(root)
    if mirror is None:
        return ""
    return f"{mirror.address}; journals and MLflow's record in {mirror.root} ({VARIABLE} names another place)"


def follow(root: Path) -> Callable[[], None]:
    """For a command that may go on for long: bring what other machines write, every few seconds. Call what is returned
    at its end: it copies what the command has changed."""
    mirror, over = _open[root.resolve()], threading.Event()

    def bring() -> None:
        while not over.wait(FOLLOW_EVERY_S):
            try:
                mirror.pull()
            except OSError:
                """What was there is still there; whoever writes says what is wrong."""

    thread = threading.Thread(target=bring, name="following", daemon=True)
    thread.start()

    def end() -> None:
        over.set()
        thread.join()
        try:
            mirror.push()
        except OSError as error:
            said = f"{error.filename} {error.strerror}"
            mirror.say(f"{said}; what was changed is not copied there yet: the next command with this home does it")

    return end


def _address(root: Path) -> str:
    """The place in a store whose home a directory is here; ``""`` where it is a home of its own."""
    file = root / DIRECTORY / "address"
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""


def _locals() -> Path:
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "transition-sweeps"


def _folder(address: str) -> str:
    """A name for the directory of an address that a person recognises, and no other address has."""
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", address.removeprefix("s3://"))[:60]
    return f"{plain}-{hashlib.sha256(address.encode()).hexdigest()[:8]}"
