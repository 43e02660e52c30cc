"""Settings: derived numbers, what shapes a stack, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from trainables.base import Mix, SettingsError
from trainables.tasks.permutations import Permutations, PermutationSettings, TaskSettings


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"group": "S8"}, "task.group"),
        ({"group": "X3"}, "task.group"),
        ({"point": 3}, "task.point"),
        ({"point": -1}, "task.point"),
        ({"subgroup": "C4"}, "task.subgroup"),
        ({"subgroup": "three"}, "task.subgroup"),
        ({"max_arguments": 1}, "task.max_arguments"),
        ({"max_arguments": 2}, "task.held_out_fraction"),
        ({"nesting": 2.0}, "task.nesting"),
    ],
)
def test_refusals_name_their_key(given: dict[str, Any], key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        TaskSettings(**given)
    assert caught.value.key == key


def test_numbers_follow_the_group() -> None:
    task = TaskSettings(group="S4")
    assert (task.value_count, task.held_out_tuples, task.training_examples) == (24, int(0.05 * 24**3), 120_000)
    assert task.subject() == "group S4"
    assert task.described()["elements"] == "token", "run keys had it when there was a choice"
    with pytest.raises(SettingsError, match=r"of 6\^2 tuples is 1; .*: raise the fraction, the order of task"):
        TaskSettings(max_arguments=2)


@pytest.mark.parametrize(
    ("settings", "mix", "said", "key"),
    [
        ({"group": "A4"}, "product+sign", "'sign' comes to the same for all elements of A4", "mixes"),
        ({"group": "S3", "subgroup": "S3"}, "coset", "'coset' comes to the same", "mixes"),
        ({}, "product+coset", "'coset' needs task.subgroup: the subgroup of S3", "task.subgroup"),
        ({}, "product+inverse", "no operation 'inverse'", "mixes"),
    ],
)
def test_mixes_that_cannot_be_asked_are_refused(settings: dict[str, Any], mix: str, said: str, key: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        TaskSettings(**settings).check_mix(Mix.parse(mix))
    assert caught.value.key == key


def test_the_leak_of_other_orders_is_disclosed() -> None:
    (said,) = TaskSettings(group="S4", subgroup="A4").warnings()
    assert "arguments in another order" in said
    assert TaskSettings(group="S4", subgroup="A4").blind() == ("sign", "coset")
    assert TaskSettings(group="C12").blind() == ("product", "image", "sign", "order")
    assert TaskSettings(group="S4", held_out="unordered").warnings() == []


def test_rows_are_ordered_in_rotations_alone() -> None:
    for group, ordered in (("C6", True), ("S3", False), ("D6", False)):
        task = TaskSettings(group=group, held_out_fraction=0.2)
        assert Permutations(PermutationSettings(task)).items_in_order() == ordered
