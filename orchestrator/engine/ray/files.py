"""Ray's files on this machine: private temporary directories, and the tokens that protect Ray's ports."""

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
from orchestrator.system.permissions import exchange_text, hide_from_others

PRIVATE_PREFIX = "ray-"
"""Start of the names of private temporary directories."""
ATTEMPTS = 20
"""Maximum number of attempts to end processes or to remove a directory."""
ATTEMPT_EVERY_S = 0.1
"""Seconds between these attempts."""
LOCK = "driver.lock"
"""File in a private temporary directory. The process that made the directory keeps the file locked."""
RAY_DIRECTORY = "r"
"""Ray's own directory in a private temporary directory. Ray makes it writable for every user, so only the private
directory above it protects it."""
SESSION = re.compile(r"session_\d{4}-\d\d-\d\d_.*")
"""Pattern of the names of directories that Ray makes there."""
LONGEST_PATH = environment.LONGEST_SOCKET - len(
    f"/{PRIVATE_PREFIX}01234567/{RAY_DIRECTORY}/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"
)
"""Maximum number of bytes of the path of the directory for private directories. Ray appends a path of the above length
for a socket."""
TOKEN_MODE = "RAY_AUTH_MODE"
"""Environment variable that specifies whether Ray asks for a token."""
TOKEN = "RAY_AUTH_TOKEN"
"""Environment variable with Ray's token. Ray reads it before the variable :data:`TOKEN_PATH`."""
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"
"""Environment variable with the file of Ray's token, by default ``~/.ray/auth_token``."""


def sessions_parent() -> Path:
    """Return the directory for private temporary directories: ``RAY_TMPDIR``, or ``/tmp`` by default.

    Raises:
        UserError: if Ray cannot use it.
    """
    directory = Path(os.environ.get("RAY_TMPDIR") or "/tmp")
    if len(os.fsencode(directory)) > LONGEST_PATH or not environment.is_writable(directory):
        raise UserError(
            f"Ray cannot keep its sockets in {directory}: set RAY_TMPDIR to a writable directory with a path of at "
            f"most {LONGEST_PATH} bytes"
        )
    return directory


@contextmanager
def private_directory() -> Iterator[Path]:
    """Yield the path of a temporary directory for Ray that only this user can reach. Remove it after the block, and
    before the block remove directories of killed processes.

    On its own, Ray creates directories that every user can write, and never removes its logs. Ray's agents may outlive
    it and create directories again.

    Raises:
        UserError: if Ray cannot use the directory around it, or if others could put another directory, with a token of
            theirs, in its place.
    """
    parent = sessions_parent()
    directory = Path(tempfile.mkdtemp(prefix=PRIVATE_PREFIX, dir=parent))
    try:
        if text := exchange_text(directory):
            raise UserError(f"{text}, and could replace Ray's files: set RAY_TMPDIR to {environment.PRIVATE}")
        _remove_abandoned(parent)
        with _locked(directory / LOCK, os.O_CREAT | os.O_EXCL):
            yield directory / RAY_DIRECTORY
    finally:
        end_processes(directory)
        _remove(directory)


def is_private(directory: Path) -> bool:
    """Return True if :func:`private_directory` yielded this path."""
    return directory.name == RAY_DIRECTORY and directory.parent.name.startswith(PRIVATE_PREFIX)


def end_processes(directory: Path) -> None:
    """End the processes of the Ray that has its files in a private directory."""
    # Ray has usually ended them. But on a busy machine, an agent that has just started may not have noticed that yet.
    for _ in range(ATTEMPTS):
        if not (processes := _processes_of(directory)):
            return
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(ATTEMPT_EVERY_S)


def _processes_of(directory: Path) -> list[psutil.Process]:
    """Return the processes of this user with an option, such as ``--temp-dir``, whose value is in a directory."""
    # They cannot be found as children of this process, because they are no longer its children once Ray has ended.
    return [
        process
        for process in psutil.process_iter(["uids", "cmdline"])
        if (uids := process.info["uids"]) is not None
        and uids.real == os.getuid()
        and any(word.startswith("--") and f"{directory}/" in word for word in process.info["cmdline"] or ())
    ]


def _remove_abandoned(parent: Path) -> None:
    """Remove this user's private directories that no process is using."""
    for directory in parent.glob(f"{PRIVATE_PREFIX}*"):
        with suppress(OSError):
            status = directory.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or _processes_of(directory):
                continue
            if _is_from_agent(directory):
                # Only one attempt, because it may contain another user's files, which cannot be removed.
                shutil.rmtree(directory, ignore_errors=True)
            elif not status.st_mode & 0o077:
                # If it has no lock file, another program made it, or another process is making it now.
                with _locked(directory / LOCK):
                    _remove(directory)


def _is_from_agent(directory: Path) -> bool:
    """Return True if an agent of Ray made a directory again after it was removed: it has only sessions of Ray and no
    lock. Raises ``OSError`` if the directory cannot be read."""
    sessions = directory / RAY_DIRECTORY
    if os.listdir(directory) != [RAY_DIRECTORY] or sessions.is_symlink():
        return False
    names = os.listdir(sessions)
    return bool(names) and all(map(SESSION.fullmatch, names))


@contextmanager
def _locked(path: Path, flags: int = 0) -> Iterator[None]:
    """Lock a file during the block. Raises ``OSError`` if the file is missing or another process has locked it."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _remove(directory: Path) -> None:
    """Remove a directory. Try several times, because ending processes may write to it for a moment longer."""
    for _ in range(ATTEMPTS):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(ATTEMPT_EVERY_S)


def token_file() -> Path:
    """Return the file with the token that Ray uses now."""
    return Path(os.environ.get(TOKEN_PATH) or Path.home() / ".ray" / "auth_token")


def protect_token() -> None:
    """Make the file with a cluster's token readable only by this user, if it exists."""
    environment.settle_user()
    hide_from_others(token_file())


@contextmanager
def fresh_token(directory: Path) -> Iterator[None]:
    """During the block, protect Ray on this machine with a new token, which is stored in a private directory.

    The user's own token is not safe enough: it also opens clusters, so other people may have copied it. If the user has
    set ``RAY_AUTH_MODE`` to "disabled", Ray asks for no token, and none is written.

    Raises:
        UserError: if the token cannot be written.
    """
    before = {name: os.environ.get(name) for name in (TOKEN_MODE, TOKEN, TOKEN_PATH)}
    if (before[TOKEN_MODE] or "token").lower() != "token":
        yield
        return
    path = directory / "token"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(generate_new_authentication_token())
    except OSError as error:
        problem = f"Ray's token cannot be written to {path} ({error.strerror})"
        raise UserError(f"{problem}: free some space there, or set RAY_TMPDIR to another directory") from error
    _use_tokens({TOKEN_MODE: "token", TOKEN: None, TOKEN_PATH: str(path)})
    try:
        yield
    finally:
        _use_tokens(before)


def _use_tokens(variables: Mapping[str, str | None]) -> None:
    """Set environment variables for Ray's tokens, or remove those that are None. Also drop Ray's cache of the token."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    # The mode must be updated first. Otherwise a thread of Ray could ask for a token that does not exist, and Ray would
    # abort this process.
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
