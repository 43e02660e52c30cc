"""Isolates this program and its child processes from environment variables that are meant for other programs. Supplies
a missing home directory."""

from __future__ import annotations

import codecs
import io
import os
import pwd
import re
import stat
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from orchestrator.system.errors import UserError
from orchestrator.system.permissions import exchange_text, writable_by_others

HOME = Path("results")
"""Default directory of runs and sweeps, below the working directory."""
FOREIGN_VARIABLES = re.compile(
    "_?MLFLOW_.*|TUNE_.*|RAY_(AIR|TRAIN|CHDIR)_.*"  # the user's own experiments, servers and sweeps
    "|TORCH_(LOGS|TRACE).*"  # debugging output of other models
    "|(UVICORN|GUNICORN|FLASK|WERKZEUG)_.*|WEB_CONCURRENCY|FORWARDED_ALLOW_IPS"  # web servers, such as MLflow's
    "|MPLBACKEND|MATPLOTLIBRC|SOURCE_DATE_EPOCH|PYTHONWARNINGS"  # drawing, building and testing
)
"""Environment variables for other programs that would change how this program works."""
PASSED_VARIABLES = re.compile(
    "MLFLOW_(TRACKING|HTTP|S3|BOTO_CLIENT|KERBEROS)_.*"  # where the record is, how to sign in, whom to trust
    "|MLFLOW_(WORKSPACE|ARTIFACT_UPLOAD_DOWNLOAD_TIMEOUT|DISABLE_TELEMETRY|SUPPRESS_PRINTING_URL_TO_STDOUT)"
)
"""Exceptions from :data:`FOREIGN_VARIABLES`, which a user may set for this program."""


def is_foreign(name: str) -> bool:
    """Return True if a variable is meant for another program."""
    return FOREIGN_VARIABLES.fullmatch(name) is not None and PASSED_VARIABLES.fullmatch(name) is None


def _drop_foreign() -> dict[str, str]:
    return {name: os.environ.pop(name) for name in list(os.environ) if is_foreign(name)}


@contextmanager
def without_foreign() -> Iterator[None]:
    """Remove foreign variables during the block."""
    dropped = _drop_foreign()
    try:
        yield
    finally:
        os.environ.update(dropped)


ELSEWHERE = "pass another directory as --scratch, or set TMPDIR"
"""Remedy for an unusable temporary directory."""


def begin() -> None:
    """Prepare this process before it imports libraries. Raises :class:`UserError` if no directory can serve as the
    user's home directory."""
    _drop_foreign()
    _settle_terminal()
    _settle_warnings()
    settle_user()


SIZE_VARIABLES = ("COLUMNS", "LINES")
"""Variables with the size of the terminal."""


def without_empty_sizes(variables: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables without a terminal size of 0. Some programs pass such a size on, and with a width of
    0 nothing would be printed."""
    return {name: value for name, value in variables.items() if name not in SIZE_VARIABLES or value.strip("0 ") != ""}


def _settle_terminal() -> None:
    """Drop empty sizes, and make sure that stdout can print any text. For example, Chinese letters become escapes if
    its encoding is latin-1."""
    usable = without_empty_sizes(os.environ)
    for name in SIZE_VARIABLES:
        if name not in usable:
            os.environ.pop(name, None)
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        is_utf8 = codecs.lookup(stream.encoding).name == "utf-8"
        if not is_utf8 or stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def prefer_one_thread() -> None:
    """Use one thread unless the user set a number. Small models train slower with more threads.

    Call this before torch is imported.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def _settle_warnings() -> None:
    """Undo the effect of ``PYTHONWARNINGS`` and ``-W`` on this process. Python applies them before it calls this
    program, and they could turn warnings of libraries into errors."""
    if sys.warnoptions:
        sys.warnoptions.clear()
        warnings.resetwarnings()
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)


