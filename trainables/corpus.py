"""Data of a task for a learner, as plain arrays: text to train on and expressions to be scored on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Alphabet:
    """Token ids the learner must know: how many there are, how many of them (the first ones) are items, the tokens that
    values are written in, and two."""

    size: int
    items: int
    eos: int
    equals: int


@dataclass(frozen=True)
class Examples:
    """Expressions with their worked solutions.

    ``tokens`` [M, W] is the full text, padded with ``<eos>``; ``prompt_lengths`` [M] counts the tokens up to and
    including the first '='; ``lengths`` [M] the text's, with its ``<eos>``; ``answers`` [M] the right answers as codes,
    equal where the answers are (token ids where every answer is one token).
    """

    tokens: NDArray[np.unsignedinteger]
    prompt_lengths: NDArray[np.int64]
    lengths: NDArray[np.int64]
    answers: NDArray[np.int64]

    @property
    def floor(self) -> float:
        """The accuracy of the best constant answer, in [0, 1]."""
        return float(np.bincount(self.answers).max() / len(self.answers))


@dataclass(frozen=True)
class Dataset:
    """Everything one run is trained and scored on; a function of (task settings, mix, seed).

    ``tokens`` [L] is the training text, expression after expression; ``answer`` [L] is True for tokens after the
    first '=' of their expression, with its ``<eos>``; ``starts`` [E] are the offsets of the expressions' first
    tokens, ascending. ``validation`` and ``test`` hold, for every task of the mix, expressions of that task alone;
    ``mixed`` holds test expressions drawn from the mix, None for a mix of one. ``nodes`` counts the operation nodes
    of each task in the training text, ``cases`` the different held-out tuples (multisets where order does not count)
    that the test expressions of each task rest on. ``digest`` is a hash of all arrays, for the record.
    """

    tokens: NDArray[np.unsignedinteger]
    answer: NDArray[np.bool_]
    starts: NDArray[np.int64]
    validation: Mapping[str, Examples]
    test: Mapping[str, Examples]
    mixed: Examples | None
    nodes: Mapping[str, int]
    cases: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
