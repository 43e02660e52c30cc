"""Code that a home may name. A home can come from somebody else, so reading one must not run code of its author.

A sweep names its family and its probes as ``package.module:Class``. Reading a home imports only built-in ones,
installed packages, modules that this user has run in a sweep, and modules in folders that this user has allowed with
``home trust FOLDER``. A run allows its module or package alone: what is unpacked into the same folder later may be of
somebody else. Modules and folders are listed in the user's own configuration directory, never in a home.
Nothing is imported from the files of a home, through the working directory, or from a folder that others own or can
write.

A script is code, too: its command is run only from a search space that this user names. The scripts in the files of
sweeps count only if this user has run them before.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.home.directories import DATABASE
from orchestrator.home.ownership import homes_list, is_home, trust_home
from orchestrator.system.commands import command_line
from orchestrator.system.errors import UserError
from orchestrator.system.own_lists import add_to_list, own_list, read_list
from orchestrator.system.permissions import closing_text, who_can_write_text, writable_by_others
from trainables.contract.user_code import PRODUCT, PROGRAM, import_from, is_installed, module_file, offer
from trainables.contract.user_code import folder_of as folder_of_module
from trainables.families import BUILT_IN as FAMILIES
from trainables.probes.base import BUILT_IN as PROBES

MODULE = re.compile(r"[A-Za-z_]\w{0,63}(\.[A-Za-z_]\w{0,63}){0,15}")
"""Pattern of a module's dotted name."""
PARTS_OF_HOME = ("runs", "sweeps", "claims", "artifacts")
"""Directories of a home that an archive or a record can fill."""
MARKS = {"sweeps": "journal.jsonl", "runs": "outcome.json"}
"""Files in the directories of sweeps and runs, by the name of the directory above."""
IDS = {"sweeps": re.compile(r"-\d{8}-\d{6}-[0-9a-f]{4}$"), "runs": re.compile(r"^[0-9a-f]{16}$")}
"""Patterns of the names of these directories, for those that lack the file."""
RECORD_ID = re.compile(r"^[0-9a-f]{32}$")
"""Pattern of the names of directories below ``artifacts/EXPERIMENT``, which have the files of MLflow's records."""
OF_COMMAND = ("command", "directory", "resume", "environment", "config", "config_name", "file")
"""Options of a script that decide what is run, and with which values."""


class TrustEntry(NamedTuple):
    """A folder, and the module or package in it that this user has run, or "" for every module in the folder."""

    folder: Path
    top: str = ""


class UntrustedCodeError(ValueError):
    """A home names code that must not be imported. The message says why, and how to allow it."""


def list_path() -> Path:
    """Return the file with this user's code, one JSON value per line: a folder, or a list of a folder and the name of a
    module or package in it."""
    return own_list("folders.jsonl")


def trusted_code() -> list[TrustEntry]:
    """Return the code that this user has named, the latest first. A list that others could write does not count."""
    named = []
    for value in read_list(list_path()):
        match value:
            case str(folder) | [str(folder)]:
                named.append((folder, ""))
            case [str(folder), str(top)] if top:
                named.append((folder, top))
    usable = [TrustEntry(Path(folder), top) for folder, top in named if os.path.isabs(folder) and "\0" not in folder]
    return list(dict.fromkeys(reversed(usable)))


def trusted_folders() -> list[Path]:
    """Return the folders of :func:`trusted_code`."""
    return list(dict.fromkeys(code.folder for code in trusted_code()))


def is_trusted(folder: str) -> bool:
    """Return whether this user has named a folder, given as an absolute path."""
    return os.path.isabs(folder) and "\0" not in folder and Path(folder).resolve() in trusted_folders()


def trust(folder: Path, top: str = "") -> None:
    """Add a folder to this user's list, or only the module or package ``top`` in it. Raises ``OSError`` if the list
    cannot be written."""
    folder, path = folder.resolve(), list_path()
    if not {TrustEntry(folder), TrustEntry(folder, top)}.isdisjoint(trusted_code()):
        return
    add_to_list(path, [str(folder), top] if top else str(folder))


