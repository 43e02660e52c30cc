"""A resolved search space as YAML, with a comment beside each value that says where it was written."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.space import strict_yaml
from orchestrator.space.layers import Layers, Origin
from orchestrator.space.plain import flatten
from orchestrator.space.spaces import Resolved
from orchestrator.space.validation import Key, dotted

DEFAULT = "default"
WIDEST = 48
"""Comments stand in one column, but for those beside lines longer than this."""


def with_sources(resolved: Resolved) -> str:
    """YAML that resolves to this very sweep, each value with its origin: a file's line, an option or ``default``.

    Inherited keys that were left out follow as comments.
    """
    text = resolved.spec.to_yaml()
    origins = _Origins(resolved)
    comments = {line: origins.of(key) for key, line in strict_yaml.last_lines(text).items()}
    lines = text.rstrip("\n").split("\n")
    column = max((len(line) for line in lines if len(line) <= WIDEST), default=0)
    shown = [_beside(line, comments.get(number), column) for number, line in enumerate(lines, start=1)]
    for key, origin in resolved.left_out.items():
        shown.append(_comment(f"left out, as this space has no such mix: {dotted(key)}, {origin}"))
    return "\n".join([*shown, ""])


class _Origins:
    """Origins of the values of a resolved sweep."""

    def __init__(self, resolved: Resolved) -> None:
        self._origins = _by_path(resolved.layers)
        self._written = flatten(resolved.layers.data)

    def of(self, key: Key) -> str:
        """The origin of a value in words; of several, where its parts were written at several places."""
        path = dotted(key)
        found = [self._origins[each] for each in self._sources(path)]
        return "; ".join(dict.fromkeys(map(str, found))) or DEFAULT

    def _sources(self, path: str) -> Iterator[str]:
        """The paths of what was written to make the value at ``path``; none where it is a default."""
        parts = [each for each in self._written if each == path or each.startswith(f"{path}.")]
        if parts:
            yield from parts
        elif path in self._origins:  # An empty mapping was written.
            yield path
        elif path.startswith("recipes."):  # Recipes hold only what was written: this one is written out.
            yield "recipes.vary"


def _by_path(layers: Layers) -> dict[str, Origin]:
    """The origins by dotted path, whether the path was written dotted or nested; without those of list entries."""
    return {dotted(key): origin for key, origin in layers.origins.items() if key and isinstance(key[-1], str)}


def _beside(line: str, origin: str | None, column: int) -> str:
    return line if origin is None else f"{line:<{column}}  {_comment(origin)}"


def _comment(text: str) -> str:
    """One line that YAML takes for a comment, whatever was typed on the command line."""
    return "# " + "".join(each if each.isprintable() else " " for each in text)
