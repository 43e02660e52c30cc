"""A search space's values laid over one another (file, profile, ``--set``), each remembering where it was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.errors import UserError
from orchestrator.space import strict_yaml
from orchestrator.space.validation import Key, dotted

CHOICES = ("method", "kind")
"""Keys whose value decides what the keys beside them mean."""


class Layers:
    """The merged values in ``data``; :meth:`place` says where a key got its value."""

    def __init__(self, source: str, base: Mapping[str, Any], places: Mapping[Key, str]) -> None:
        self.data: dict[str, Any] = dict(base)
        self._source = source
        self._places = dict(places)
        self._overridden: set[Key] = set()

    def add_profile(self, name: str, values: Mapping[str, Any]) -> None:
        """Lay the profile ``name`` of the file over what is there."""
        self.data = merge(self.data, values)
        top: Key = ("profiles", name)
        for key, place in list(self._places.items()):
            if key[:2] == top:
                self._places[key[2:]] = f"{place} (profile {name})"
        self._places[()] = self._source

    def add_overrides(self, overrides: Sequence[str]) -> None:
        """Lay ``key.path=value`` settings, values in YAML, over what is there. Raises ``UserError``."""
        read = [_read_override(text) for text in overrides]
        # A change of method drops the old method's settings, so it goes before settings of the new one.
        for key, value, text in sorted(read, key=lambda entry: entry[0][-1] not in CHOICES):
            nested: Any = value
            for part in reversed(key):
                nested = {part: nested}
            self.data = merge(self.data, nested)
            self._places = {old: place for old, place in self._places.items() if old[: len(key)] != key}
            self._places[key] = f"--set {text}"
            self._overridden.add(key)

    def place(self, key: Key) -> str:
        """Where ``key`` is written, or the nearest key around it that is; ``--set`` first."""
        if key and key not in self._places:
            inside = [over for over in self._overridden if over[: len(key)] == key]
            key = inside[0] if inside else key
        for length in range(len(key), -1, -1):
            place = self._places.get(key[:length])
            if place is not None:
                said = place.startswith("--set") and length == len(key)
                return place if said or not key else f"{place}, {dotted(key)}"
        return f"{self._source}, {dotted(key)}"

    def overridden(self, key: Key) -> bool:
        """True where ``--set`` wrote ``key`` or a key above it."""
        return any(key[: len(over)] == over for over in self._overridden)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid over ``base``: mappings are merged, everything else replaced.

    What names another ``method`` or ``kind`` replaces the old one whole, whose settings mean nothing to it.
    """
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            other = any(value.get(name, old.get(name)) != old.get(name) for name in CHOICES)
            merged[key] = dict(value) if other else merge(old, value)
        else:
            merged[key] = value
    return merged


def _read_override(text: str) -> tuple[Key, Any, str]:
    path, equals, value = text.partition("=")
    parts = tuple(path.strip().split("."))
    if not equals or not all(parts):
        raise UserError(f"--set {text}: write it as key.path=value, such as --set seed=7 or --set search.method=grid")
    return parts, strict_yaml.read(value, f"--set {text}").data, text