def trust_directory(directory: Path, warn: Callable[[str], object]) -> str:
    """List a home as this user's own, or allow sweeps to import code from any other directory.

    Args:
        directory: An absolute path.
        warn: Called with a message if other users can write the home.

    Returns:
        A message about the directory.

    Raises:
        UserError: If the directory is missing, or its code would not be imported anyway.
    """
    if not directory.is_dir():
        raise UserError(f"{directory} is not a directory: name a home, or a folder with the module of a family")
    if is_home(directory) or not any(directory.iterdir()):  # An empty directory has no code, and can become a home.
        if warning := trust_home(directory):
            warn(warning)
        return f"{directory} is now listed as your home in {homes_list()}. Sweeps import no code from it"
    if is_in_sweep(directory):
        raise UserError(f"{directory} is part of a home, from which no code is imported: copy the code elsewhere")
    if open_place := writable_by_others(directory):
        remedy = closing_text(open_place, "move the code to a folder of yours")
        raise UserError(f"{who_can_write_text(open_place)}, so it is not imported from: {remedy}")
    trust(directory)
    return f"sweeps may now import code from {directory}; {list_path()} lists all such folders"


def scripts_path() -> Path:
    """Return the file with hashes of the scripts that this user has run, one JSON string per line."""
    return list_path().with_name("scripts.jsonl")


def digest_of_script(values: Mapping[str, Any]) -> str:
    """Return a hash of everything in a specification, given as plain values, that decides which commands its script
    runs. Text among its settings and the names of tasks become arguments."""
    script = {name: value for name, value in dict(values["script"]).items() if name in OF_COMMAND and value}
    described = [script, *(values.get(name) or None for name in ("settings", "recipes", "mixes", "target"))]
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def remember_script(values: Mapping[str, Any]) -> None:
    """Note that this user runs a script. Raises ``OSError``."""
    if not is_known_script(values):
        add_to_list(scripts_path(), digest_of_script(values))


def is_known_script(values: Mapping[str, Any]) -> bool:
    """Return True if this user has run a script with these settings from a search space."""
    return digest_of_script(values) in read_list(scripts_path())


def check_script(data: object) -> None:
    """Raise :class:`UntrustedCodeError` if a specification of somebody else names a script that this user has not
    run."""
    if not isinstance(data, Mapping) or not isinstance(data.get("script"), Mapping) or is_known_script(data):
        return
    words = data["script"].get("command")
    raise UntrustedCodeError(
        f"its script was never run by you from a search space, and a home may be of somebody else: {words!r:.200}. "
        "Read it, copy the search space out of the home, and run the copy"
    )


def trust_code_of(names: Iterable[str]) -> None:
    """Trust the modules that this user runs now, given by names such as ``package.module:Class``, with all of their
    package. Raises ``OSError`` as :func:`trust`."""
    for name in names:
        folder = folder_of(name)
        if folder and not is_installed(Path(folder)):
            trust(Path(folder), name.partition(":")[0].partition(".")[0])


def folder_of(name: str) -> str:
    """Return the folder that an imported ``package.module:Class`` comes from, or "" for a built-in name."""
    module, colon, _ = name.partition(":")
    return folder_of_module(module) if colon else ""


def named_code(data: object) -> list[object]:
    """Return the names of the family and the probes in a specification that was not checked yet."""
    values = data if isinstance(data, dict) else {}
    probes = values.get("probes")
    return [values.get("family"), *(probes if isinstance(probes, list) else ())]


def is_in_sweep(folder: Path) -> bool:
    """Return True for the directory of a sweep, a run or a record's files, or below one. A link in a home may lead
    elsewhere, and a link elsewhere into a home, so the path as it is named counts, and where it leads to."""
    places = {Path(os.path.abspath(folder)), folder.resolve()}
    return any(_is_part_of_home(place) for path in places for place in (path, *path.parents))


def _is_part_of_home(place: Path) -> bool:
    above = place.parent.name
    if above in MARKS and (os.path.lexists(place / MARKS[above]) or IDS[above].search(place.name) is not None):
        return True
    if RECORD_ID.search(place.name) is not None and place.parent.parent.name == "artifacts":
        return True
    return place.name == "artifacts" and os.path.lexists(place.parent / DATABASE)


def import_named(names: Iterable[object], home: Path, folder: str = "") -> None:
    """Import the code that a sweep in ``home`` names, so that reading the sweep finds it imported.

    ``folder`` is the folder that the sweep says its code comes from; it counts only if this user trusts it. Raises
    :class:`UntrustedCodeError` for code that must not be imported or was not found, and for an error in trusted code.
    """
    offer(())  # A search space that the user opened before offers its folders to its own names only.
    for name in names:
        if not isinstance(name, str):
            continue  # The specification is refused for it.
        module, colon, _ = name.partition(":")
        if name in FAMILIES or name in PROBES or not colon or _is_imported(module, folder):
            continue
        if not MODULE.fullmatch(module) or module.rpartition(".")[2] == "__main__":
            raise UntrustedCodeError(f"{name[:80]!r} does not name a class in a module")
        try:
            _import(module, home.resolve(), folder)
        except UntrustedCodeError as error:
            raise UntrustedCodeError(f"{name!r} cannot be imported: {error}") from error
        except (Exception, SystemExit) as error:  # The user's module may raise anything on import.
            raise UntrustedCodeError(f"{name!r} cannot be imported: {type(error).__name__}: {error}") from error


