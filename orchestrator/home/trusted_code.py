"""The code that reading a home may run. Someone else may have written the home, so this must not be their code.

A sweep names its family and its probes as ``package.module:Class``. Reading a home imports only built-in families and
probes, installed modules that import ``trainables``, modules that this user has run in a sweep, and modules in folders
that this user has allowed with ``home trust FOLDER``. To run a module allows only that module or its package, because
the user may later unpack someone else's files into the same folder. Modules and folders are listed in the user's own
configuration directory, never in a home. Nothing is imported from the files of a home, through the working directory,
or from a folder that other users own or can write.

A script is code too. Its command is run only from a search space that this user names. A script in the files of a sweep
counts only if this user has run it before. In that case, and when a sweep is resumed, the script is refused if other
users can replace its directory or a folder with its files: a program can import any file next to them.
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
from orchestrator.system.own_lists import add_to_list, list_flaw, own_list, read_list
from orchestrator.system.permissions import closing_text, exchange_text, who_can_write_text, writable_by_others
from trainables.contract.finder import PRODUCT, PROGRAM, module_file, python_module_text
from trainables.contract.settings import SettingsError
from trainables.contract.user_code import import_from, offer
from trainables.contract.user_modules import folder_of as folder_of_module
from trainables.families import BUILT_IN as FAMILIES
from trainables.probes.base import BUILT_IN as PROBES
from trainables.script.code import code_of
from trainables.script.options import ScriptOptions
from trainables.script.program_text import is_program

MODULE = re.compile(r"[A-Za-z_]\w{0,63}(\.[A-Za-z_]\w{0,63}){0,15}")
"""Pattern of a module's dotted name."""
PARTS_OF_HOME = ("runs", "sweeps", "claims", "artifacts")
"""Directories of a home that an archive or a record can write to."""
MARKS = {"sweeps": "journal.jsonl", "runs": "outcome.json"}
"""File by which the directory of a sweep or a run is recognized, by the name of the directory above."""
IDS = {"sweeps": re.compile(r"-\d{8}-\d{6}-[0-9a-f]{4}$"), "runs": re.compile(r"^[0-9a-f]{16}$")}
"""Patterns of the names of these directories, for a directory without the file."""
RECORD_DIRECTORY = re.compile(r"^[0-9a-f]{32}$")
"""Pattern of the names of directories below ``artifacts/EXPERIMENT``, which contain the files of MLflow's records."""
COMMAND_OPTIONS = ("command", "directory", "resume", "environment", "config", "config_name", "file")
"""Options of a script that decide which commands are run, and with what arguments."""
ANY_METRICS = {"step": "step", "accuracy": "accuracy"}
"""Metrics of options of a script from which only the files of the code are read."""
IMPORTS_THIS = re.compile(rb"^\s*(from|import)\s+trainables\b", re.MULTILINE)
"""Pattern in every module that defines a family or a probe."""


class TrustEntry(NamedTuple):
    """A folder with one module or package that this user has run. An empty name (``top``) means that every module in
    the folder is trusted."""

    folder: Path
    top: str = ""


class UntrustedCodeError(ValueError):
    """A home names code that must not be imported. The message contains the reason, and how to allow the code."""


def list_path() -> Path:
    """Return the file that lists the code this user trusts. Each line is a JSON value: a folder, or a list of a folder
    and the name of a module or package in it."""
    return own_list("folders.jsonl")


def trusted_code() -> list[TrustEntry]:
    """Return the code that this user trusts, the latest first. A list that other users could write does not count."""
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
    """Return the folders with code that this user trusts, the latest first."""
    return list(dict.fromkeys(code.folder for code in trusted_code()))


def is_trusted(folder: str) -> bool:
    """Return True for the absolute path of a folder with code that this user trusts."""
    return os.path.isabs(folder) and "\0" not in folder and Path(folder).resolve() in trusted_folders()


def trust(folder: Path, top: str = "") -> None:
    """Add a folder to this user's list, or only the module or package ``top`` in it. Raises ``OSError`` if the list
    cannot be written."""
    folder = folder.resolve()
    # An entry for the whole folder includes every module in it.
    if not {TrustEntry(folder), TrustEntry(folder, top)}.isdisjoint(trusted_code()):
        return
    add_to_list(list_path(), [str(folder), top] if top else str(folder))


