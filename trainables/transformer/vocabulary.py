"""The tokens of texts with worked solutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.unsignedinteger[Any]]
"""Token ids: uint8 if they fit, else uint16."""


class ExpressionVocabulary:
    """The tokens of a task, the same for every mix.

    They are the items (the possible values of arguments, with ids 0, 1, ...), answers that are not items, all
    operations, and ``( ) = <eos>``. The result of an operation is a code: the id of its token. Commas have no tokens.
    """

    def __init__(self, items: Sequence[str], operations: Sequence[str], answers: Sequence[str] = ()) -> None:
        self.items = len(items)
        self.words: tuple[str, ...] = (*items, *answers, *operations, "(", ")", "=", "<eos>")
        self.dtype: type[np.unsignedinteger[Any]] = np.uint8 if len(self.words) <= 256 else np.uint16
        self._operations = dict(zip(operations, range(len(items) + len(answers), len(self.words)), strict=False))
        self.open, self.close, self.equals, self.eos = range(len(self.words) - 4, len(self.words))

    def __len__(self) -> int:
        return len(self.words)

    def operation(self, name: str) -> int:
        """Return the id of an operation's token. Raises ``KeyError`` for an unknown name."""
        return self._operations[name]

    def arguments(self, tokens: Tokens) -> NDArray[np.int64]:
        """Return the values [L] of the tokens [L] of a text, with -1 for tokens that are not values."""
        return np.where(tokens < self.items, tokens.astype(np.int64), -1)