def _is_imported(module: str, folder: str) -> bool:
    """Return True if a module is imported, unless a trusted folder has another one of that name."""
    if module not in sys.modules:
        return False
    is_elsewhere = is_trusted(folder) and folder_of_module(module) != str(Path(folder).resolve())
    return not (is_elsewhere and module_file(Path(folder), module) is not None)


def _import(module: str, home: Path, folder: str) -> None:
    """Import a module from where it may be imported from, and no part of it from the working directory. May raise any
    exception of the module, and :class:`UntrustedCodeError`."""
    place = _find(module, home, folder)
    with _without_working_directory():
        if place is None:
            importlib.import_module(module)
        else:
            import_from(place, module, partial(_refusal, folder=place, home=home))


def _find(module: str, home: Path, folder: str) -> Path | None:
    """Return the folder that a module may be imported from, or None for an installed package. Raises
    :class:`UntrustedCodeError`."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        raise UntrustedCodeError(f"{module} is a module of Python itself, so no model can be in it")
    if any(module_file(place, module) is not None for place in _installed(top)):
        return None
    named = list(dict.fromkeys(code.folder for code in trusted_code() if code.top in ("", top)))
    own = Path(folder).resolve() if os.path.isabs(folder) and "\0" not in folder else None
    places = [own] if own in named and own is not None and own.is_dir() else named
    having = [place for place in places if module_file(place, module) is not None]
    if not having:
        raise UntrustedCodeError(_remedy(module, own, home))
    if len(having) > 1:
        listed = ", ".join(map(str, having))
        raise UntrustedCodeError(
            f"the module {module} is in several folders, so it is not clear which is meant: {listed}"
        )
    [place] = having
    for end in range(1, module.count(".") + 2):
        file = module_file(place, ".".join(module.split(".")[:end]))
        if file is not None and (why := _refusal(file, place, home)):
            raise UntrustedCodeError(why)
    return place


def _refusal(file: Path, folder: Path, home: Path) -> str:
    """Return why a file in a trusted folder must not be imported, or ""."""
    # A link in the folder may lead elsewhere, so the path counts and where it leads to.
    for place in (file, file.resolve()):
        if place.is_relative_to(home):
            of_home = place.relative_to(home).parts[0] in PARTS_OF_HOME
            if of_home or not folder.is_relative_to(home):
                return f"{place} is part of a home, and what is in a home is data"
        if is_in_sweep(place.parent):
            return f"{place} is part of a home, and what is in a home is data"
        if open_place := writable_by_others(place):
            return f"{who_can_write_text(open_place)}: {closing_text(open_place, 'move the code to a folder of yours')}"
    return ""


def _remedy(module: str, own: Path | None, home: Path) -> str:
    """Return why a module was not found, and how to allow it."""
    if own is not None and own.is_dir() and not own.is_relative_to(home) and module_file(own, module):
        command = command_line("home", "trust", own)
        return f"its module {module} is in {own}, whose code was not allowed yet. Read it, then allow it: `{command}`"
    command = command_line("home", "trust", "FOLDER")
    return (
        f"no module named {module!r} was found in a folder that you use for it. Read the code, then allow its folder: "
        f"`{command}`"
    )


def _installed(top: str) -> Iterator[Path]:
    """Yield the directories in which an installed package may be."""
    if top in PRODUCT:
        yield Path(PROGRAM)
    yield from _site_directories()
    for finder in sys.meta_path:  # Of packages that were installed as links to their sources.
        kind = finder if isinstance(finder, type) else type(finder)
        if kind.__module__.startswith("__editable__"):
            spec = finder.find_spec(top, None)
            if spec is not None and spec.origin:
                path = Path(spec.origin).resolve()
                yield path.parents[1] if path.name == "__init__.py" else path.parent


def _site_directories() -> list[Path]:
    paths = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        paths.append(site.getusersitepackages())
    return [Path(path) for path in dict.fromkeys(paths)]


@contextmanager
def _without_working_directory() -> Iterator[None]:
    """Do not search modules in the working directory, which Python does in a notebook."""
    here = os.getcwd()
    before = list(sys.path)
    sys.path[:] = [path for path in before if path not in ("", ".") and os.path.realpath(path) != here]
    try:
        yield
    finally:
        sys.path[:] = before
