"""Tokens of texts: one for each item, answer, operation and sign."""

from __future__ import annotations

import numpy as np
import pytest

from tests.trainables.spelling import tokens
from trainables.tasks import permutation_groups
from trainables.tasks.listops import Vocabulary
from trainables.tasks.operations import OPERATIONS
from trainables.tasks.permutations import TaskSettings

TOKEN, IMAGES = (TaskSettings(group="S3", elements=elements).vocabulary() for elements in ("token", "images"))


def test_numbers_come_first_and_every_operation_has_a_token() -> None:
    vocabulary = Vocabulary(6, tuple(OPERATIONS))
    assert vocabulary.words == (*"012345", *OPERATIONS, "(", ")", "=", "<eos>")
    assert [vocabulary.operation(name) for name in OPERATIONS] == list(range(6, 6 + len(OPERATIONS)))
    for name in ("5", "(", "sum"):
        with pytest.raises(KeyError):
            vocabulary.operation(name)


@pytest.mark.parametrize(("modulus", "dtype"), [(200, np.uint8), (300, np.uint16), (65_000, np.uint16)])
def test_smallest_type_that_holds_every_id(modulus: int, dtype: type) -> None:
    vocabulary = Vocabulary(modulus)
    assert vocabulary.eos <= np.iinfo(dtype).max
    assert vocabulary.dtype == vocabulary.spelling.dtype == dtype


def test_an_element_is_one_token_or_one_for_each_image() -> None:
    assert TOKEN.words[:6] == ("[0 1 2]", "[0 2 1]", "[1 0 2]", "[1 2 0]", "[2 0 1]", "[2 1 0]")
    assert (TOKEN.items, IMAGES.items) == (6, 3)
    reports = ("+", "-", "#1", "#2", "#3", *permutation_groups.OPERATIONS, "(", ")", "=", "<eos>")
    assert TOKEN.words[6:] == ("0", "1", "2", *reports)
    assert IMAGES.words == ("0", "1", "2", *reports)


def test_the_elements_a_text_spells() -> None:
    for vocabulary, text, expected in (
        (TOKEN, "product([1 0 2],image([0 2 1],[2 1 0]))=1<eos>", [-1, -1, 2, -1, -1, 1, 5, -1, -1, -1, -1, -1]),
        (IMAGES, "product(1,0,2,image(0,2,1,2,1,0))=1<eos>", [-1, -1, 2, -1, -1, 1, 5, -1, -1, -1, -1]),
        (IMAGES, "1,0,2,0=1,1,0=2,1", [2, -1, -1, -1]),
    ):
        assert vocabulary.arguments(tokens(vocabulary, text)).tolist() == expected
    assert IMAGES.arguments(np.array([], dtype=np.uint8)).tolist() == []
