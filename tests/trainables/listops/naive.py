"""A slow, independent implementation of ListOps on texts, against which the generator is tested."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce

from tests.trainables import spelling


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


def solution(prompt: str, evaluate: Callable[[str, list[int]], int]) -> str:
    """Return the full text for a prompt; ``evaluate`` gets each operation with its arguments."""
    return spelling.solution(prompt, lambda name, numbers: str(evaluate(name, list(map(int, numbers.split(","))))))


def windows(text: str, length: int) -> set[tuple[int, ...]]:
    """Return all sequences of ``length`` adjacent numbers in a text of one or more expressions (commas are not
    tokens)."""
    runs = set()
    for run in re.findall(r"\d+(?:,\d+)*", text):
        numbers = [int(number) for number in run.split(",")]
        runs |= {tuple(numbers[start : start + length]) for start in range(len(numbers) - length + 1)}
    return runs
