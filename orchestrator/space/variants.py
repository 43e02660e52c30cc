"""Variants: one question asked of several tasks, models or budgets. Each is a sweep of its own.

``variants:`` maps names to what each changes, keys as at the top level of a search space. They are laid over the chosen
profile, which may have variants of its own. ``along`` names the setting in which they differ, where it is a number: the
answers are then set against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from orchestrator.errors import UserError, unknown
from orchestrator.space.layers import Layers
from orchestrator.space.validation import NAME, Key, dotted

VARIANTS = "variants"
OWN = ("name", "question", "family", "profile", "profile_reason", "variant", "along", VARIANTS)
"""Keys that say what a search space asks; its variants share them."""


def variants_of(layers: Layers) -> tuple[str, ...]:
    """The names of the variants, in the order written. Raises ``UserError`` for variants that are malformed."""
    written = layers.data.get(VARIANTS)
    if written is None:
        return ()
    if not isinstance(written, Mapping) or not written:
        _refuse(layers, (VARIANTS,), "must map the names of variants to what they change")
    for name, overlay in written.items():
        key: Key = (VARIANTS, str(name))
        if not NAME.fullmatch(str(name)):
            _refuse(layers, key, "a name is a letter followed by lower-case letters, digits and underscores")
        if not isinstance(overlay, Mapping) or not overlay:
            _refuse(layers, key, "must map keys to values, such as settings: ...")
        for shared in OWN:
            if shared in overlay:
                _refuse(layers, (*key, shared), "is the same for all variants; it belongs to the top level")
    return tuple(str(name) for name in written)


def choose_variant(layers: Layers, asked: str | None) -> None:
    """Lay one variant over the rest and leave the others out. Raises ``UserError``.

    A search space without variants takes none; of several, one must be asked for.
    """
    names = variants_of(layers)
    source = str(layers.origins[()])
    if not names:
        if asked is not None and asked != layers.data.get("variant"):
            raise UserError(f"{source} has no variants, so {asked!r} cannot be chosen")
        return
    if asked is None:
        raise UserError(
            f"{source} asks several variants, each a sweep of its own: give one of them with --variant "
            f"({', '.join(names)})"
        )
    if asked not in names:
        raise unknown("variant", asked, names, where=source)
    top: Key = (VARIANTS, asked)
    overlay: dict[str, Any] = dict(layers.data[VARIANTS][asked])
    origins = {
        key[2:]: replace(origin, variant=asked)
        for key, origin in layers.origins.items()
        if key[:2] == top and key != top
    }
    here = layers.origins[top]
    layers.drop((VARIANTS,))
    layers.add(overlay, origins)
    layers.add({"variant": asked}, {("variant",): here})


def _refuse(layers: Layers, key: Key, message: str) -> None:
    raise UserError(f"{layers.place(key)}: {message}" if key in layers.origins else f"{dotted(key)}: {message}")
