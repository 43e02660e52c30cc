"""A slow, independent implementation of ListOps on texts, against which the generator is tested."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce

Tree = int | tuple[str, list["Tree"]]
Evaluate = Callable[[str, Sequence[int]], int]


def value(operation: str, arguments: Sequence[int], modulus: int) -> int:
    """Return the value of an operation without a table, by its plainest definition."""
    match operation:
        case "max":
            return max(arguments)
        case "min":
            return min(arguments)
        case "med":
            return sorted(arguments)[len(arguments) // 2]
        case "add":
            return sum(arguments) % modulus
        case "prod":
            return reduce(lambda left, right: left * right, arguments) % modulus
        case "nadd":
            return sum(-x if place % 2 else x for place, x in enumerate(arguments)) % modulus
    raise KeyError(operation)


def parse(text: str) -> Tree:
    """Return the tree of one step such as ``add(3,max(1,4))``. Raises ``AssertionError`` if the text is not a single
    tree."""
    pieces = re.findall(r"\d+|[a-z_]+|[(),]", text)
    assert "".join(pieces) == text
    tree, left = _parse(pieces)
    assert not left, text
    return tree


def _parse(pieces: list[str]) -> tuple[Tree, list[str]]:
    head, *rest = pieces
    if head.isdigit():
        return int(head), rest
    assert rest[0] == "("
    arguments = []
    separator = ","
    rest = rest[1:]
    while separator == ",":
        argument, rest = _parse(rest)
        arguments.append(argument)
        separator, *rest = rest
    assert separator == ")"
    return (head, arguments), rest


def show(tree: Tree) -> str:
    if isinstance(tree, int):
        return str(tree)
    return f"{tree[0]}({','.join(map(show, tree[1]))})"


def reduce_once(tree: Tree, evaluate: Evaluate) -> Tree:
    """Return the tree with its leftmost innermost operation replaced by its value."""
    assert not isinstance(tree, int)
    operation, arguments = tree
    for place, argument in enumerate(arguments):
        if not isinstance(argument, int):
            return operation, [*arguments[:place], reduce_once(argument, evaluate), *arguments[place + 1 :]]
    return evaluate(operation, [argument for argument in arguments if isinstance(argument, int)])


def solution(prompt: str, evaluate: Evaluate) -> str:
    """Return the full text for a prompt (without its ``=``): every step, then ``<eos>``."""
    tree = parse(prompt)
    steps = [prompt]
    while not isinstance(tree, int):
        tree = reduce_once(tree, evaluate)
        steps.append(show(tree))
    return "=".join(steps) + "<eos>"


def depth(tree: Tree) -> int:
    return 0 if isinstance(tree, int) else 1 + max(map(depth, tree[1]))


def operations(tree: Tree) -> list[tuple[str, int]]:
    """Return (name, number of arguments) of every operation in the tree."""
    if isinstance(tree, int):
        return []
    return [(tree[0], len(tree[1])), *(operation for argument in tree[1] for operation in operations(argument))]


def windows(text: str, length: int) -> set[tuple[int, ...]]:
    """Return all sequences of ``length`` adjacent numbers in a text of one or more expressions (commas are not
    tokens)."""
    runs = set()
    for run in re.findall(r"\d+(?:,\d+)*", text):
        numbers = [int(number) for number in run.split(",")]
        runs |= {tuple(numbers[start : start + length]) for start in range(len(numbers) - length + 1)}
    return runs
