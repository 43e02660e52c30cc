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

    Items are what values are written in: one each, or, where ``spelling`` says so, several. ``spelling`` [codes, w]
    are the tokens of everything an operation can come to: first the values (arguments), in ``w`` tokens each, then
    what is none, in its first token alone.

    Commas are no tokens.
    """

    def __init__(
        self,
        items: Sequence[str],
        operations: Sequence[str],
        *,
        answers: Sequence[str] = (),
        values: int | None = None,
        spelling: NDArray[np.int64] | None = None,
    ) -> None:
        self.items = len(items)
        self.words: tuple[str, ...] = (*items, *answers, *operations, "(", ")", "=", EOS)
        self._operations = frozenset(operations)
        self._ids = {word: token for token, word in enumerate(self.words)}
        self.open, self.close, self.equals, self.eos = (self._ids[word] for word in ("(", ")", "=", EOS))
        plain = np.arange(len(items) + len(answers))[:, None]
        self.spelling: Tokens = (plain if spelling is None else spelling).astype(self.dtype)
        self._values = len(items) if values is None else values

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dtype(self) -> type[np.unsignedinteger[Any]]:
        """The smallest unsigned type that holds every id."""
        return np.uint8 if len(self) <= 256 else np.uint16

    @property
    def lengths(self) -> NDArray[np.int64]:
        """In how many tokens each code is spelt, [codes]."""
        codes, width = self.spelling.shape
        return np.where(np.arange(codes) < self._values, width, 1)

    def operation(self, name: str) -> int:
        """The id of an operation's token. Raises ``KeyError`` for a name that is none."""
        if name not in self._operations:
            raise KeyError(name)
        return self._ids[name]

    def arguments(self, tokens: Tokens) -> NDArray[np.int64]:
        """The values [N] that a text of token ids [L] spells, in its order, and a -1 for every token of anything else.

        Where values take several tokens, runs of items are read from the left; what is left over of a run is left out.
        """
        width = self.spelling.shape[1]
        if width == 1:
            return np.where(tokens < self._values, tokens.astype(np.int64), -1)
        known = {row.tobytes(): value for value, row in enumerate(self.spelling[: self._values])}
        place = np.arange(len(tokens))
        is_item = tokens < self.items
        in_run = place - np.maximum.accumulate(np.where(is_item, -1, place)) - 1
        ends = is_item & (in_run % width == width - 1)
        found = np.full(len(tokens), -1)
        for last in np.flatnonzero(ends):
            found[last] = known.get(tokens[last - width + 1 : last + 1].tobytes(), -1)
        result: NDArray[np.int64] = found[~is_item | ends]
        return result
