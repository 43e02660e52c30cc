"""The families in this repository, and the family that a search space names."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from trainables.contract.bars import Bar
from trainables.contract.family import Family
from trainables.contract.names import find, not_imported
from trainables.contract.present_code import make_present
from trainables.contract.settings import SettingsError
from trainables.contract.sources import source_hash
from trainables.contract.user_code import find_offered
from trainables.contract.user_modules import folder_of
from trainables.script.code import code_of, file_hashes
from trainables.script.family import script_family
from trainables.script.nearby import changed_program, hash_nearby
from trainables.script.options import ScriptOptions
from trainables.script.project import project_of

BUILT_IN = {
    "script": "trainables.script.family:ScriptFamily",
    "listops": "trainables.families.listops:ListOps",
    "permutations": "trainables.families.permutations:Permutations",
    "heat_diffusion": "trainables.families.reparametrization:HeatDiffusion",
    "synchronization": "trainables.families.reparametrization:Synchronization",
    "persistent_homology": "trainables.families.reparametrization:PersistentHomology",
}
"""Short names of the families in this repository."""


def load_family(name: str) -> type[Family]:
    """Return the class that a search space names: a built-in family or ``package.module:Class``.

    A class that a function made gets the name by which it is first named here, unless it has another one.

    Raises :class:`SettingsError` unless it is a :class:`Family` with its own ``name``. With an inherited name, its runs
    would have the keys of another family.
    """
    family = find(name, BUILT_IN, Family, kind="family", key="family")
    if not (isinstance(family, type) and issubclass(family, Family)):
        raise SettingsError(f"{name!r} is not a subclass of trainables.base.Family", key="family", given=name)
    if ":" in name and _is_made(family):  # Others that the same function makes have the same default name.
        family.name = name
    if "name" not in vars(family):
        raise SettingsError(f"{name!r} must define `name`, which is part of its runs' keys", key="family", given=name)
    return family


def _is_made(family: type[Family]) -> bool:
    """Return True for a class that a function made, if it has the default name. Its module has no such name, or has
    another class under it."""
    default = vars(family).get("_default_name", "")
    module_name, _, class_name = default.partition(":")
    is_default = bool(default) and family.name == default
    return is_default and getattr(sys.modules.get(module_name), class_name, None) is not family


def refresh(name: str, *, kind: str = "family", key: str = "family") -> None:
    """Import the module of a family, or of code of another ``kind``, anew if its files have changed since its import.

    Raises :class:`SettingsError` if it can no longer be imported.
    """
    module_name, colon, class_name = name.partition(":")
    try:
        if colon:
            find_offered(module_name)  # The changed files may import further modules.
            make_present(module_name, class_name)
    except (Exception, SystemExit) as error:  # A user's module may raise anything on import.
        raise not_imported(name, module_name, error, kind=kind, key=key) from error


@dataclass(frozen=True)
class FamilySource:
    """Values from which any process makes the same family: its name and settings or, for a script, its options.

    Attributes:
        name: Name of the family in a search space.
        settings: An instance of the family's ``Settings``.
        script: Options of a script, None for any other family.
        floor: Score of the best constant answer of a script.
        tasks: Tasks of a script whose options do not list tasks.
        bar: Bar that a run of a script must reach to count as learned, None if its scores are accuracies.
        file_hashes: Hash of each file of a script's code, with which workers say which files have changed. Empty for
            any other family, and where it is not needed.
    """

    name: str
    settings: Any
    script: ScriptOptions | None = None
    floor: float | Mapping[str, float] | None = None
    tasks: Sequence[str] = ()
    bar: Bar | None = None
    file_hashes: Mapping[str, str] = field(default_factory=dict)

    def load(self) -> type[Family]:
        """Return the class. Raises :class:`SettingsError` if the name does not stand for a family."""
        if self.script is None:
            return load_family(self.name)
        values = {setting.name: getattr(self.settings, setting.name) for setting in fields(self.settings)}
        return script_family(self.script, self.floor, values, self.tasks, self.bar, self.file_hashes)

    def make(self) -> Family:
        """Return the family with its settings."""
        return self.load()(self.settings)

    def with_file_hashes(self) -> FamilySource:
        """Return a copy with the present hash of each file of a script's code. Raises :class:`SettingsError` if a file
        cannot be read."""
        return self if self.script is None else replace(self, file_hashes=file_hashes(self.script))

    @property
    def folder(self) -> str:
        """Folder from which this process imports the family's module. Empty for a family of this project."""
        return folder_of(self.name.partition(":")[0])

    @property
    def hash(self) -> str:
        """Hash of the family's source in this process, or of the script's code. Empty for a family of this project.

        The family must have been loaded.
        """
        return source_hash(self.name) if self.script is None else str(self.script.code_hash)

    def hash_nearby(self) -> str:
        """Return the present hash of the programs and settings in the project of a script that does not list its code.
        Return an empty string for any other family."""
        return "" if self.script is None or self.script.code else hash_nearby(self.script.directory)

    def changed_nearby(self, since: str) -> str:
        """Return a clause that says that files in the project of such a script have changed. It names one that was
        written after a time (ISO 8601), if there is one."""
        if self.script is None:
            raise ValueError(f"{self.name} is not a script")
        directory = self.script.directory
        known = code_of(self.script).files
        name = changed_program(directory, datetime.fromisoformat(since).timestamp(), known)
        example = f", such as {name}," if name else ""
        project = project_of(Path(directory))
        return f"programs or settings in {project} that are not known to belong to the script{example} have changed"