def trust_directory(directory: Path, warn: Callable[[str], object]) -> str:
    """List a home as this user's own, or allow sweeps to import code from any other directory.

    Args:
        directory: An absolute path.
        warn: Called with a message if other users can write the home.

    Returns:
        A message about the directory.

    Raises:
        UserError: If the directory is missing, its code would not be imported anyway, or the list does not count.
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
    if flaw := list_flaw(list_path()):
        raise UserError(flaw)
    trust(directory)
    if flaw := list_flaw(list_path()):  # The list was missing before.
        raise UserError(flaw)
    return f"sweeps may now import code from {directory}; {list_path()} lists all such folders"


def scripts_path() -> Path:
    """Return the file with hashes of the scripts that this user has run, one JSON string per line."""
    return list_path().with_name("scripts.jsonl")


def digest_of_script(values: Mapping[str, Any]) -> str:
    """Return a hash of everything in a specification that decides which commands its script runs.

    That includes its settings and the names of its tasks, because they become arguments. ``values`` is the
    specification as plain values.
    """
    script = {name: value for name, value in dict(values["script"]).items() if name in COMMAND_OPTIONS and value}
    described = [script, *(values.get(name) or None for name in ("settings", "recipes", "mixes", "target"))]
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def remember_script(values: Mapping[str, Any]) -> None:
    """Note that this user runs a script. Raises ``OSError`` if the list cannot be written."""
    if not is_known_script(values):
        add_to_list(scripts_path(), digest_of_script(values))


def is_known_script(values: Mapping[str, Any]) -> bool:
    """Return True if this user has run a script with these settings from a search space."""
    return digest_of_script(values) in read_list(scripts_path())


def check_script(data: object) -> None:
    """Raise :class:`UntrustedCodeError` if a specification, which someone else may have written, names a script that
    this user has not run, or whose files others could have exchanged since."""
    if not isinstance(data, Mapping) or not isinstance(data.get("script"), Mapping):
        return
    if is_known_script(data):
        if flaw := script_flaw(data["script"]):
            raise UntrustedCodeError(flaw)
        return
    words = data["script"].get("command")
    raise UntrustedCodeError(
        f"you have never run this script from a search space, and someone else may have written this home: "
        f"{words!r:.200}. To run it, read the script, copy its search space out of the home, and run the copy"
    )


def script_flaw(script: Mapping[str, Any]) -> str:
    """Return why a script that this user ran before may have another user's files now, with a remedy. Return an empty
    string if only this user and root can exchange its directory, the programs of its command, and their folders.

    Args:
        script: Options of a script, as plain values.
    """
    directory = Path(str(script.get("directory") or "."))
    try:
        programs = _programs(directory, script)
    except SettingsError as error:
        return str(error)
    for place in (directory, *programs):
        if text := _exchange_text(place):
            return (
                f"{text}, so {place} may now have code that another user put there. If you are the only one who should "
                "write there, remove the permission of others. Otherwise move the script to a directory of yours and "
                "name that one in your search space"
            )
    return ""


def _programs(directory: Path, script: Mapping[str, Any]) -> list[Path]:
    """Return the programs and modules that a script's command names, and what they import from their folders.

    Interpreters are not among them, and neither is data, because other users may provide both.
    """
    words = (str(word) for option in ("command", "resume") for word in script.get(option) or ())
    # Only the words decide. The files under `code:` are those that are hashed, not those that run.
    options = ScriptOptions(command=tuple(words), directory=str(directory), metrics=ANY_METRICS)
    return [path for path in (directory / name for name in code_of(options).files) if is_program(path)]


def _exchange_text(place: Path) -> str:
    """Return which other users can replace a file or directory, or create it if it is missing. Return an empty string
    if none can."""
    place = place.absolute()
    return exchange_text(next(existing for existing in (place, *place.parents) if existing.exists()))


def trust_code_of(names: Iterable[str]) -> None:
    """Trust the modules that this user runs now, and the rest of their packages.

    Args:
        names: Names such as ``package.module:Class``.

    Raises:
        OSError: If the list cannot be written.
    """
    for name in names:
        if folder := folder_of(name):
            trust(Path(folder), name.partition(":")[0].partition(".")[0])


def folder_of(name: str) -> str:
    """Return the folder that an imported ``package.module:Class`` comes from. Return an empty string for a built-in
    name."""
    module, colon, _ = name.partition(":")
    return folder_of_module(module) if colon else ""


def named_code(data: object) -> list[object]:
    """Return the names of the family and the probes in a specification that is not checked yet."""
    values = data if isinstance(data, dict) else {}
    probes = values.get("probes")
    return [values.get("family"), *(probes if isinstance(probes, list) else ())]


def is_in_sweep(folder: Path) -> bool:
    """Return True for the directory of a sweep, a run or a record's files, and for any directory below it.

    Check both the path as given and its resolved target, because links can lead into or out of a home.
    """
    paths = {Path(os.path.abspath(folder)), folder.resolve()}
    return any(_is_part_of_home(directory) for path in paths for directory in (path, *path.parents))


def _is_part_of_home(place: Path) -> bool:
    """Return True for the directory of a sweep, of a run, or of a record's files, and for those of all sweeps or runs
    of a home."""
    if place.name in MARKS and is_home(place.parent):
        return True
    above = place.parent.name
    if above in MARKS and (os.path.lexists(place / MARKS[above]) or IDS[above].search(place.name) is not None):
        return True
    if RECORD_DIRECTORY.search(place.name) is not None and place.parent.parent.name == "artifacts":
        return True
    return place.name == "artifacts" and os.path.lexists(place.parent / DATABASE)


def import_named(names: Iterable[object], home: Path, folder: str = "") -> None:
    """Import the code that a sweep in ``home`` names, so that reading the sweep finds it imported.

    Args:
        names: Values of the specification that may be names such as ``package.module:Class``.
        home: The home.
        folder: Folder that the sweep's code comes from, as the sweep claims. It counts only if this user trusts it.

    Raises:
        UntrustedCodeError: If code must not be imported or is not found, or if trusted code raises an exception.
    """
    # A search space that the user opened earlier in this process offers its folders. They are only for its own names.
    offer(())
    for name in names:
        if not isinstance(name, str):
            continue  # The check of the specification reports it.
        module, colon, _ = name.partition(":")
        if name in FAMILIES or name in PROBES or not colon:
            continue
        is_imported = _is_imported(module, folder)
        if not is_imported and (not MODULE.fullmatch(module) or module.rpartition(".")[2] == "__main__"):
            raise UntrustedCodeError(f"{name[:80]!r} does not name a class in a module")
        try:
            if text := python_module_text(module):  # This process has imported many of Python's own modules.
                raise UntrustedCodeError(text)
            if not is_imported:
                _import(module, home.resolve(), folder)
        except UntrustedCodeError as error:
            raise UntrustedCodeError(f"{name!r} cannot be imported: {error}") from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # A module may raise anything, such as SystemExit, or pytest's Skipped.
            raise UntrustedCodeError(f"{name!r} cannot be imported: {type(error).__name__}: {error}") from error


def _is_imported(module: str, folder: str) -> bool:
    """Return True if a module is imported, unless a trusted folder contains a different module with that name."""
    if module not in sys.modules:
        return False
    is_elsewhere = is_trusted(folder) and folder_of_module(module) != str(Path(folder).resolve())
    return not (is_elsewhere and module_file(Path(folder), module) is not None)


def _import(module: str, home: Path, folder: str) -> None:
    """Import a module from a trusted folder or an installed package, and no part of it from the working directory.

    Raises :class:`UntrustedCodeError`, and any exception that the module raises.
    """
    trusted_folder = _find(module, home, folder)
    with _without_working_directory():
        if trusted_folder is None:
            importlib.import_module(module)
        else:
            # Modules that this module imports from the folder are checked like itself.
            import_from(trusted_folder, module, partial(_refusal, folder=trusted_folder, home=home))


def _find(module: str, home: Path, folder: str) -> Path | None:
    """Return the trusted folder that contains a module, or None for an installed package.

    Raises:
        UntrustedCodeError: If no trusted folder contains the module, if several do, or if its files must not be
            imported.
    """
    top = module.partition(".")[0]
    for directory in _installed(top):
        if (file := module_file(directory, module)) is not None:
            _check_installed(module, file, directory)
            return None
    trusted = list(dict.fromkeys(code.folder for code in trusted_code() if code.top in ("", top)))
    # The sweep records the folder that it was started with. It counts only if this user trusts it.
    recorded = Path(folder).resolve() if os.path.isabs(folder) and "\0" not in folder else None
    candidates = [recorded] if recorded in trusted and recorded is not None and recorded.is_dir() else trusted
    with_module = [candidate for candidate in candidates if module_file(candidate, module) is not None]
    if not with_module:
        raise UntrustedCodeError(_remedy(module, recorded, home))
    if len(with_module) > 1:
        listed = ", ".join(map(str, with_module))
        raise UntrustedCodeError(
            f"the module {module} is in several folders, so it is not clear which is meant: {listed}"
        )
    [trusted_folder] = with_module
    # Importing a module also runs every package above it.
    for end in range(1, module.count(".") + 2):
        file = module_file(trusted_folder, ".".join(module.split(".")[:end]))
        if file is not None and (why := _refusal(file, trusted_folder, home)):
            raise UntrustedCodeError(why)
    return trusted_folder


def _check_installed(module: str, file: Path, directory: Path) -> None:
    """Raise :class:`UntrustedCodeError` for the file of an installed module that has no model, unless this user has run
    its package, which is in ``directory``.

    Some installed modules do more than define something when they are imported: a demonstration in Ray connects to a
    port of this machine, and runs what it receives from there.
    """
    top = module.partition(".")[0]
    is_model = top in PRODUCT or IMPORTS_THIS.search(file.read_bytes()) is not None
    if not is_model and TrustEntry(directory.resolve(), top) not in trusted_code():
        raise UntrustedCodeError(
            f"{module} is an installed module that does not import trainables, and you have never run a model from its "
            "package. To allow it, run a search space that names it"
        )


def _refusal(file: Path, folder: Path, home: Path) -> str:
    """Return why a file in a trusted folder must not be imported. Return an empty string if it may be imported."""
    # A link in the folder may lead elsewhere, so check both the path and its target.
    for path in (file, file.resolve()):
        if path.is_relative_to(home):
            is_part = path.relative_to(home).parts[0] in PARTS_OF_HOME
            # A user may keep code in their home, next to its parts, if they trusted that very folder.
            if is_part or not folder.is_relative_to(home):
                return f"{path} is part of a home, and everything in a home is only data"
        if is_in_sweep(path.parent):
            return f"{path} is part of a home, and everything in a home is only data"
        if open_place := writable_by_others(path):
            return f"{who_can_write_text(open_place)}: {closing_text(open_place, 'move the code to a folder of yours')}"
    return ""


def _remedy(module: str, recorded: Path | None, home: Path) -> str:
    """Return why a module was not found, and how to allow it. ``recorded`` is the folder that the sweep names."""
    is_folder = recorded is not None and recorded.is_dir() and not recorded.is_relative_to(home)
    if recorded is not None and is_folder and module_file(recorded, module):
        command = command_line("home", "trust", recorded)
        return f"its module {module} is in {recorded}, but you have not allowed that folder. Read it, then: `{command}`"
    command = command_line("home", "trust", "FOLDER")
    return (
        f"no module named {module!r} was found in a folder that you have allowed. Read the code, then allow its "
        f"folder: `{command}`"
    )


def _installed(top: str) -> Iterator[Path]:
    """Yield the directories that may contain an installed package."""
    if top in PRODUCT:
        yield Path(PROGRAM)
    yield from _site_directories()
    for finder in sys.meta_path:  # Finders of packages that `pip install -e` installed as links to their sources.
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
    """Do not search for modules in the working directory, as Python does in a notebook."""
    here = os.getcwd()
    before = list(sys.path)
    sys.path[:] = [path for path in before if path not in ("", ".") and os.path.realpath(path) != here]
    try:
        yield
    finally:
        sys.path[:] = before
