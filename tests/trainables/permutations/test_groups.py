"""Groups and operations on their elements, tested with sympy, and the resulting checks of settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sympy.combinatorics import Permutation

from tests.trainables.permutations.oracle import sympy_group, within
from tests.trainables.spelling import tokens
from trainables.base import Mix, SettingsError
from trainables.tasks.permutation_groups import GROUPS, named_group
from trainables.tasks.permutations import OPERATIONS, TaskSettings


@pytest.mark.parametrize("name", GROUPS[:3])
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


@pytest.mark.parametrize("name", ["C3", "C5", "D4", "D5"])
def test_subgroups_agree_with_sympy(name: str) -> None:
    group = named_group("S5")
    theirs = {tuple(element.array_form) for element in within(sympy_group(name), 5)}
    assert {tuple(group.images[element].tolist()) for element in group.subgroup(name)} == theirs


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        ({"group": "S7"}, "task.group", "there is no group 'S7'"),
        ({"point": 3}, "task.point", "at least 0 and at most 2"),
        ({"subgroup": "D4"}, "task.subgroup", "'D4' is not a known subgroup of S3"),
        ({"max_arguments": 2}, "task.held_out_fraction", r"of 6\^2 tuples is 1; .*: raise .*, the order of task"),
    ],
)
def test_errors_name_their_key(given: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        TaskSettings(**given)
    assert caught.value.key == key


def test_cosets_need_a_subgroup() -> None:
    with pytest.raises(SettingsError, match=r"'coset' needs task\.subgroup: the subgroup of S3") as caught:
        TaskSettings().check_mix(Mix.parse("product+coset"))
    assert caught.value.key == "task.subgroup"


def test_the_leak_of_other_orders_is_disclosed() -> None:
    (warning,) = TaskSettings(group="S4").warnings()
    assert "arguments in another order" in warning
    assert TaskSettings(group="S4", held_out="unordered").warnings() == []


def test_the_vocabulary_of_a_group_contains_elements_answers_and_operations() -> None:
    vocabulary = TaskSettings(group="S3").vocabulary()
    elements = ("[0 1 2]", "[0 2 1]", "[1 0 2]", "[1 2 0]", "[2 0 1]", "[2 1 0]")
    answers = ("0", "1", "2", "+", "-", "#1", "#2", "#3")
    assert vocabulary.words == (*elements, *answers, *OPERATIONS, "(", ")", "=", "<eos>")
    assert vocabulary.items == 6
    text = tokens(vocabulary, "product([1 0 2],image([0 2 1],[2 1 0]))=1<eos>")
    assert vocabulary.arguments(text).tolist() == [-1, -1, 2, -1, -1, 1, 5, -1, -1, -1, -1, -1]
