"""Entries of lists, dicts and objects that only have fields."""

from __future__ import annotations

from collections import defaultdict
from types import MappingProxyType
from typing import Any

from trainables.contract.class_texts import PLAIN, value_text
from trainables.contract.held_objects import USUAL, fields_of

MOST_ENTRIES = 1000
"""Maximum number of entries of a list or dict of a cell that count. A longer one is data."""


def is_long(value: object) -> bool:
    """Return True for a list or dict that is data."""
    own = _usual_type_of(value)
    return own is not None and own.__len__(value) > MOST_ENTRIES


def _usual_type_of(value: object) -> Any:
    """Return the type of Python that a list or dict is, or from which its class inherits. Return None for any other
    value. Call its methods, because those of a subclass could do something else."""
    return next((kind for kind in USUAL if isinstance(value, kind)), None)


def entries_of(value: object) -> list[tuple[str, object]] | None:
    """Return the entries of a list or dict, or the fields of an object that only has fields, each with its place, and
    the class unless it is that of Python. Return None for any other value."""
    inner = _inner_of(value)
    if inner is None or type(value) in USUAL:
        return inner
    default = [("default", value.default_factory)] if isinstance(value, defaultdict) else []
    return [*inner, *default, ("class", type(value))]


def _inner_of(value: object) -> list[tuple[str, object]] | None:
    own = _usual_type_of(value)
    if own is None:
        return fields_of(value)
    if own in (dict, MappingProxyType):
        items = list(own.items(value))
        names = [repr(key) if isinstance(key, PLAIN) else "" for key, _ in items]
        places = [f"{number} {name}".strip() for number, name in enumerate(names)]
        keys = [(f"key {place}", key) for place, (key, _) in zip(places, items, strict=True)]
        return [*keys, *((place, entry) for place, (_, entry) in zip(places, items, strict=True))]
    if own in (set, frozenset):  # In an order that is the same in every process.
        return [("", entry) for entry in sorted(own.__iter__(value), key=value_text)]
    return [(str(number), entry) for number, entry in enumerate(own.__iter__(value))]
