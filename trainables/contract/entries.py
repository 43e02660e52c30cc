"""Entries of lists, dicts and objects that only have fields."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from types import MappingProxyType

from trainables.contract.class_texts import PLAIN, value_text
from trainables.contract.held_objects import USUAL, fields_of

MOST_ENTRIES = 1000
"""Maximum number of entries of a list or dict of a cell that count. A longer one is data."""


def is_long(value: object) -> bool:
    """Return True for a list or dict that is data."""
    match value:  # The length that a subclass gives could be another one.
        case dict():
            return dict.__len__(value) > MOST_ENTRIES
        case MappingProxyType():
            return len(value) > MOST_ENTRIES
        case set():
            return set.__len__(value) > MOST_ENTRIES
        case frozenset():
            return frozenset.__len__(value) > MOST_ENTRIES
        case list():
            return list.__len__(value) > MOST_ENTRIES
        case tuple():
            return tuple.__len__(value) > MOST_ENTRIES
        case deque():
            return deque.__len__(value) > MOST_ENTRIES
    return False


def entries_of(value: object) -> list[tuple[str, object]] | None:
    """Return the entries of a list or dict, or the fields of an object that only has fields, each with its place, and
    the class unless it is that of Python. Return None for any other value."""
    inner = _inner_of(value)
    if inner is None or type(value) in USUAL:
        return inner
    default = [("default", value.default_factory)] if isinstance(value, defaultdict) else []
    return [*inner, *default, ("class", type(value))]


def _inner_of(value: object) -> list[tuple[str, object]] | None:
    # Methods of a subclass could be others than those of the type.
    match value:
        case dict() | MappingProxyType():
            items = list(dict.items(value) if isinstance(value, dict) else value.items())
            names = [repr(key) if isinstance(key, PLAIN) else "" for key, _ in items]
            places = [f"{number} {name}".strip() for number, name in enumerate(names)]
            keys = [(f"key {place}", key) for place, (key, _) in zip(places, items, strict=True)]
            return [*keys, *((place, entry) for place, (_, entry) in zip(places, items, strict=True))]
        case set():
            return _members(set.__iter__(value))
        case frozenset():
            return _members(frozenset.__iter__(value))
        case list():
            return [(str(number), entry) for number, entry in enumerate(list.__iter__(value))]
        case tuple():
            return [(str(number), entry) for number, entry in enumerate(tuple.__iter__(value))]
        case deque():
            return [(str(number), entry) for number, entry in enumerate(deque.__iter__(value))]
    return fields_of(value)


def _members(members: Iterator[object]) -> list[tuple[str, object]]:
    """Return the members of a set in an order that is the same in every process."""
    return [("", entry) for entry in sorted(members, key=value_text)]
