"""Tokens of texts such as ``add(3,max(1,4),2)=add(3,4,2)=9<eos>``: one per item, answer, operation and sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

EOS = "<eos>"

Tokens = NDArray[np.unsignedinteger[Any]]
"""Token ids: uint8 where they fit, else uint16."""


class ExpressionVocabulary:
    """The tokens of a task, whatever is trained: items (ids 0, 1, ...), answers that are no items, all operations,
    ``( ) = <eos>``.

    Items are the values that arguments can have. What an operation comes to is a code: the id of its token. Commas are
    no tokens.
    """

    def __init__(self, items: Sequence[str], operations: Sequence[str], answers: Sequence[str] = ()) -> None:
        self.items = len(items)
        self.words: tuple[str, ...] = (*items, *answers, *operations, "(", ")", "=", EOS)
        self._operations = frozenset(operations)
        self._ids = {word: token for token, word in enumerate(self.words)}
        self.open, self.close, self.equals, self.eos = (self._ids[word] for word in ("(", ")", "=", EOS))

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dtype(self) -> type[np.unsignedinteger[Any]]:
        """The smallest unsigned type that holds every id."""
        return np.uint8 if len(self) <= 256 else np.uint16

    def operation(self, name: str) -> int:
        """The id of an operation's token. Raises ``KeyError`` for a name that is none."""
        if name not in self._operations:
            raise KeyError(name)
        return self._ids[name]

    def arguments(self, tokens: Tokens) -> NDArray[np.int64]:
        """The values [L] in a text of token ids [L], and a -1 for every token of anything else."""
        return np.where(tokens < self.items, tokens.astype(np.int64), -1)
