"""Groups against sympy's of the same names."""

from __future__ import annotations

import numpy as np
import pytest
from sympy.combinatorics import Permutation

from tests.trainables.permutations.oracle import sympy_group, within
from trainables.base import SettingsError
from trainables.tasks.permutation_groups import named_group

NAMES = ("S2", "S3", "S4", "S5", "A3", "A4", "A5", "C2", "C6", "D3", "D4", "D5")


@pytest.mark.parametrize("name", NAMES)
def test_elements_are_those_of_sympys_group(name: str) -> None:
    group, theirs = named_group(name), sympy_group(name)
    assert (group.order, group.points) == (theirs.order(), theirs.degree)
    rows = [tuple(row) for row in group.images.tolist()]
    assert set(rows) == {tuple(element.array_form) for element in theirs.elements}
    assert rows == sorted(rows), "lexicographic, each once"
    assert rows[0] == tuple(range(group.points)), "the identity is first"


@pytest.mark.parametrize("name", NAMES)
def test_products_are_those_of_sympy(name: str) -> None:
    group = named_group(name)
    pairs = np.random.default_rng(0).integers(group.order, size=(100, 2))
    for first, second in pairs.tolist():
        product = Permutation(group.images[first].tolist()) * Permutation(group.images[second].tolist())
        assert group.images[group.table[first, second]].tolist() == product.array_form


def test_the_first_factor_acts_first() -> None:
    """Swap 0 and 1, then 1 and 2: 0 goes to 1 and on to 2."""
    group = named_group("S3")
    place = {tuple(row): element for element, row in enumerate(group.images.tolist())}
    product = group.table[place[1, 0, 2], place[0, 2, 1]]
    assert group.images[product].tolist() == [2, 0, 1]
    assert group.images[group.table[place[0, 2, 1], place[1, 0, 2]]].tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("name", "subgroup"),
    [("S4", "A4"), ("S4", "D4"), ("S4", "S3"), ("S5", "C3"), ("S5", "A5"), ("A5", "A4"), ("D4", "C4")],
)
def test_subgroups_are_those_of_sympy(name: str, subgroup: str) -> None:
    group = named_group(name)
    found = {tuple(row) for row in group.images[group.subgroup(subgroup)].tolist()}
    assert found == {tuple(element.array_form) for element in within(sympy_group(subgroup), group.points)}
    assert sympy_group(subgroup).order() == len(found)


@pytest.mark.parametrize("name", ["s3", "S", "S0", "D2", "Q8", "S3xC2", ""])
def test_names_of_no_group_are_refused_with_the_forms(name: str) -> None:
    with pytest.raises(SettingsError, match=r"names no group; give S<n> .*, A<n> .*, C<n> .* or D<n>") as caught:
        named_group(name)
    assert (caught.value.key, caught.value.given) == ("task.group", name)


@pytest.mark.parametrize(("name", "size"), [("C1", "1"), ("S7", "5040"), ("A7", "2520"), ("S900", "too many")])
def test_groups_too_small_or_too_large_are_refused(name: str, size: str) -> None:
    with pytest.raises(SettingsError, match=f"has {size} elements; it must have at least 2 and at most 1000"):
        named_group(name)


@pytest.mark.parametrize(
    ("name", "subgroup"),
    [("S4", "S5"), ("A4", "S3"), ("D4", "C3"), ("C12", "S12")],
)
def test_what_is_no_subgroup_is_refused(name: str, subgroup: str) -> None:
    with pytest.raises(SettingsError, match=f"{subgroup!r} is no subgroup of {name} on its points") as caught:
        named_group(name).subgroup(subgroup)
    assert caught.value.key == "task.subgroup"
