"""Tokens of ListOps: one per number modulo n, then those of all operations."""

from __future__ import annotations

from trainables.expressions.vocabulary import ExpressionVocabulary
from trainables.listops.operations import OPERATIONS


class Vocabulary(ExpressionVocabulary):
    """The tokens for one modulus, whatever is trained: numbers (ids 0..n-1), all operations, ``( ) = <eos>``."""

    def __init__(self, modulus: int) -> None:
        super().__init__(tuple(map(str, range(modulus))), tuple(OPERATIONS), of=f"modulus {modulus}")
