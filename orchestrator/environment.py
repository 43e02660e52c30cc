"""Settings of a process that were made for other work, and must not reach this program or the processes it starts:
environment variables, warnings that raise, modules in the working directory."""

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
    "_?MLFLOW_.*|TUNE_.*|RAY_AIR_.*|RAY_TRAIN_.*"  # experiments, servers and sweeps of the user's own
    "|TORCH_(LOGS|TRACE).*"  # what to print of somebody's model
    "|(UVICORN|GUNICORN|FLASK|WERKZEUG)_.*|WEB_CONCURRENCY|FORWARDED_ALLOW_IPS"  # web servers; MLflow's page is one
    "|MPLBACKEND|MATPLOTLIBRC|SOURCE_DATE_EPOCH|PYTHONWARNINGS"  # how others draw, build and test
)
"""Names that other programs read as we do not mean them."""
PASSED = re.compile(
    "MLFLOW_(TRACKING|HTTP|S3|BOTO_CLIENT|KERBEROS)_.*"  # where the record is, how to sign in there, whom to trust
    "|MLFLOW_(WORKSPACE|ARTIFACT_UPLOAD_DOWNLOAD_TIMEOUT|DISABLE_TELEMETRY|SUPPRESS_PRINTING_URL_TO_STDOUT)"
)
"""Those among them that a user must be able to pass."""


def is_foreign(name: str) -> bool:
    """True for a variable that was not meant for this program."""
    return FOREIGN.fullmatch(name) is not None and PASSED.fullmatch(name) is None


def ours(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables of other work."""
    return {name: value for name, value in environment.items() if not is_foreign(name)}


def drop_foreign() -> dict[str, str]:
    """Remove the variables of other work from this process's environment. Return them with their values."""
    return {name: os.environ.pop(name) for name in list(os.environ) if is_foreign(name)}


@contextmanager
def without_foreign() -> Iterator[None]:
    """A block without the variables of other work; at its end they are back."""
    dropped = drop_foreign()
    try:
        yield
    finally:
        os.environ.update(dropped)


PACKAGES = ("orchestrator", "trainables", "search_spaces")
"""The packages of this program."""
ROOT = str(Path(__file__).resolve().parents[1])
"""The directory that contains them."""

ELSEWHERE = "name another directory as --scratch, or set TMPDIR"
"""What to do about a temporary directory that cannot be used."""


def begin() -> None:
    """Settle this process, before it imports anything else of the program or of its libraries.

    Raises :class:`UserError` if a directory of ``PYTHONPATH`` hides a package of this program.
    """
    drop_foreign()
    settle_user()
    if any(option.startswith("error") for option in sys.warnoptions):
        warnings.simplefilter("default")  # Shown, as asked; but a deprecated call in a library must not end a sweep.
    # A module in the working directory is found, but not in place of one of a library or of this program.
    if (here := working_directory()) is not None:
        sys.path[:] = [path for path in sys.path if path not in ("", here)]
        # An editable install is asked after all directories.
        sys.path += [ROOT, here] if any(hiding(name, [here]) for name in PACKAGES) else [here]
    check_packages(sys.path)


def working_directory() -> str | None:
    """Return the working directory; None if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def check_packages(search_path: Sequence[str]) -> None:
    """Raise :class:`UserError` if a module of the user's own is found in place of one of this program's packages."""
    for name in PACKAGES:
        if (other := hiding(name, search_path)) is not None:
            raise UserError(
                f"{other} hides the package {name!r} of this program: rename it, start from another directory, or take "
                "its directory out of PYTHONPATH"
            )


def hiding(name: str, search_path: Sequence[str]) -> str | None:
    """Return the file or directory that is imported as ``name`` on this path, unless it is this program's own."""
    spec = PathFinder.find_spec(name, list(search_path))
    places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    found = next((place for place in places if place), None)
    return None if found is None or Path(found).resolve().is_relative_to(Path(ROOT, name)) else found


def settle_user() -> None:
    """Give this process a name and a home directory of its user, if there are none: containers run under ids that have
    no entry in the list of users, and many libraries ask for both."""
    home = os.environ.get("HOME", "")
    try:
        home = home or pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        os.environ.setdefault("USER", f"uid-{os.getuid()}")
    if not home or not Path(home).is_dir():
        os.environ["HOME"] = str(private_directory())


def private_directory() -> Path:
    """Return a directory of this user's alone beneath the system's temporary one; made if missing.

    Raises :class:`UserError` if it cannot be made, or if others can write into it: they could change what is trained.
    """
    path = Path(tempfile.gettempdir()) / f"orchestrator-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        there = path.lstat()
    except OSError as error:
        raise UserError(f"{path} cannot be made: {error.strerror}; {ELSEWHERE}") from error
    if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.getuid() or there.st_mode & 0o022:
        raise UserError(f"{path} is not this user's alone: remove it, or {ELSEWHERE}")
    return path


def is_writable(directory: Path) -> bool:
    """True if a file can be made in a directory. Permissions alone do not tell: it may be mounted to be read."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def user_path(given: str | Path) -> Path:
    """Return the path that a person means: ``~`` is a home directory, which a shell leaves alone in ``--home=~/x``.

    Raises :class:`UserError` for the home directory of an unknown user.
    """
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise UserError(f"{str(given)!r}: there is no home directory of that name; write the path in full") from None
