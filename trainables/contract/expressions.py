"""Names and texts in the expressions of Python programs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise
from textwrap import dedent

MOST_INDENTS = 100
"""Maximum number of indentations in a Python program."""


def tree_of(content: bytes) -> ast.AST | None:
    """Return the tree of a Python text, or None for a text that is not Python or too deeply nested.

    If it has syntax that this Python does not know, such as that of a later Python, return the tree of its other
    statements.
    """
    try:
        return ast.parse(content)
    except SyntaxError:
        text = content.decode(errors="replace")
        statements = list(_statements_in(text.splitlines()))
        return ast.Module(statements, []) if statements else None
    except (ValueError, RecursionError, MemoryError):
        return None


def _statements_in(lines: Sequence[str], indents: int = 0) -> Iterator[ast.stmt]:
    """Yield the statements that this Python can parse, also those in others that it cannot."""
    begins = [row for row, line in enumerate(lines) if line[:1].strip() and line[0] not in "#)]}"]
    for begin, end in pairwise([*begins, len(lines)]):
        block = lines[begin:end]
        if statements := _parsed("\n".join(block)):
            yield from statements
        elif indents < MOST_INDENTS:
            yield from _parsed(f"{block[0]} pass")  # The beginning of a block, such as `with open("a.json") as file:`.
            yield from _statements_in(dedent("\n".join(block[1:])).splitlines(), indents + 1)


def _parsed(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def assignments(tree: ast.AST) -> Iterator[tuple[list[ast.expr], ast.expr]]:
    """Yield the targets and the value of each assignment, also for each name of ``a, b = 1, 2``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield node.targets, node.value
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    yield from (([one], value) for one, value in zip(target.elts, node.value.elts, strict=False))
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
            yield [node.target], node.value


def last_name(value: ast.AST) -> str:
    """Return the last name in ``a.b.c``, or an empty string for another expression."""
    if isinstance(value, ast.Attribute):
        return value.attr
    return value.id if isinstance(value, ast.Name) else ""


def values_of_names(tree: ast.AST) -> dict[str, ast.expr]:
    """Return the values that a file assigns to its names. Paths may be put together in several steps."""
    return {name: value for targets, value in assignments(tree) for name in map(last_name, targets) if name}


def texts_in(value: ast.AST, unread: dict[str, ast.expr]) -> Iterator[str]:
    """Yield the texts in an expression, in order. Names that are ``unread`` are replaced by the texts in their values.

    Every name is read only once, because names may depend on each other.
    """
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.Name) and value.id in unread:
        yield from texts_in(unread.pop(value.id), unread)
    else:
        for child in ast.iter_child_nodes(value):
            yield from texts_in(child, unread)
