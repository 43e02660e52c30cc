"""The families in this repository, and the family that a search space names."""

from __future__ import annotations

from trainables.contract.family import Family
from trainables.contract.names import find, not_imported
from trainables.contract.settings import SettingsError
from trainables.contract.sources import reload_changed

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

    Raises :class:`SettingsError` unless it is a :class:`Family` with its own ``name``: with an inherited one, its runs
    would have another family's keys.
    """
    family = find(name, BUILT_IN, kind="family", key="family")
    if not (isinstance(family, type) and issubclass(family, Family)):
        raise SettingsError(f"{name!r} is not a subclass of trainables.base.Family", key="family", given=name)
    if "name" not in vars(family):
        raise SettingsError(f"{name!r} must define `name`, which is part of its runs' keys", key="family", given=name)
    return family


def refresh_family(name: str) -> None:
    """Import a family's module again if its files have changed since it was imported. Raises :class:`SettingsError` if
    it cannot be imported any more."""
    module_name, colon, _ = name.partition(":")
    try:
        if colon:
            reload_changed(module_name)
    except (Exception, SystemExit) as error:  # A user's module may raise anything on import.
        raise not_imported(name, module_name, error, kind="family", key="family") from error
