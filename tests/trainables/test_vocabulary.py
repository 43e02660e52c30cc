"""Tokens of texts: one for each item, answer, operation and punctuation mark."""

from __future__ import annotations

import numpy as np
import pytest

from tests.trainables.spelling import tokens
from trainables.tasks import listops, permutations
from trainables.tasks.operations import OPERATIONS

S3 = permutations.TaskSettings(group="S3").vocabulary()


def test_numbers_come_first_and_every_operation_has_a_token() -> None:
    vocabulary = listops.TaskSettings(modulus=6, operations=tuple(OPERATIONS)).vocabulary()
    assert vocabulary.words == (*"012345", *OPERATIONS, "(", ")", "=", "<eos>")
    assert [vocabulary.operation(name) for name in OPERATIONS] == list(range(6, 6 + len(OPERATIONS)))
    for name in ("5", "(", "sum"):
        with pytest.raises(KeyError):
            vocabulary.operation(name)


def test_the_vocabulary_of_a_group_contains_elements_answers_and_operations() -> None:
    elements = ("[0 1 2]", "[0 2 1]", "[1 0 2]", "[1 2 0]", "[2 0 1]", "[2 1 0]")
    answers = ("0", "1", "2", "+", "-", "#1", "#2", "#3")
    assert S3.words == (*elements, *answers, *permutations.OPERATIONS, "(", ")", "=", "<eos>")
    assert S3.items == 6


def test_elements_in_a_text_are_found() -> None:
    text = tokens(S3, "product([1 0 2],image([0 2 1],[2 1 0]))=1<eos>")
    assert S3.arguments(text).tolist() == [-1, -1, 2, -1, -1, 1, 5, -1, -1, -1, -1, -1]
    assert S3.arguments(np.array([], dtype=np.uint8)).tolist() == []
