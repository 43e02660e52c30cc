"""Settings: defaults, derived numbers, errors."""

from __future__ import annotations

import re
from typing import Any

import pytest

from trainables.base import SettingsError
from trainables.contract.settings import described_fields
from trainables.tasks.listops import TaskSettings
from trainables.tasks.operations import FIRST_OPERATIONS, OPERATIONS

FEW = "a meaningful accuracy needs at least 10"
FLAT = {"modulus": 6, "depth": 1, "max_arguments": 4, "held_out": "unordered"}


@pytest.mark.parametrize(
    ("settings", "key", "message"),
    [
        ({"modulus": 1}, "modulus", "modulus is 1; it must be at least 2"),
        ({"depth": 0}, "depth", "at least 1"),
        ({"max_arguments": 1}, "max_arguments", "at least 2"),
        ({"max_arguments": 23}, "max_arguments", "at most 22"),
        ({"max_arguments": 10**9}, "max_arguments", "at most 22"),
        ({"max_arguments": 9}, "max_arguments", "more than 4194304 tuples"),
        ({"nesting": 1.01}, "nesting", "from 0 to 1"),
        ({"held_out_fraction": 0.0}, "held_out_fraction", "from 0.001 to 0.5"),
        ({"train_examples": 0}, "train_examples", "at least 1"),
        ({"train_examples": 10**12}, "train_examples", "at most 100000000"),
        ({"modulus": 6, "held_out_fraction": 0.04}, "held_out_fraction", f"0.04 of 6^3 tuples is 8; {FEW}"),
        ({**FLAT, "held_out_fraction": 0.07}, "held_out_fraction", f"0.07 of 126 multisets of 4 numbers is 8; {FEW}"),
        (
            {"modulus": 4, "held_out_fraction": 0.4, "depth": 1, "held_out_numbers": "distinct"},
            "held_out_fraction",
            "only 24 have 3 different numbers",
        ),
        (
            {"modulus": 6, "depth": 4, "max_arguments": 2, "nesting": 1.0, "held_out_fraction": 0.5},
            "held_out_fraction",
            "0.5 of 6^2 tuples leaves under 1% of all expressions for training",
        ),
        ({"operations": ()}, "operations", "at least one operation"),
        ({"operations": ("add", "add")}, "operations", "each only once"),
        ({"operations": ("add", "substract")}, "operations", "there is no operation 'substract'"),
    ],
    ids=str,
)
def test_errors_name_their_key(settings: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)) as caught:
        TaskSettings(**settings)
    assert caught.value.key == f"task.{key}"
    if list(settings) == [key] and key != "operations":
        assert caught.value.given == str(settings[key])


def test_derived_numbers_agree_with_the_paper() -> None:
    paper = TaskSettings()
    assert paper.longest_text == 60
    assert paper.held_out_tuples == 400
    assert paper.training_examples == 100_000
    assert TaskSettings(depth=3).longest_text == 483
    assert TaskSettings(depth=1).longest_text == 9
    unordered = TaskSettings(held_out="unordered")
    assert (unordered.tuple_count, unordered.held_out_tuples) == (1540, 77)


def test_few_held_out_tuples_are_warned_about() -> None:
    few = TaskSettings(modulus=6, held_out_fraction=0.05).warnings()
    assert any("This sweep tests only 5 number tuples" in warning for warning in few)
    assert not any("number tuples" in warning for warning in TaskSettings(modulus=6, held_out_fraction=0.2).warnings())
    settings = TaskSettings(**FLAT, held_out_fraction=0.1)  # type: ignore[arg-type]
    assert (settings.tuple_count, settings.held_out_tuples) == (126, 12)
    (warning,) = settings.warnings()
    assert warning.startswith("This sweep tests only 6 multisets of 4 numbers, so accuracy moves in steps of 0.17")
    assert TaskSettings(**FLAT, held_out_fraction=0.32).warnings() == []  # type: ignore[arg-type]


def test_the_leak_of_permutations_is_disclosed() -> None:
    (warning,) = TaskSettings().warnings()
    assert "arguments in another order. Set settings.task.held_out=unordered" in warning
    assert TaskSettings(held_out="unordered").warnings() == []
    assert TaskSettings(operations=("nadd",)).warnings() == []


def test_the_vocabulary_contains_only_the_named_operations() -> None:
    """Adding an operation later does not change runs without it."""
    assert TaskSettings().operations == FIRST_OPERATIONS
    few = TaskSettings(modulus=6, operations=("add", "prod"))
    assert few.tasks() == ("add", "prod")
    assert len(few.vocabulary()) == 6 + 2 + 4
    assert described_fields(TaskSettings(operations=FIRST_OPERATIONS)) == described_fields(TaskSettings())
    assert "operations" not in described_fields(TaskSettings())
    assert described_fields(few)["operations"] == ("add", "prod")


def test_numbers_come_first_and_every_operation_has_a_token() -> None:
    vocabulary = TaskSettings(modulus=6, operations=tuple(OPERATIONS)).vocabulary()
    assert vocabulary.words == (*"012345", *OPERATIONS, "(", ")", "=", "<eos>")
    assert [vocabulary.operation(name) for name in OPERATIONS] == list(range(6, 6 + len(OPERATIONS)))
    for name in ("5", "(", "sum"):
        with pytest.raises(KeyError):
            vocabulary.operation(name)
