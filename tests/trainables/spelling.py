"""Texts of tokens in readable form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np

from trainables.transformer.vocabulary import ExpressionVocabulary, Tokens

PIECE = re.compile(r"\[[0-9 ]+\]|#?[0-9]+|[a-z_]+|[()=+-]|<eos>")


def spelt(vocabulary: ExpressionVocabulary, ids: Iterable[int]) -> str:
    """Return the text of ids, with commas before operations, items and answers that follow one of these or ``)``."""
    text, after_argument = [], False
    for token in map(int, ids):
        argument = token < vocabulary.open
        text.append(("," if after_argument and argument else "") + vocabulary.words[token])
        after_argument = argument or token == vocabulary.close
    return "".join(text)


def solution(prompt: str, value: Callable[[str, str], str]) -> str:
    """Return the full text for a prompt (without its ``=``): every step, then ``<eos>``.

    ``value`` returns the value of an operation from its name and its arguments. The leftmost operation whose arguments
    are all items is the leftmost innermost one."""
    steps = [prompt]
    while innermost := re.search(r"([a-z_]+)\(([^a-z()]+)\)", steps[-1]):
        result = value(innermost[1], innermost[2])
        steps.append(steps[-1][: innermost.start()] + result + steps[-1][innermost.end() :])
    return "=".join(steps) + "<eos>"


def tokens(vocabulary: ExpressionVocabulary, text: str) -> Tokens:
    """Return the ids of a text."""
    ids = {word: token for token, word in enumerate(vocabulary.words)}
    return np.array([ids[piece] for piece in PIECE.findall(text)], dtype=vocabulary.dtype)
