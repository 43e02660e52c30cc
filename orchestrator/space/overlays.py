"""Values of a search space with their origins, and overlays: files (``like``), profiles, variants, the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from orchestrator.space import strict_yaml
from orchestrator.space.parsing import NAME, InvalidDataError, Key, T, dotted, parse
from orchestrator.system.errors import UserError

CHOICES = ("method", "kind")
"""Keys whose value determines the meaning of their neighbors."""


@dataclass(frozen=True)
class Origin:
    """Where a value comes from: a file or the command line.

    Attributes:
        source: The file, or the command-line option.
        line: Line of the file, from 1. None for the command line.
        overlays: Overlays around the value in the file, such as ``profile laptop``.
        sets: Whole key that a command-line option sets, None for a file.
        comment: Comment on the file's line.
    """

    source: str
    line: int | None = None
    overlays: tuple[str, ...] = ()
    sets: Key | None = None
    comment: str = ""

    def __str__(self) -> str:
        text = self.source if self.line is None else f"{self.source}, line {self.line}"
        return f"{text} ({', '.join(self.overlays)})" if self.overlays else text


@dataclass(frozen=True)
class Assignment:
    """A value from the command line: its dotted ``path``, the ``value`` as YAML, and the option as ``given``."""

    path: str
    value: str
    given: str

    @classmethod
    def parse(cls, text: str) -> Assignment:
        """Return the assignment of ``key.path=value``, the text after ``--set``. Raises ``UserError``."""
        path, equals, value = text.partition("=")  # At the first "=", because the value may contain more.
        override = cls(path, value, f"--set {text}")
        if not equals or not all(override.key):
            example = "--set seed=7 or --set search.method=grid"
            raise UserError(f"{override.given}: write it as key.path=value, such as {example}")
        return override

    @property
    def key(self) -> tuple[str, ...]:
        """The parts of the path."""
        return tuple(self.path.strip().split("."))

    def values(self) -> Values:
        """Return the assignment as an overlay. Raises ``UserError``."""
        document = strict_yaml.read(self.value, self.given)
        origin = Origin(self.given, sets=self.key)
        return Values(nested(self.key, document.data), {(*self.key, *key): origin for key in [(), *document.marks]})


@dataclass(frozen=True)
class Values:
    """Nested values, and the origin of each value by its key. The origin of ``()`` is for messages about all values."""

    data: dict[str, Any]
    origins: dict[Key, Origin]

    @classmethod
    def of_file(cls, source: str, document: strict_yaml.Document) -> Values:
        """Return the values of a file that contains a mapping."""
        lines = {key: Origin(source, line, comment=comment) for key, (line, comment) in document.marks.items()}
        return cls(document.data, lines | {(): Origin(source)})

    @property
    def source(self) -> str:
        """The file of the values."""
        return self.origins[()].source

    @property
    def comments(self) -> dict[Key, str]:
        """The comments in files, by key."""
        return {key: origin.comment for key, origin in self.origins.items() if origin.comment}

    def under(self, over: Values) -> Values:
        """Return these values with ``over`` on top: mappings are merged, everything else is replaced."""
        # The origin of all values stays the requested file, which messages about the whole space show.
        laid = {key: origin for key, origin in over.origins.items() if key or not self.origins}
        return Values(merge(self.data, over.data), self.origins | laid)

    def under_options(self, overrides: Sequence[str | Assignment]) -> Values:
        """Return these values with command-line overrides (``key.path=value``) on top. Raises ``UserError``."""
        assignments = [text if isinstance(text, Assignment) else Assignment.parse(text) for text in overrides]
        values = self
        # A new method drops the settings of the old method, so apply it before other settings.
        for assignment in sorted(assignments, key=lambda one: one.key[-1] not in CHOICES):
            values = values.under(assignment.values())
        return values

    def names(self, kind: str, shared: Sequence[str]) -> tuple[str, ...]:
        """Return the names of overlays of a kind (``profile``), in the order written.

        Raises ``UserError`` for invalid names, and for overlays with one of the keys that must be ``shared``.
        """
        top = f"{kind}s"
        written = self.data.get(top)
        if written is None:
            return ()
        if not isinstance(written, Mapping) or not written:
            self.refuse((top,), f"must map the names of {top} to the keys they change")
        for name, overlay in written.items():
            if not NAME.fullmatch(str(name)):
                self.refuse(
                    (top, name), "a name is a lowercase letter and up to 63 lowercase letters, digits and underscores"
                )
            if not isinstance(overlay, Mapping):
                self.refuse((top, name), f"must map keys to values, such as settings: ...; got {overlay!r:.40}")
            for key in shared:
                if key in overlay:
                    self.refuse((top, name, key), f"must be the same for all {top}: move it to the top level")
        return tuple(str(name) for name in written)

    def overlay(self, kind: str, name: str) -> Values:
        """Return the overlay of this kind and name, such as ``profiles: {laptop: ...}``."""
        top: Key = (f"{kind}s", name)
        origins = {
            key[2:]: replace(origin, overlays=(*origin.overlays, f"{kind} {name}"))
            for key, origin in self.origins.items()
            if key[:2] == top
        }
        return Values(dict(self.data[f"{kind}s"][name]), origins)

    def without(self, *gone: str) -> Values:
        """Return these values without the given top-level keys."""
        data = {name: value for name, value in self.data.items() if name not in gone}
        return Values(data, {key: origin for key, origin in self.origins.items() if not key or key[0] not in gone})

    def place(self, key: Key) -> str:
        """Return the place of ``key`` for a message: its option, or the file and line of the nearest enclosing key."""
        # A mistake may be reported above the key that an option sets. The place is then the option.
        if key and key not in self.origins:
            key = next((over for over in self._options() if over[: len(key)] == key), key)
        origin = next(self.origins[key[:length]] for length in range(len(key), -1, -1) if key[:length] in self.origins)
        return str(origin) if not key or origin.sets == key else f"{origin}, {dotted(key)}"

    def refuse(self, key: Key, message: str) -> NoReturn:
        """Raise ``UserError`` with the place of ``key``."""
        raise UserError(f"{self.place(key)}: {message}")

    def read(self, kind: type[T], *key: str) -> T:
        """Return the value of a key as an instance of ``kind``. A missing value counts as empty. Raises
        ``UserError``."""
        value: Any = self.data
        for part in key:
            value = value.get(part) or {}
        try:
            return parse(kind, value, at=key)
        except InvalidDataError as error:
            self.refuse(error.mistakes[0].key, error.mistakes[0].message)

    def is_set(self, key: str) -> bool:
        """Return True if the command line set a top-level key or a key below it."""
        return any(key in over[:1] for over in self._options())

    def _options(self) -> Iterator[Key]:
        return (origin.sets for origin in self.origins.values() if origin.sets is not None)


def nested(key: Sequence[str], value: Any) -> Any:
    """Return a value inside nested mappings, one for each part of its key."""
    for part in reversed(key):
        value = {part: value}
    return value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``over`` on top of ``base``. Mappings are merged, unless ``method`` or ``kind`` changes. Other values are
    replaced."""
    merged = dict(base)
    for key, value in over.items():
        merged[key] = merge(merged[key], value) if _merges(merged.get(key), value) else value
    return merged


def _merges(old: Any, new: Any) -> bool:
    """Return True if two values are mappings to merge."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return False
    # With another method or kind, the old neighbors are settings that it does not have.
    return all(new.get(name, old.get(name)) == old.get(name) for name in CHOICES)
