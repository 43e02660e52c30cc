"""Tokens of permutation texts: ``product([1 0 2],sign...)`` with an element in one token, or in one for each image."""

from __future__ import annotations

from typing import Literal

import numpy as np

from trainables.expressions.vocabulary import ExpressionVocabulary
from trainables.permutations.groups import Group
from trainables.permutations.operations import OPERATIONS, SIGNS, Codes

ELEMENTS = ("token", "images")


class Vocabulary(ExpressionVocabulary):
    """The tokens for one group, whatever is trained.

    With ``token``: elements (``[1 0 2]``), points (``0``), signs (``+``, ``-``), orders (``#2``), all operations,
    ``( ) = <eos>``; the code of an answer is its token. With ``images`` there are no tokens for elements: the images of
    0, 1, ... are written one after the other, each in the token of that point.
    """

    def __init__(self, group: Group, elements: Literal["token", "images"]) -> None:
        codes = Codes(group)
        points = tuple(map(str, range(group.points)))
        reports = (*SIGNS, *(f"#{order}" for order in codes.orders.tolist()))
        of = f"the group {group.name}"
        if elements == "token":
            words = tuple(f"[{' '.join(map(str, row))}]" for row in group.images.tolist())
            super().__init__(words, tuple(OPERATIONS), of=of, answers=(*points, *reports))
            return
        others = np.zeros((codes.count - group.order, group.points), dtype=np.int64)
        others[:, 0] = np.arange(len(others))
        spelling = np.concatenate([group.images, others])
        super().__init__(points, tuple(OPERATIONS), of=of, answers=reports, values=group.order, spelling=spelling)
