"""Operations, tested with plain Python."""

from __future__ import annotations

import itertools
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.listops import naive
from trainables.contract.tables import Function
from trainables.tasks.operations import OPERATIONS

PLAIN = tuple(name for name in OPERATIONS if name not in ("shuffled_add", "relabelled_add"))


def function_of(name: str, modulus: int, seed: int) -> Function:
    return OPERATIONS[name].build(modulus, np.random.default_rng(seed))


@st.composite
def arguments(draw: st.DrawFn) -> tuple[int, list[int]]:
    modulus = draw(st.integers(2, 60_000))
    return modulus, draw(st.lists(st.integers(0, modulus - 1), min_size=2, max_size=9))


@given(st.sampled_from(PLAIN), arguments())
def test_operations_agree_with_plain_python(name: str, case: tuple[int, list[int]]) -> None:
    modulus, numbers = case
    assert function_of(name, modulus, 0)(np.array(numbers)) == naive.value(name, numbers, modulus)


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_commutative_flag_is_correct(name: str) -> None:
    function = function_of(name, 5, 1)
    triples = np.array(list(itertools.product(range(5), repeat=3)))
    same = all(
        np.array_equal(function(triples), function(triples[:, order])) for order in itertools.permutations(range(3))
    )
    assert same == OPERATIONS[name].commutative


def test_shuffled_add_permutes_cells_and_folds_from_the_left() -> None:
    function = function_of("shuffled_add", 8, 0)
    pairs = np.array(list(itertools.product(range(8), repeat=2)))
    table = function(pairs).reshape(8, 8)
    assert np.bincount(table.reshape(-1)).tolist() == [8] * 8, "output counts are those of the sum"
    assert any(len(set(row)) < 8 for row in table), "no Latin square any more"
    rows = np.random.default_rng(0).integers(8, size=(50, 4))
    assert function(rows).tolist() == [reduce(lambda a, b: table[a, b], row) for row in rows.tolist()]


def test_relabelled_add_is_the_sum_under_other_names() -> None:
    triples = np.array(list(itertools.product(range(6), repeat=3)))
    sums, values = triples.sum(axis=1) % 6, function_of("relabelled_add", 6, 4)(triples)
    labels = {int(total): int(value) for total, value in zip(sums, values, strict=True)}
    assert sorted(labels.values()) == list(range(6))
    assert [labels[int(total)] for total in sums] == values.tolist()
