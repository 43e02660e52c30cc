"""Tokens of ListOps texts such as ``add(3,max(1,4),2)=add(3,4,2)=9<eos>``: one per number, operation and sign."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.listops.operations import OPERATIONS

EOS = "<eos>"
_PIECE = re.compile(r"(?P<skip>[,\s]+)|[0-9]+|[a-z_]+|[()=]|<eos>")

Tokens = NDArray[np.unsignedinteger[Any]]
"""Token ids: uint8 where they fit, else uint16."""


class Vocabulary:
    """The tokens for one modulus, whatever is trained: numbers (ids 0..n-1), all operations, ``( ) = <eos>``.

    Commas are no tokens: they are left out by :meth:`encode` and put back by :meth:`decode`.
    """

    def __init__(self, modulus: int) -> None:
        self.modulus = modulus
        self.words: tuple[str, ...] = (*map(str, range(modulus)), *OPERATIONS, "(", ")", "=", EOS)
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
        if name not in OPERATIONS:
            raise KeyError(name)
        return self._ids[name]

    def encode(self, text: str) -> Tokens:
        """Ids [L] of a text; blanks and commas count for nothing. Raises ``ValueError`` at what is no token."""
        ids = []
        place = 0
        while place < len(text):
            found = _PIECE.match(text, place)
            if found is None or not (found["skip"] or found.group() in self._ids):
                piece = text[place] if found is None else found.group()
                raise ValueError(f"{piece!r} at character {place} is no token for modulus {self.modulus}: {text!r}")
            if not found["skip"]:
                ids.append(self._ids[found.group()])
            place = found.end()
        return np.array(ids, dtype=self.dtype)

    def decode(self, ids: Sequence[int] | NDArray[np.integer]) -> str:
        """The text of ids [L]; any ids, a model's nonsense too, come back from :meth:`encode` unchanged.

        Commas stand before names and numbers that follow a name, a number or ``)``. Raises ``ValueError`` for an id
        that is no token.
        """
        text = []
        after_argument = False
        for token in map(int, ids):
            if not 0 <= token < len(self):
                raise ValueError(f"{token} is no token id; ids are 0..{len(self) - 1}")
            argument = token < self.open
            text.append("," if after_argument and argument else "")
            text.append(self.words[token])
            after_argument = argument or token == self.close
        return "".join(text)