def settle_user() -> None:
    """Set a user name and home directory for this process if they are missing. Many libraries need both, but containers
    may run under a user id that is not in the user list."""
    home = os.environ.get("HOME", "")
    try:
        home = home or pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        os.environ.setdefault("USER", f"uid-{os.getuid()}")
    if not os.path.isabs(home) or not Path(home).is_dir():
        os.environ["HOME"] = str(private_directory())


def private_directory(place: Path | None = None) -> Path:
    """Create and return a directory of this user in ``place``, by default the system's temporary directory. Raises
    :class:`UserError` if it cannot be created, or if others could write or replace it and so change what is trained."""
    path = (place or Path(tempfile.gettempdir())) / f"orchestrator-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise UserError(f"{path} cannot be made: {error.strerror}; {ELSEWHERE}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise UserError(f"{path} does not belong to this user alone: remove it, or {ELSEWHERE}")
    if text := exchange_text(path):
        raise UserError(f"{text}, and could replace {path}: {ELSEWHERE}")
    return path


def scratch(chosen: str | None) -> Path:
    """Create and return a directory for training data, by default in the system's temporary directory.

    Sweeps share the data, so the directory stays after a sweep. If other users can write the chosen directory, such as
    ``/scratch``, return a private subdirectory, because they could put other data there.

    Raises:
        UserError: If it cannot be created, or if other users could write to it.
    """
    if not chosen:
        return private_directory()
    path = user_path(chosen)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path} cannot be created: {error.strerror}; pass another directory as --scratch") from error
    status = path.stat()
    is_own = status.st_uid in (0, os.getuid()) and writable_by_others(path.resolve()) is None
    return path if is_own else private_directory(path)


PRIVATE = "a directory that only you can write"
"""End of the advice to choose another directory."""


@contextmanager
def temporary_directory(prefix: str, place: Path | None = None) -> Iterator[Path]:
    """Create a directory that only this user can open in ``place``, by default the system's temporary directory, and
    remove it after the block. Raises :class:`UserError` if others could put another directory in its place."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as directory:
        if text := exchange_text(Path(directory)):
            advice = f": set TMPDIR to {PRIVATE}" if place is None else " there"
            raise UserError(f"{text}, and could replace temporary files{advice}")
        yield Path(directory)


LONGEST_SOCKET = 107
"""Maximum length in bytes of the path of a Unix socket on Linux. macOS allows 103."""
SOCKET_ROOM = 44
"""Bytes that the names of :func:`socket_directory` and of a socket in it add to a path."""


@contextmanager
def socket_directory() -> Iterator[Path]:
    """Create a directory that only this user can open, with a path that is short enough for sockets, and remove it
    after the block. Raises :class:`UserError` if every directory's path is too long, or if others could put another
    directory, with a socket of theirs, in its place."""
    short = [
        place for place in (tempfile.gettempdir(), "/tmp") if len(os.fsencode(place)) < LONGEST_SOCKET - SOCKET_ROOM
    ]
    usable = dict.fromkeys(filter(is_writable, map(Path, short)))
    if not usable:
        raise UserError(
            "the paths of all temporary directories are too long for a socket: set TMPDIR to a short path such as /tmp"
        )
    text = ""
    for place in usable:
        with tempfile.TemporaryDirectory(prefix="orchestrator-", dir=place, ignore_cleanup_errors=True) as directory:
            if not (text := exchange_text(Path(directory))):
                yield Path(directory)
                return
    raise UserError(f"{text}, and could replace MLflow's socket: set TMPDIR to {PRIVATE}")


def is_writable(directory: Path) -> bool:
    """Return True if a file can be created in a directory. Permissions alone do not reveal a read-only disk."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def user_path(given: str | Path) -> Path:
    """Return a path with ``~`` expanded, even in ``--home=~/x``. Raises :class:`UserError` for an unknown user."""
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise UserError(f"{str(given)!r}: no user has that name; write the full path") from None
