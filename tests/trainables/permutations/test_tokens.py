"""Texts to ids and back, and the elements a text spells."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.tasks.permutations.family import Vocabulary
from trainables.tasks.permutations.groups import named_group
from trainables.tasks.permutations.operations import OPERATIONS

Elements = Literal["token", "images"]
S3, BOTH = named_group("S3"), [Vocabulary(named_group("S3"), elements) for elements in ("token", "images")]


def test_an_element_is_one_token_or_one_for_each_image() -> None:
    token, images = BOTH
    ids = token.encode("product([1 0 2],sign([0 2 1],[2 1 0]))=+<eos>")
    assert [token.words[i] for i in ids] == [
        *("product", "(", "[1 0 2]", "sign", "(", "[0 2 1]", "[2 1 0]", ")", ")", "=", "+", "<eos>")
    ]
    ids = images.encode("product(1,0,2,0,2,1)=2,0,1<eos>")
    assert [images.words[i] for i in ids] == ["product", "(", *"102021", ")", "=", *"201", "<eos>"]


def test_what_the_vocabulary_holds() -> None:
    token, images = BOTH
    assert token.words[:6] == ("[0 1 2]", "[0 2 1]", "[1 0 2]", "[1 2 0]", "[2 0 1]", "[2 1 0]")
    assert (token.items, images.items) == (6, 3)
    reports = ("+", "-", "#1", "#2", "#3", *OPERATIONS, "(", ")", "=", "<eos>")
    assert token.words[6:] == ("0", "1", "2", *reports)
    assert images.words == ("0", "1", "2", *reports)


@given(st.sampled_from(BOTH).flatmap(lambda one: st.tuples(st.just(one), st.lists(st.integers(0, len(one) - 1)))))
def test_any_ids_survive_the_round_trip(case: tuple[Vocabulary, list[int]]) -> None:
    vocabulary, ids = case
    assert vocabulary.encode(vocabulary.decode(ids)).tolist() == ids


def test_the_elements_a_text_spells() -> None:
    token, images = BOTH
    for vocabulary, text, expected in (
        (token, "product([1 0 2],image([0 2 1],[2 1 0]))=1<eos>", [-1, -1, 2, -1, -1, 1, 5, -1, -1, -1, -1, -1]),
        (images, "product(1,0,2,image(0,2,1,2,1,0))=1<eos>", [-1, -1, 2, -1, -1, 1, 5, -1, -1, -1, -1]),
        (images, "1,0,2,0=1,1,0=2,1", [2, -1, -1, -1]),
    ):
        assert vocabulary.arguments(vocabulary.encode(text)).tolist() == expected
    assert images.arguments(np.array([], dtype=np.uint8)).tolist() == []


@pytest.mark.parametrize("text", ["product([1 1 2])", "[0 1 2 3]", "3", "#6", "add(0,1)"])
def test_what_is_no_token_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="no token for the group S3"):
        BOTH[0].encode(text)
