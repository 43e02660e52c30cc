"""Tokens of texts such as ``add(3,max(1,4),2)=add(3,4,2)=9<eos>``: one for each item, answer, operation and sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

EOS = "<eos>"

Tokens = NDArray[np.unsignedinteger[Any]]
"""Token ids: uint8 if they fit, else uint16."""


class ExpressionVocabulary:
    """The tokens of a task, the same for every mix.

    They are the items (ids 0, 1, ...), answers that are not items, all operations, and ``( ) = <eos>``. Items are the
    possible values of arguments. The result of an operation is a code: the id of its token. Commas have no tokens.
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
        """Smallest unsigned type for all ids."""
        return np.uint8 if len(self) <= 256 else np.uint16

    def operation(self, name: str) -> int:
        """Return the id of an operation's token. Raises ``KeyError`` for an unknown name."""
        if name not in self._operations:
            raise KeyError(name)
        return self._ids[name]

    def arguments(self, tokens: Tokens) -> NDArray[np.int64]:
        """Return the values [L] of the tokens [L] of a text, with -1 for tokens that are not values."""
        return np.where(tokens < self.items, tokens.astype(np.int64), -1)
