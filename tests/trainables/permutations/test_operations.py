"""Operations on the elements of a group, against sympy and against trying every order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sympy.combinatorics import Permutation

from tests.trainables.permutations.oracle import Oracle, sympy_group, within
from trainables.tasks.permutation_groups import OPERATIONS, Asked, Codes, Group, ignores_order, named_group, product
from trainables.tasks.permutations import Vocabulary

CASES = {"S4": "D4", "A5": "A4", "D4": "C4", "C6": None}


def codes(group: Group, operation: str, subgroup: str | None, point: int = 0) -> np.ndarray:
    found = OPERATIONS[operation].codes(
        group, Codes(group), Asked(point, None if subgroup is None else group.subgroup(subgroup))
    )
    assert found is not None
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_agrees_with_sympy(name: str, operation: str) -> None:
    group, subgroup = named_group(name), CASES[name]
    if subgroup is None and operation == "coset":
        assert OPERATIONS[operation].codes(group, Codes(group), Asked(0, None)) is None
        return
    point = group.points - 1
    cosets = () if subgroup is None else within(sympy_group(subgroup), group.points)
    oracle = Oracle(group.points, point, cosets)
    words = Vocabulary(group).words
    said = codes(group, operation, subgroup, point)
    for factors in np.random.default_rng(1).integers(group.order, size=(40, 4)):
        theirs = [Permutation(group.images[factor].tolist()) for factor in factors]
        assert words[said[product(group, factors)]] == oracle.value(operation, theirs)


def test_products_of_many_lists_at_once() -> None:
    group = named_group("S4")
    batch = np.random.default_rng(0).integers(group.order, size=(5, 3, 4))
    values = product(group, batch)
    assert values.shape == (5, 3)
    assert values.reshape(-1).tolist() == [int(product(group, row)) for row in batch.reshape(-1, 4)]


def test_cosets_are_told_apart_by_their_first_element() -> None:
    group = named_group("S4")
    said = codes(group, "coset", "D4")
    assert sorted(np.unique(said, return_counts=True)[1].tolist()) == [8, 8, 8]
    assert all(said[first] == first for first in np.unique(said))
    assert all(np.flatnonzero(said == first).min() == first for first in np.unique(said))


def test_only_elements_may_be_arguments_again() -> None:
    for name, operation in OPERATIONS.items():
        group = named_group("S3")
        stays = bool((codes(group, name, "C3") < group.order).all())
        assert stays == operation.gives_elements


@pytest.mark.parametrize("arguments", [2, 3, 4])
@pytest.mark.parametrize(("name", "subgroup"), [("S3", "C3"), ("S3", "S2"), ("D4", "C4"), ("C6", "C1"), ("A4", "C3")])
def test_what_ignores_order_is_found_without_trying(name: str, subgroup: str, arguments: int) -> None:
    group = named_group(name)
    every = np.array(list(itertools.product(range(group.order), repeat=arguments)))
    for operation in OPERATIONS:
        said = codes(group, operation, subgroup)
        values = said[product(group, every)]
        # Two neighbours swapped, wherever they stand: these make every order.
        swaps = [[*range(i), i + 1, i, *range(i + 2, arguments)] for i in range(arguments - 1)]
        same = all(np.array_equal(values, said[product(group, every[:, swap])]) for swap in swaps)
        assert ignores_order(group, said, arguments) == same, operation
