"""Groups and operations on their elements, tested with sympy, and the resulting checks of settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sympy.combinatorics import Permutation

from tests.trainables.permutations.oracle import sympy_group
from tests.trainables.spelling import tokens
from trainables.base import Mix, SettingsError
from trainables.tasks.permutation_groups import named_group
from trainables.tasks.permutations import OPERATIONS, TaskSettings

NAMES = ("S2", "S3", "S4", "S5", "A3", "A4", "A5", "C2", "C6", "D3", "D4", "D5")


@pytest.mark.parametrize("name", NAMES)
def test_elements_and_products_agree_with_sympy(name: str) -> None:
    group, theirs = named_group(name), sympy_group(name)
    assert (group.order, group.points) == (theirs.order(), theirs.degree)
    rows = [tuple(row) for row in group.images.tolist()]
    assert set(rows) == {tuple(element.array_form) for element in theirs.elements}
    assert rows == sorted(rows), "lexicographic, each once"
    assert rows[0] == tuple(range(group.points)), "the identity is first"
    for first, second in np.random.default_rng(0).integers(group.order, size=(100, 2)).tolist():
        both = Permutation(group.images[first].tolist()) * Permutation(group.images[second].tolist())
        assert group.images[group.table[first, second]].tolist() == both.array_form


@pytest.mark.parametrize("name", ["s3", "S", "S0", "D2", "Q8", "S3xC2", ""])
def test_unknown_group_names_are_refused_with_the_valid_forms(name: str) -> None:
    with pytest.raises(SettingsError, match=r"is not a group; give S<n> .*, A<n> .*, C<n> .* or D<n>") as caught:
        named_group(name)
    assert (caught.value.key, caught.value.given) == ("task.group", name)


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        ({"group": "C1"}, "task.group", "has 1 elements; it must have at least 2 and at most 1000"),
        ({"group": "S7"}, "task.group", "has 5040 elements"),
        ({"group": "S900"}, "task.group", "has too many elements"),
        ({"point": 3}, "task.point", "at least 0 and at most 2"),
        ({"group": "A4", "subgroup": "S3"}, "task.subgroup", "'S3' is not a subgroup of A4 on its points"),
        ({"group": "C12", "subgroup": "S12"}, "task.subgroup", "not a subgroup of C12"),
        ({"subgroup": "three"}, "task.subgroup", "is not a group"),
        ({"max_arguments": 2}, "task.held_out_fraction", r"of 6\^2 tuples is 1; .*: raise .*, the order of task"),
    ],
)
def test_errors_name_their_key(given: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        TaskSettings(**given)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("settings", "mix", "message", "key"),
    [
        ({"group": "A4"}, "product+sign", "'sign' has the same result for all elements of A4", "mixes"),
        ({"group": "S3", "subgroup": "S3"}, "coset", "'coset' has the same result", "mixes"),
        ({}, "product+coset", "'coset' needs task.subgroup: the subgroup of S3", "task.subgroup"),
    ],
)
def test_mixes_with_undefined_operations_are_refused(
    settings: dict[str, Any], mix: str, message: str, key: str
) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        TaskSettings(**settings).check_mix(Mix.parse(mix))
    assert caught.value.key == key


def test_the_leak_of_other_orders_is_disclosed() -> None:
    (warning,) = TaskSettings(group="S4", subgroup="A4").warnings()
    assert "arguments in another order" in warning
    assert TaskSettings(group="S4", subgroup="A4").blind() == ("sign", "coset")
    assert TaskSettings(group="C12").blind() == ("product", "image", "sign", "order")
    assert TaskSettings(group="S4", held_out="unordered").warnings() == []


S3 = TaskSettings(group="S3").vocabulary()


def test_the_vocabulary_of_a_group_contains_elements_answers_and_operations() -> None:
    elements = ("[0 1 2]", "[0 2 1]", "[1 0 2]", "[1 2 0]", "[2 0 1]", "[2 1 0]")
    answers = ("0", "1", "2", "+", "-", "#1", "#2", "#3")
    assert S3.words == (*elements, *answers, *OPERATIONS, "(", ")", "=", "<eos>")
    assert S3.items == 6


def test_elements_in_a_text_are_found() -> None:
    text = tokens(S3, "product([1 0 2],image([0 2 1],[2 1 0]))=1<eos>")
    assert S3.arguments(text).tolist() == [-1, -1, 2, -1, -1, 1, 5, -1, -1, -1, -1, -1]
    assert S3.arguments(np.array([], dtype=np.uint8)).tolist() == []
