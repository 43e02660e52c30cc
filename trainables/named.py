"""Classes that a search space names: built-in ones by a short name, others as ``package.module:Class``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from trainables.base import Family
from trainables.contract.settings import SettingsError


def find(name: str, built_in: Mapping[str, str], *, kind: str, key: str) -> object:
    """The object that ``name`` stands for, directly or through ``built_in``; None if its module has no such name.

    ``kind`` is what is looked for, in a word. Raises :class:`SettingsError` (with ``key``) for a name of neither form
    and for a module that cannot be imported.
    """
    module_name, colon, class_name = built_in.get(name, name).partition(":")
    if not colon:
        raise SettingsError(
            f"there is no {kind} {name!r}; give a built-in one or package.module:Class",
            key=key,
            given=name,
            allowed=tuple(built_in),
        )
    try:
        return getattr(importlib.import_module(module_name), class_name, None)
    except Exception as error:  # A module of anybody's, which may raise anything as it is imported.
        why = f"{type(error).__name__}: {error}"
        raise SettingsError(f"{kind} {name!r} cannot be imported: {why}", key=key, given=name) from error


BUILT_IN = {
    "listops": "trainables.tasks.listops:ListOps",
    "permutations": "trainables.tasks.permutations:Permutations",
    "heat_diffusion": "trainables.reparametrization.family:HeatDiffusion",
    "synchronization": "trainables.reparametrization.family:Synchronization",
    "persistent_homology": "trainables.reparametrization.family:PersistentHomology",
}
"""Short names of the families that come with the project."""


def load_family(name: str) -> type[Family]:
    """The class a search space names: a built-in family or ``package.module:Class``.

    Raises :class:`SettingsError` (key ``family``) for anything that is no :class:`Family`.
    """
    found = find(name, BUILT_IN, kind="family", key="family")
    if not (isinstance(found, type) and issubclass(found, Family)):
        raise SettingsError(f"{name!r} is not a subclass of trainables.base.Family", key="family", given=name)
    return found
