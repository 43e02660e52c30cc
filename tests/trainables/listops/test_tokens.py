"""Texts to ids and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.tasks.listops.family import Vocabulary
from trainables.tasks.listops.operations import OPERATIONS

TEXT = "add(3,max(1,4),2)=add(3,4,2)=9<eos>"


def test_one_token_per_number_operation_and_sign() -> None:
    vocabulary = Vocabulary(20)
    ids = vocabulary.encode(TEXT)
    assert [vocabulary.words[token] for token in ids] == (
        ["add", "(", "3", "max", "(", "1", "4", ")", "2", ")", "=", "add", "(", "3", "4", "2", ")", "=", "9", "<eos>"]
    )
    assert vocabulary.decode(ids) == TEXT


def test_numbers_come_first_and_every_operation_has_a_token() -> None:
    vocabulary = Vocabulary(6, tuple(OPERATIONS))
    assert vocabulary.encode("0 1 2 3 4 5").tolist() == list(range(6))
    assert {vocabulary.operation(name) for name in OPERATIONS} == set(range(6, 6 + len(OPERATIONS)))
    assert len(vocabulary) == 6 + len(OPERATIONS) + 4
    assert len(set(vocabulary.words)) == len(vocabulary)


@pytest.mark.parametrize(("modulus", "dtype"), [(200, np.uint8), (300, np.uint16), (65_000, np.uint16)])
def test_smallest_type_that_holds_every_id(modulus: int, dtype: type) -> None:
    vocabulary = Vocabulary(modulus)
    assert vocabulary.encode(f"{modulus - 1}<eos>").tolist() == [modulus - 1, vocabulary.eos]
    assert vocabulary.encode(TEXT).dtype == dtype


@given(st.integers(2, 300).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, len(Vocabulary(n)) - 1)))))
def test_any_ids_survive_the_round_trip(case: tuple[int, list[int]]) -> None:
    modulus, ids = case
    vocabulary = Vocabulary(modulus)
    assert vocabulary.encode(vocabulary.decode(ids)).tolist() == ids


@pytest.mark.parametrize("text", ["add(3,20)", "sum(1,2)", "add(1;2)", "1=<end>", "01", "1.5"])
def test_what_is_no_token_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="no token for modulus 20"):
        Vocabulary(20).encode(text)


def test_ids_and_names_out_of_range_are_refused() -> None:
    vocabulary = Vocabulary(6)
    for token in (-1, len(vocabulary)):
        with pytest.raises(ValueError, match="no token id"):
            vocabulary.decode([token])
    for name in ("5", "(", "sum"):
        with pytest.raises(KeyError):
            vocabulary.operation(name)
