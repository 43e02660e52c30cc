"""Ray's files on this machine: its private temporary directories, and the tokens that protect its ports."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from ray._private.authentication.authentication_token_generator import generate_new_authentication_token
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

from orchestrator.system import environment
from orchestrator.system.errors import UserError

PREFIX = "ray-"
"""Start of the names of private temporary directories."""
TRIES, WAIT_S = 20, 0.1
"""Attempts to end processes or to remove a directory, and seconds between them."""
LOCK = "driver.lock"
"""File in a private temporary directory that the process that made it keeps locked."""
INSIDE = "r"
"""Directory for Ray in a private temporary directory. Ray makes it writable for every user, so it needs one above."""
SESSION = re.compile(r"session_\d{4}-\d\d-\d\d_.*")
"""Pattern of names of directories that Ray makes there."""
LONGEST = environment.LONGEST_SOCKET - len(
    f"/{PREFIX}01234567/{INSIDE}/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"
)
"""Maximum length in bytes of the path of the place for temporary directories. Ray appends these bytes for a socket."""
MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
"""Environment variables that specify whether Ray asks for a token, the token, and its file. Ray reads the first that
is set, and otherwise ``~/.ray/auth_token``."""


def place_for_sessions() -> Path:
    """Return the directory for private temporary directories: ``RAY_TMPDIR``, or ``/tmp``. Raises :class:`UserError` if
    Ray cannot use it."""
    directory = Path(os.environ.get("RAY_TMPDIR") or "/tmp")
    if len(os.fsencode(directory)) > LONGEST or not environment.is_writable(directory):
        raise UserError(
            f"Ray cannot keep its sockets in {directory}: set RAY_TMPDIR to a directory that can be written, with a "
            f"path of at most {LONGEST} bytes"
        )
    return directory


@contextmanager
def private_directory() -> Iterator[Path]:
    """Yield the path of a temporary directory for a Ray on this machine, which only this user can reach, and remove it
    after the block. Also remove directories of killed processes.

    Ray itself creates directories that every user can write, and never removes its logs. Its agents may outlive it, and
    would make them again in a directory that every user can reach.
    """
    place = place_for_sessions()
    _remove_abandoned(place)
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    try:
        with _locked(directory / LOCK, os.O_CREAT | os.O_EXCL):
            yield directory / INSIDE
    finally:
        end_processes(directory)
        _remove(directory)


def is_private(directory: Path) -> bool:
    """Return True for the path of :func:`private_directory`."""
    return directory.name == INSIDE and directory.parent.name.startswith(PREFIX)


def end_processes(directory: Path) -> None:
    """End the processes of a Ray with its files in a private directory. On a busy machine, an agent that has just
    started notices only later that Ray has ended."""
    for _ in range(TRIES):
        if not (processes := _processes_of(directory)):
            return
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(WAIT_S)


def _processes_of(directory: Path) -> list[psutil.Process]:
    """Return the processes of this user with an option, such as ``--temp-dir``, that names a path in a directory. If
    Ray has ended, they are no longer children of this process."""
    return [
        process
        for process in psutil.process_iter(["uids", "cmdline"])
        if (uids := process.info["uids"]) is not None
        and uids.real == os.getuid()
        and any(word.startswith("--") and f"{directory}/" in word for word in process.info["cmdline"] or ())
    ]


def _remove_abandoned(place: Path) -> None:
    """Remove private directories of this user that no process uses any more."""
    for directory in place.glob(f"{PREFIX}*"):
        with suppress(OSError):
            status = directory.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or _processes_of(directory):
                continue
            if _is_from_agent(directory):
                shutil.rmtree(directory, ignore_errors=True)  # One try: another user's files in it may stay.
            elif not status.st_mode & 0o077:
                # A directory without this file is not one of ours, or is being made now.
                with _locked(directory / LOCK):
                    _remove(directory)


def _is_from_agent(directory: Path) -> bool:
    """Return True if a directory has nothing but sessions of Ray, and no lock: an agent made it again after it was
    removed. Raises ``OSError`` if it cannot be read."""
    inside = directory / INSIDE
    if os.listdir(directory) != [INSIDE] or inside.is_symlink():
        return False
    names = os.listdir(inside)
    return bool(names) and all(map(SESSION.fullmatch, names))


@contextmanager
def _locked(path: Path, flags: int = 0) -> Iterator[None]:
    """Hold a lock of a file. Raises ``OSError`` if the file is missing, or another process has the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _remove(directory: Path) -> None:
    """Remove a directory, in which processes that end may still write for a moment."""
    for _ in range(TRIES):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(WAIT_S)


def token_file() -> Path:
    """Return the file of the token that Ray uses now."""
    return Path(os.environ.get(TOKEN_PATH) or Path.home() / ".ray" / "auth_token")


def protect_token() -> None:
    """Make the file of the token of a cluster, if there is one, readable only by this user."""
    environment.settle_user()
    with suppress(OSError):  # The file may be missing, or a mounted secret.
        token_file().chmod(0o600)


@contextmanager
def fresh_token(directory: Path) -> Iterator[None]:
    """During the block, let a new token protect a Ray of this machine. It is stored in a private directory.

    The user's own token also opens clusters, so other people may have copied it. If ``RAY_AUTH_MODE`` is "disabled",
    Ray asks for no token, and none is written. Raises :class:`UserError` if the token cannot be written.
    """
    before = {name: os.environ.get(name) for name in (MODE, TOKEN, TOKEN_PATH)}
    if (before[MODE] or "token").lower() != "token":
        yield
        return
    path = directory / "token"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(generate_new_authentication_token())
    except OSError as error:
        why = f"Ray's token cannot be written to {path} ({error.strerror})"
        raise UserError(f"{why}: free some space there, or set RAY_TMPDIR to another directory") from error
    _use_tokens({MODE: "token", TOKEN: None, TOKEN_PATH: str(path)})
    try:
        yield
    finally:
        _use_tokens(before)


def _use_tokens(variables: Mapping[str, str | None]) -> None:
    """Set or remove environment variables of Ray's tokens. Ray caches what they specify, so also drop its cache."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    # Set the mode first: if a thread of Ray asked for a token that does not exist, Ray would abort this process.
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
