"""Isolates this program and its child processes from configuration meant for other programs: environment variables,
warnings turned into errors, and modules in the working directory."""

from __future__ import annotations

import os
import pwd
import re
import stat
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path

from orchestrator.errors import UserError

FOREIGN = re.compile(
    "_?MLFLOW_.*|TUNE_.*|RAY_(AIR|TRAIN|CHDIR)_.*"  # the user's own experiments, servers and sweeps
    "|TORCH_(LOGS|TRACE).*"  # debugging output of other models
    "|(UVICORN|GUNICORN|FLASK|WERKZEUG)_.*|WEB_CONCURRENCY|FORWARDED_ALLOW_IPS"  # web servers, such as MLflow's
    "|MPLBACKEND|MATPLOTLIBRC|SOURCE_DATE_EPOCH|PYTHONWARNINGS"  # drawing, building and testing
)
"""Environment variables for other programs that would change how this program works."""
PASSED = re.compile(
    "MLFLOW_(TRACKING|HTTP|S3|BOTO_CLIENT|KERBEROS)_.*"  # where the record is, how to sign in, whom to trust
    "|MLFLOW_(WORKSPACE|ARTIFACT_UPLOAD_DOWNLOAD_TIMEOUT|DISABLE_TELEMETRY|SUPPRESS_PRINTING_URL_TO_STDOUT)"
)
"""Exceptions among the foreign variables, which a user may set for this program."""


def is_foreign(name: str) -> bool:
    """Return True for a variable that is meant for another program."""
    return FOREIGN.fullmatch(name) is not None and PASSED.fullmatch(name) is None


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


def with_usable_size(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without COLUMNS and LINES that are not positive, as cron and some containers set them.
    rich prefers these to the actual size and would print nothing."""
    useless = {name for name in ("COLUMNS", "LINES") if not environment.get(name, "1").strip("0").isdecimal()}
    return {name: value for name, value in environment.items() if name not in useless}


PACKAGES = ("orchestrator", "trainables", "search_spaces")
ROOT = str(Path(__file__).resolve().parents[1])
"""Directory that contains the packages of this program."""
STANDARD_ERROR = 2
ELSEWHERE = "name another directory as --scratch, or set TMPDIR"
"""Remedy for an unusable temporary directory."""


def begin() -> None:
    """Prepare this process before it imports the rest of the program or its libraries. Raises :class:`UserError` if a
    directory in ``PYTHONPATH`` hides a package of this program."""
    # Reopen standard streams that cron and daemons leave closed. Otherwise the next file opened, such as a journal,
    # takes one of their descriptors, and libraries print into it.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STANDARD_ERROR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    _drop_foreign()
    settle_user()
    if any(option.startswith("error") for option in sys.warnoptions):
        warnings.simplefilter("default")  # A library's call of a deprecated function must not end a sweep.
    # Modules in the working directory can be imported, but do not replace modules of a library or of this program,
    # because ``__main__`` has removed the directory.
    if (here := working_directory()) is not None:
        # Directories are searched before an editable install.
        sys.path += [ROOT, here] if any(hiding(name, [here]) for name in PACKAGES) else [here]
    check_packages(sys.path)


def working_directory() -> str | None:
    """Return the working directory, or None if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def check_packages(search_path: Sequence[str]) -> None:
    """Raise :class:`UserError` if a user's module hides a package of this program."""
    for name in PACKAGES:
        if (path := hiding(name, search_path)) is not None:
            raise UserError(
                f"{path} hides the package {name!r} of this program: rename it, start from another directory, or "
                "remove its directory from PYTHONPATH"
            )


def hiding(name: str, search_path: Sequence[str]) -> str | None:
    """Return the file or directory that this path imports as ``name``, or None if it belongs to this program."""
    spec = PathFinder.find_spec(name, list(search_path))
    paths = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    path = next(filter(None, paths), None)
    return None if path is None or Path(path).resolve().is_relative_to(Path(ROOT, name)) else path


def settle_user() -> None:
    """Set a user name and home directory for this process if they are missing. Containers may run under user ids
    without an entry in the user list, and many libraries need both."""
    home = os.environ.get("HOME", "")
    try:
        home = home or pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        os.environ.setdefault("USER", f"uid-{os.getuid()}")
    if not os.path.isabs(home) or not Path(home).is_dir():
        os.environ["HOME"] = str(private_directory())


def private_directory() -> Path:
    """Create and return a directory of this user in the system's temporary directory. Raises :class:`UserError` if it
    cannot be created, or if others could write to it and so change what is trained."""
    path = Path(tempfile.gettempdir()) / f"orchestrator-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise UserError(f"{path} cannot be made: {error.strerror}; {ELSEWHERE}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise UserError(f"{path} does not belong to this user alone: remove it, or {ELSEWHERE}")
    return path


def is_writable(directory: Path) -> bool:
    """Return True if a file can be created in a directory. Permissions alone do not show a read-only disk."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def user_path(given: str | Path) -> Path:
    """Return a path with ``~`` expanded, also in ``--home=~/x``. Raises :class:`UserError` for an unknown user."""
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise UserError(f"{str(given)!r}: no user has that name; write the full path") from None
