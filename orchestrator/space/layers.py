"""A search space's values laid over one another (files, profiles, the command line), each with its origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import UserError
from orchestrator.space import strict_yaml
from orchestrator.space.validation import Key, dotted

CHOICES = ("method", "kind")
"""Keys whose value decides what the keys beside them mean."""


@dataclass(frozen=True)
class Origin:
    """Where a value was written: in a file, there at a line (from 1) and perhaps in a profile or a variant, or on the
    command line.

    ``sets`` is the whole key that an option on the command line sets; None for what a file says.
    """

    source: str
    line: int | None = None
    profile: str = ""
    sets: Key | None = None
    variant: str = ""

    def __str__(self) -> str:
        text = self.source if self.line is None else f"{self.source}, line {self.line}"
        inside = [f"{kind} {name}" for kind, name in (("profile", self.profile), ("variant", self.variant)) if name]
        return f"{text} ({', '.join(inside)})" if inside else text


@dataclass(frozen=True)
class Assignment:
    """A value from the command line: the dotted ``path`` it sets, the value as YAML, and the option as it was given."""

    path: str
    value: str
    given: str

    @classmethod
    def parse(cls, text: str) -> Assignment:
        """The assignment in the text after ``--set``: ``key.path=value``. Raises ``UserError``."""
        path, equals, value = text.partition("=")
        override = cls(path, value, f"--set {text}")
        if not equals or not all(override.key):
            example = "--set seed=7 or --set search.method=grid"
            raise UserError(f"{override.given}: write it as key.path=value, such as {example}")
        return override

    @property
    def key(self) -> tuple[str, ...]:
        """The parts of the path."""
        return tuple(self.path.strip().split("."))


class Layers:
    """Values laid over one another: merged in :attr:`data`, with the origin of each in :attr:`origins`.

    ``source`` is the file that stands for the whole in messages.
    """

    def __init__(self, source: str) -> None:
        self.data: dict[str, Any] = {}
        self.origins: dict[Key, Origin] = {(): Origin(source)}

    def add(self, values: Mapping[str, Any], origins: Mapping[Key, Origin]) -> None:
        """Lay ``values`` over what is there; ``origins`` has one for every key in them."""
        gone = tuple(_replaced(self.data, values, ()))
        self.data = merge(self.data, values)
        kept = {key: origin for key, origin in self.origins.items() if not any(_within(key, top) for top in gone)}
        self.origins = kept | dict(origins)

    def add_overrides(self, overrides: Sequence[str | Assignment]) -> None:
        """Lay the command line's values over what is there, ``key.path=value`` for text. Raises ``UserError``."""
        read = [each if isinstance(each, Assignment) else Assignment.parse(each) for each in overrides]
        # A change of method drops the old method's settings, so it goes before settings of the new one.
        for override in sorted(read, key=lambda each: each.key[-1] not in CHOICES):
            document = strict_yaml.read(override.value, override.given)
            nested: Any = document.data
            for part in reversed(override.key):
                nested = {part: nested}
            origin = Origin(override.given, sets=override.key)
            self.add(nested, {(*override.key, *inner): origin for inner in [(), *document.lines]})

    def drop(self, key: Key) -> Origin:
        """Take the mapping's entry at ``key`` out again; where it was written."""
        inner = self.data
        for part in key[:-1]:
            inner[str(part)] = dict(inner[str(part)])  # What was added stays as it is.
            inner = inner[str(part)]
        del inner[str(key[-1])]
        origin = self.origins[key]
        self.origins = {other: kept for other, kept in self.origins.items() if not _within(other, key)}
        return origin

    def written_by(self, key: Key) -> set[Origin]:
        """The origins of ``key`` and of everything inside it."""
        return {origin for other, origin in self.origins.items() if _within(other, key)}

    def place(self, key: Key) -> str:
        """Place of ``key`` for a message: the command line first, else the nearest key around it."""
        if key and key not in self.origins:
            key = next((over for over in self._overridden() if _within(over, key)), key)
        origin = next(self.origins[key[:length]] for length in range(len(key), -1, -1) if key[:length] in self.origins)
        return str(origin) if not key or origin.sets == key else f"{origin}, {dotted(key)}"

    def overridden(self, key: Key) -> bool:
        """True where the command line wrote ``key`` or a key above it."""
        return any(_within(key, over) for over in self._overridden())

    def _overridden(self) -> Iterator[Key]:
        return (origin.sets for origin in self.origins.values() if origin.sets is not None)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid over ``base``: mappings are merged, everything else replaced.

    A mapping with another ``method`` or ``kind`` replaces the old one whole: the old settings mean nothing to it.
    """
    merged = dict(base)
    for key, value in over.items():
        merged[key] = merge(merged[key], value) if _merges(merged.get(key), value) else value
    return merged


def _merges(old: Any, new: Any) -> bool:
    """True if ``new`` is laid over ``old`` key by key; False if it replaces it."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return False
    return all(new.get(name, old.get(name)) == old.get(name) for name in CHOICES)


def _replaced(base: Mapping[str, Any], over: Mapping[str, Any], above: Key) -> Iterator[Key]:
    """The keys of ``base`` whose values :func:`merge` replaces."""
    for name in base.keys() & over.keys():
        if _merges(base[name], over[name]):
            yield from _replaced(base[name], over[name], (*above, name))
        else:
            yield (*above, name)


def _within(key: Key, top: Key) -> bool:
    """True if ``key`` is ``top`` or inside it."""
    return key[: len(top)] == top
