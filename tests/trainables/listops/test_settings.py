"""Settings: defaults, derived numbers, errors."""

from __future__ import annotations

from typing import Any

import pytest

from trainables.base import SettingsError
from trainables.contract.settings import described_fields
from trainables.tasks.expressions import LONGEST_TEXT_TOKENS
from trainables.tasks.listops import TaskSettings
from trainables.tasks.operations import FIRST_OPERATIONS


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("modulus", 1),
        ("depth", 0),
        ("max_arguments", 1),
        ("max_arguments", 33),
        ("nesting", 1.01),
        ("nesting", -0.1),
        ("nesting", float("nan")),
        ("held_out_fraction", 0.0),
        ("held_out_fraction", 0.6),
        ("train_examples", 0),
        ("validation_examples", 0),
    ],
)
def test_errors_name_key_and_value(field: str, value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        TaskSettings(**{field: value})
    assert caught.value.key == f"task.{field}"
    assert caught.value.given == str(value)


def test_derived_numbers_agree_with_the_paper() -> None:
    paper = TaskSettings()
    assert paper.longest_text == 60
    assert paper.held_out_tuples == 400
    assert paper.training_examples == 100_000
    assert TaskSettings(modulus=10).training_examples == 50_000
    assert TaskSettings(train_examples=7).training_examples == 7
    assert TaskSettings(depth=3).longest_text == 483
    assert TaskSettings(depth=1).longest_text == 9
    assert TaskSettings(modulus=6).held_out_tuples == 10
    assert TaskSettings(modulus=6, held_out_fraction=0.2).held_out_tuples == 43
    assert TaskSettings(modulus=43).training_examples == 215_000
    unordered = TaskSettings(held_out="unordered")
    assert (unordered.tuple_count, unordered.held_out_tuples) == (1540, 77)


@pytest.mark.parametrize(
    ("depth", "arguments", "key"), [(7, 2, "task.depth"), (4, 4, "task.depth"), (40, 3, "task.depth")]
)
def test_expressions_too_long_for_any_block_are_refused(depth: int, arguments: int, key: str) -> None:
    with pytest.raises(SettingsError, match=f"more than {LONGEST_TEXT_TOKENS} tokens") as caught:
        TaskSettings(depth=depth, max_arguments=arguments)
    assert caught.value.key == key


def test_few_held_out_tuples_are_refused_or_warned_about() -> None:
    with pytest.raises(
        SettingsError, match=r"0\.04 of 6\^3 tuples is 8; a meaningful accuracy needs at least 10"
    ) as caught:
        TaskSettings(modulus=6, held_out_fraction=0.04)
    assert caught.value.key == "task.held_out_fraction"
    few = TaskSettings(modulus=6, held_out_fraction=0.05).warnings()
    assert any("This sweep tests only 5 number tuples" in warning for warning in few)
    assert not any("number tuples" in warning for warning in TaskSettings(modulus=6, held_out_fraction=0.2).warnings())


def test_multisets_are_counted_if_order_does_not_count() -> None:
    flat = {"modulus": 6, "depth": 1, "max_arguments": 4, "held_out": "unordered"}
    settings = TaskSettings(**flat, held_out_fraction=0.1)  # type: ignore[arg-type]
    assert (settings.tuple_count, settings.held_out_tuples) == (126, 12)
    (warning,) = settings.warnings()
    assert warning.startswith("This sweep tests only 6 multisets of 4 numbers, so accuracy moves in steps of 0.17")
    assert TaskSettings(**flat, held_out_fraction=0.32).warnings() == []  # type: ignore[arg-type]
    with pytest.raises(
        SettingsError, match=r"0\.07 of 126 multisets of 4 numbers is 8; a meaningful accuracy needs at least 10"
    ) as caught:
        TaskSettings(**flat, held_out_fraction=0.07)  # type: ignore[arg-type]
    assert caught.value.key == "task.held_out_fraction"


def test_the_leak_of_permutations_is_disclosed() -> None:
    (warning,) = TaskSettings().warnings()
    assert "arguments in another order. Set settings.task.held_out=unordered" in warning
    assert TaskSettings().blind() == ("max", "min", "med", "add", "prod", "relabelled_add")
    assert TaskSettings(held_out="unordered").warnings() == []


def test_held_out_shares_that_leave_too_few_expressions_are_refused() -> None:
    with pytest.raises(SettingsError, match="leaves under 1% of all expressions") as caught:
        TaskSettings(depth=6, max_arguments=2, nesting=1.0, held_out_fraction=0.2)
    assert caught.value.key == "task.held_out_fraction"
    with pytest.raises(SettingsError, match="fewer than 1 in 10000") as caught:
        TaskSettings(modulus=3, depth=1, max_arguments=12, held_out_fraction=0.002)
    assert caught.value.key == "task.held_out_fraction"


def test_the_vocabulary_contains_only_the_named_operations() -> None:
    """Adding an operation later does not change runs without it."""
    assert TaskSettings().operations == FIRST_OPERATIONS
    few = TaskSettings(modulus=6, operations=("add", "prod"))
    assert few.tasks() == ("add", "prod")
    assert len(few.vocabulary()) == 6 + 2 + 4
    assert described_fields(TaskSettings(operations=FIRST_OPERATIONS)) == described_fields(TaskSettings())
    assert "operations" not in described_fields(TaskSettings())
    assert described_fields(few)["operations"] == ("add", "prod")


@pytest.mark.parametrize("operations", [(), ("add", "add"), ("add", "substract")])
def test_invalid_lists_of_operations_are_refused(operations: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError) as caught:
        TaskSettings(operations=operations)
    assert caught.value.key == "task.operations"
