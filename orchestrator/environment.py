"""Settings for other programs, kept away from this program and the processes it starts: environment variables, warnings
that raise, modules in the working directory."""

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
    "|(UVICORN|GUNICORN|FLASK|WERKZEUG)_.*|WEB_CONCURRENCY|FORWARDED_ALLOW_IPS"  # web servers, such as that of MLflow
    "|MPLBACKEND|MATPLOTLIBRC|SOURCE_DATE_EPOCH|PYTHONWARNINGS"  # drawing, building and testing
)
"""Variables for other work that would change what this program does."""
PASSED = re.compile(
    "MLFLOW_(TRACKING|HTTP|S3|BOTO_CLIENT|KERBEROS)_.*"  # where the record is, how to sign in, whom to trust
    "|MLFLOW_(WORKSPACE|ARTIFACT_UPLOAD_DOWNLOAD_TIMEOUT|DISABLE_TELEMETRY|SUPPRESS_PRINTING_URL_TO_STDOUT)"
)
"""Variables among them that a user may set for this program."""


def is_foreign(name: str) -> bool:
    """Return True for a variable that is not for this program."""
    return FOREIGN.fullmatch(name) is not None and PASSED.fullmatch(name) is None


def ours(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables of other work."""
    return {name: value for name, value in environment.items() if not is_foreign(name)}


def drop_foreign() -> dict[str, str]:
    """Remove the variables of other work from this process's environment. Return them with their values."""
    return {name: os.environ.pop(name) for name in list(os.environ) if is_foreign(name)}


@contextmanager
def without_foreign() -> Iterator[None]:
    """Remove the variables of other work during the block."""
    dropped = drop_foreign()
    try:
        yield
    finally:
        os.environ.update(dropped)


STANDARD_ERROR = 2
"""Descriptor of the last of the three standard streams."""


def open_streams() -> None:
    """Open standard streams that are closed, as by cron or a daemon. Otherwise the next file, such as a journal, takes
    their numbers, and what a library prints ends in it."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STANDARD_ERROR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


PACKAGES = ("orchestrator", "trainables", "search_spaces")
"""The packages of this program."""
ROOT = str(Path(__file__).resolve().parents[1])
"""The directory that contains them."""

ELSEWHERE = "name another directory as --scratch, or set TMPDIR"
"""Remedy for a temporary directory that cannot be used."""


def begin() -> None:
    """Prepare this process, before it imports anything else of the program or of its libraries.

    Raises:
        UserError: if a directory of ``PYTHONPATH`` hides a package of this program.
    """
    open_streams()
    drop_foreign()
    settle_user()
    if any(option.startswith("error") for option in sys.warnoptions):
        warnings.simplefilter("default")  # A deprecated call in a library must not end a sweep.
    # A module in the working directory can be imported, but does not replace one of a library or of this program:
    # ``__main__`` has taken the directory out.
    if (here := working_directory()) is not None:
        # Directories are searched before an editable install.
        sys.path += [ROOT, here] if any(hiding(name, [here]) for name in PACKAGES) else [here]
    check_packages(sys.path)


def working_directory() -> str | None:
    """Return the working directory; None if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def check_packages(search_path: Sequence[str]) -> None:
    """Raise :class:`UserError` if a module of the user hides a package of this program."""
    for name in PACKAGES:
        if (path := hiding(name, search_path)) is not None:
            raise UserError(
                f"{path} hides the package {name!r} of this program: rename it, start from another directory, or "
                "remove its directory from PYTHONPATH"
            )


def hiding(name: str, search_path: Sequence[str]) -> str | None:
    """Return the file or directory that is imported as ``name`` on this path, unless it is this program's own."""
    spec = PathFinder.find_spec(name, list(search_path))
    paths = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    path = next(filter(None, paths), None)
    return None if path is None or Path(path).resolve().is_relative_to(Path(ROOT, name)) else path


def settle_user() -> None:
    """Give this process the name and home directory of a user, if it has none. Containers may run under ids that have
    no entry in the list of users, and many libraries need both."""
    home = os.environ.get("HOME", "")
    try:
        home = home or pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        os.environ.setdefault("USER", f"uid-{os.getuid()}")
    if not os.path.isabs(home) or not Path(home).is_dir():
        os.environ["HOME"] = str(private_directory())


def private_directory() -> Path:
    """Create and return a directory in the system's temporary one that belongs to this user alone.

    Raises:
        UserError: if it cannot be created, or if others can write into it and so change what is trained.
    """
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
    """Return True if a file can be created in a directory. Permissions are not enough: its disk may be read-only."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def user_path(given: str | Path) -> Path:
    """Return a path with ``~`` expanded, which a shell does not do in ``--home=~/x``.

    Raises:
        UserError: for the home directory of an unknown user.
    """
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise UserError(f"{str(given)!r}: there is no home directory with that name; write the full path") from None
