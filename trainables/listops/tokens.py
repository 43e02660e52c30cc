"""Tokens of ListOps: one for each number modulo n, then one for each operation of the vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

from trainables.expressions.vocabulary import ExpressionVocabulary
from trainables.listops.operations import FIRST_OPERATIONS


class Vocabulary(ExpressionVocabulary):
    """The tokens for one modulus, whatever the mix: numbers (ids 0..n-1), ``operations``, ``( ) = <eos>``."""

    def __init__(self, modulus: int, operations: Sequence[str] = FIRST_OPERATIONS) -> None:
        super().__init__(tuple(map(str, range(modulus))), tuple(operations), of=f"modulus {modulus}")
