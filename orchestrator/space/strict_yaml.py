"""YAML for search spaces: the safe loader, stricter so that no value is lost or changed silently.

Duplicate keys and keys that are not text are errors. Aliases are errors too, because they can expand a small file to
any size. ``1e-3`` is a number, as everyone expects, and a date is plain text. Unknown keys and wrong types are refused
in mistakes.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml

from orchestrator.space.parsing import Key, dotted
from orchestrator.system.errors import UserError


@dataclass(frozen=True)
class Document:
    """Content of a YAML text: plain values, and the line (from 1) and comment of each key by its path."""

    data: Any
    marks: dict[Key, tuple[int, str]]


LIKE_SPACE = re.compile("[\u00a0\u2000-\u200b\u202f\u3000]")
"""Characters of word processors and web pages that look like a space but are letters in YAML."""
COMMENT = re.compile(r":?\s+#\s*(\S.*)")
"""Pattern of the rest of a line after a key or its value, with a comment."""
MOST_SIGNS = 50_000
"""Maximum number of signs between values. A space with 5,000 variants has 20,000. Parsing 50,000 takes a second."""
SIGNS = re.compile(r"[,:\[{\n\r\x85\u2028\u2029]|[-?]\s")
"""Pattern of a sign between values. In YAML, five characters end a line."""
UNFIT = (RecursionError, ValueError, ArithmeticError, AttributeError, LookupError, TypeError)
"""What the loader raises for control characters, depth, "0b2" as a number, and tags that do not fit their value."""
MOST_BITS = 1024
"""Maximum number of bits of a whole number. Larger numbers would not fit a floating-point number, either."""
CHANGED = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int")
"""Tags of types that the safe loader recognizes in too many texts."""


class _Loader(yaml.SafeLoader):
    """The safe loader without aliases and dates, with decimal integers and exponents as in 1e-3."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(
                None, None, "aliases are not allowed: use `like:` to inherit", event.start_mark
            )
        return super().compose_node(parent, index)


def _whole_number(loader: _Loader, node: yaml.ScalarNode) -> int:
    """Return a whole number. Raises an error if it has too many digits."""
    # With the tag !!int, a number may be hexadecimal and of any length. Python refuses to print such a number.
    number = int(loader.construct_yaml_int(node))
    if number.bit_length() > MOST_BITS:
        raise yaml.constructor.ConstructorError(None, None, "a number has too many digits", node.start_mark)
    return number


_Loader.add_constructor("tag:yaml.org,2002:int", _whole_number)
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
    if (signs := count_signs(text)) > MOST_SIGNS:
        raise UserError(f"{source} has about {signs:,} values; a search space may have {MOST_SIGNS:,}")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return Document(None, {})
        marks = dict(_marks(node, (), source, text.splitlines()))
        return Document(loader.construct_document(node), marks)
    except UserError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        why = error.problem or error.context or ""
        raise UserError(f"{source}{place}: this is not valid YAML: {why}{_remedy(why, text)}") from error
    except (yaml.YAMLError, *UNFIT) as error:
        raise UserError(f"{source}: this is not valid YAML: {str(error).partition(chr(10))[0]}") from error


def count_signs(text: str) -> int:
    """Return the number of signs between values in a YAML text, on which the time for parsing it depends."""
    return sum(1 for _ in SIGNS.finditer(text))


def _remedy(why: str, text: str) -> str:
    """Return what to change in an unreadable text, after a semicolon, or an empty string if unknown."""
    if "'\\t'" in why:
        return "; indent with spaces"
    if (sign := LIKE_SPACE.search(text)) is None:
        return ""
    line = text.count("\n", 0, sign.start()) + 1
    return f"; line {line} contains U+{ord(sign[0]):04X}, which looks like a space: replace it with a space"


def write(data: Mapping[str, Any]) -> str:
    """Return plain values in order as YAML for :func:`read`: mappings in blocks, lists on one line."""
    return str(yaml.dump(dict(data), Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True))


def commented(text: str, comments: Mapping[Key, str]) -> str:
    """Return a YAML text with these comments after its keys."""
    rows = text.splitlines()
    for key, row in _last_rows(yaml.compose(text, _Loader), ()):
        if key in comments:
            rows[row] += f" # {comments[key]}"
    return "\n".join(rows) + "\n"


def _last_rows(node: yaml.Node | None, key: Key) -> Iterator[tuple[Key, int]]:
    """For each key, yield the row (from 0) on which its comment goes: the key's own row for a mapping, otherwise the
    value's last row (a list may wrap)."""
    for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
        path = (*key, name.value)
        has_rows = isinstance(value, yaml.MappingNode) and not value.flow_style
        yield path, (name.start_mark if has_rows else value.end_mark).line
        yield from _last_rows(value, path)


class _Dumper(yaml.SafeDumper):
    """The safe dumper, with lists on one line."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> yaml.SequenceNode:
        return super().represent_sequence(tag, sequence, flow_style=True)


def _marks(node: yaml.Node, key: Key, source: str, rows: list[str]) -> Iterator[tuple[Key, tuple[int, str]]]:
    """Yield line and comment of every key and list entry below ``node``. Refuse duplicate keys.

    If a line has several keys, the comment belongs to the outermost.
    """
    if isinstance(node, yaml.SequenceNode):
        for index, entry in enumerate(node.value):
            yield (*key, index), (entry.start_mark.line + 1, "")
            yield from _marks(entry, (*key, index), source, rows)
    elif isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for name, value in node.value:
            line = name.start_mark.line + 1
            where = f"{source}, line {line}"
            if not isinstance(name, yaml.ScalarNode) or name.tag != "tag:yaml.org,2002:str":
                why = "a key must be text (put it in quotes)"
                if name.value == "<<":
                    why = "merge keys (<<) are not allowed: use `like:` to inherit"
                raise UserError(f"{where}: {why}")
            path = (*key, name.value)
            if name.value in first:
                raise UserError(f"{where}: {dotted(path)} is written twice; first on line {first[name.value]}")
            first[name.value] = line
            end = value.end_mark if value.end_mark.line == name.start_mark.line else name.end_mark
            comment = COMMENT.fullmatch(rows[end.line][end.column :])
            yield path, (line, comment[1] if comment else "")
            yield from _marks(value, path, source, rows)
