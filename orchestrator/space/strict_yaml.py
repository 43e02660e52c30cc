"""YAML for search spaces: the safe loader, stricter so that no value is lost or changed silently.

Duplicate keys and keys that are not text are errors.
``1e-3`` is a number, as everyone expects, and a date is plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml

from orchestrator.errors import UserError
from orchestrator.space.mistakes import Key, dotted


@dataclass(frozen=True)
class Document:
    """Content of a YAML text: plain values, and the line (from 1) of each key by its path."""

    data: Any
    lines: dict[Key, int]


CHANGED = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int")
"""Types that the safe loader recognizes in too many texts."""


class _Loader(yaml.SafeLoader):
    """The safe loader without dates, with decimal integers and exponents as in 1e-3."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in CHANGED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(  # In YAML 1.1 010 is 8, and 1:30 is 90.
    "tag:yaml.org,2002:int", re.compile(r"[-+]?(0|[1-9][0-9_]*)$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


@lru_cache(maxsize=64)  # Parsing a space takes 50 ms, and every variant begins with the same text.
def read(text: str, source: str) -> Document:
    """Read a YAML document. ``source`` names it in errors. Raises :class:`UserError`."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return Document(None, {})
        lines = dict(_lines(node, (), source))
        return Document(loader.construct_document(node), lines)
    except UserError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        why = error.problem or error.context or ""
        remedy = "; indent with spaces" if "'\\t'" in why else ""
        raise UserError(f"{source}{place}: this is not valid YAML: {why}{remedy}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # Control characters, depth, "0b2" as a number.
        raise UserError(f"{source}: this is not valid YAML: {str(error).partition(chr(10))[0]}") from error


def write(data: Mapping[str, Any]) -> str:
    """Return plain values in order as YAML for :func:`read`: mappings in blocks, lists on one line."""
    return str(yaml.dump(dict(data), Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True))


class _Dumper(yaml.SafeDumper):
    """The safe dumper, with lists on one line."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> yaml.SequenceNode:
        return super().represent_sequence(tag, sequence, flow_style=True)


def _lines(node: yaml.Node, key: Key, source: str) -> Iterator[tuple[Key, int]]:
    """Yield the line of every key and list entry below ``node``. Refuse duplicate keys."""
    if isinstance(node, yaml.SequenceNode):
        for place, entry in enumerate(node.value):
            yield (*key, place), entry.start_mark.line + 1
            yield from _lines(entry, (*key, place), source)
    elif isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for name, value in node.value:
            line = name.start_mark.line + 1
            where = f"{source}, line {line}"
            if not isinstance(name, yaml.ScalarNode) or name.tag != "tag:yaml.org,2002:str":
                raise UserError(f"{where}: a key must be text (put it in quotes), and not <<")
            path = (*key, name.value)
            if name.value in first:
                raise UserError(f"{where}: {dotted(path)} is written twice; first on line {first[name.value]}")
            first[name.value] = line
            yield path, line
            yield from _lines(value, path, source)
