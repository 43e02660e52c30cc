"""Which tuples are held out."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from trainables.base import SettingsError
from trainables.tasks.held_out_tuples import LARGEST_TABLE, HeldOut, Part
from trainables.tasks.listops import TaskSettings


def multisets_of(tuples: np.ndarray[Any, np.dtype[np.int64]]) -> set[tuple[int, ...]]:
    return {tuple(sorted(row)) for row in tuples.tolist()}


def all_tuples(settings: TaskSettings) -> np.ndarray[Any, np.dtype[np.int64]]:
    return grid(settings.modulus, settings.max_arguments)


def grid(modulus: int, length: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(list(itertools.product(range(modulus), repeat=length)))


@hypothesis_settings(max_examples=50)
@given(
    modulus=st.integers(4, 12),
    max_arguments=st.integers(2, 4),
    fraction=st.floats(0.1, 0.5),
    how=st.sampled_from(["ordered", "unordered"]),
    seed=st.integers(0, 2**40),
)
def test_counts_halves_and_permutations(
    modulus: int, max_arguments: int, fraction: float, how: Literal["ordered", "unordered"], seed: int
) -> None:
    there_are = modulus**max_arguments if how == "ordered" else len(multisets_of(grid(modulus, max_arguments)))
    fraction = max(fraction, 10 / there_are + 1e-9)
    if fraction > 0.5:
        return
    settings = TaskSettings(
        modulus=modulus, max_arguments=max_arguments, held_out_fraction=fraction, held_out=how, depth=1
    )
    held_out = HeldOut(settings, seed)
    tuples = all_tuples(settings)
    parts = held_out.part(tuples)
    counts = Counter(parts.tolist())
    held = counts[Part.VALIDATION] + counts[Part.TEST]
    rng = np.random.default_rng(0)
    for part in (Part.VALIDATION, Part.TEST):
        assert counts[part] > 0
        assert np.array_equal(held_out.tuples(part, 1, rng), tuples[parts == part]), "all of them, whatever the limit"
    assert settings.held_out_tuples == int(fraction * there_are + 1e-9)
    if how == "ordered":
        assert held == settings.held_out_tuples
        assert counts[Part.TEST] - counts[Part.VALIDATION] in (0, 1)
    else:
        test, validation = (len(multisets_of(tuples[parts == part])) for part in (Part.TEST, Part.VALIDATION))
        assert test + validation == settings.held_out_tuples
        assert test - validation in (0, 1)
        for order in itertools.permutations(range(max_arguments)):
            assert np.array_equal(parts, held_out.part(tuples[:, order]))


def test_a_function_of_the_seed_and_of_what_decides_tuples() -> None:
    tuples = all_tuples(TaskSettings(modulus=8))
    first = HeldOut(TaskSettings(modulus=8), 0).part(tuples)
    other_shape = TaskSettings(modulus=8, depth=1, nesting=0.5, train_examples=3)
    assert np.array_equal(first, HeldOut(other_shape, 0).part(tuples))
    assert not np.array_equal(first, HeldOut(TaskSettings(modulus=8), 1).part(tuples))


@pytest.mark.parametrize("how", ["ordered", "unordered"])
@pytest.mark.parametrize(("modulus", "max_arguments"), [(45, 5), (1000, 3), (6, 32)])
def test_too_many_tuples_to_list(how: Literal["ordered", "unordered"], modulus: int, max_arguments: int) -> None:
    settings = TaskSettings(modulus=modulus, max_arguments=max_arguments, depth=1, held_out=how)
    assert modulus**max_arguments > LARGEST_TABLE
    rng = np.random.default_rng(0)
    drawn = rng.integers(modulus, size=(200_000, max_arguments))
    held_out = HeldOut(settings, 5)
    parts = held_out.part(drawn)
    shares = np.bincount(parts, minlength=3) / len(drawn)
    assert shares == pytest.approx([0.95, 0.025, 0.025], abs=0.003)
    assert np.array_equal(parts, HeldOut(settings, 5).part(drawn))
    assert (parts != HeldOut(settings, 6).part(drawn)).mean() > 0.05
    same_when_reversed = np.array_equal(parts, held_out.part(drawn[:, ::-1]))
    assert same_when_reversed == (how == "unordered")
    tuples = held_out.tuples(Part.TEST, 300, rng)
    assert len({tuple(row) for row in tuples.tolist()}) == 300
    assert (held_out.part(tuples) == Part.TEST).all()


def test_a_sample_never_waits_for_tuples_that_do_not_exist() -> None:
    settings = TaskSettings(modulus=102, max_arguments=3, depth=1, held_out_fraction=0.001)
    tuples = HeldOut(settings, 0).tuples(Part.VALIDATION, 10_000, np.random.default_rng(0))
    assert len(tuples) == int(0.001 * 102**3 / 4)


def test_multisets_are_counted_exactly_where_their_orders_are_too_many_to_list() -> None:
    """45^4 tuples are four times as many as fit into a table, their multisets a fifth."""
    settings = TaskSettings(modulus=45, max_arguments=4, depth=1, held_out="unordered")
    held_out = HeldOut(settings, 2)
    multisets = np.array(list(itertools.combinations_with_replacement(range(45), 4)))
    counts = np.bincount(held_out.part(multisets), minlength=3)
    assert counts[Part.VALIDATION] + counts[Part.TEST] == settings.held_out_tuples == int(0.05 * math.comb(48, 4))
    assert counts[Part.TEST] - counts[Part.VALIDATION] in (0, 1)


@pytest.mark.parametrize(("modulus", "max_arguments"), [(2, 21), (3, 14)])
def test_few_multisets_of_many_numbers_are_sampled_in_any_of_their_orders(modulus: int, max_arguments: int) -> None:
    settings = TaskSettings(
        modulus=modulus, max_arguments=max_arguments, depth=1, held_out="unordered", held_out_fraction=0.5
    )
    assert modulus**max_arguments > LARGEST_TABLE
    for seed in range(5):
        held_out = HeldOut(settings, seed)
        tuples = held_out.tuples(Part.TEST, 500, np.random.default_rng(0))
        assert len({tuple(row) for row in tuples.tolist()}) == len(tuples) <= 500
        assert (held_out.part(tuples) == Part.TEST).all()
        first, last = tuples[:, 0].mean(), tuples[:, -1].mean()
        assert first == pytest.approx(last, abs=0.25), "an order is no likelier than another"


def test_cases_are_multisets_where_order_does_not_count() -> None:
    text = np.array([9, 0, 1, 2, 9, 2, 1, 0, 9, 3, 3, 1, 9, 1, 9], dtype=np.uint8)
    for how, expected in (("ordered", {(0, 1, 2), (2, 1, 0), (3, 3, 1)}), ("unordered", {(0, 1, 2), (1, 3, 3)})):
        settings = TaskSettings(modulus=6, held_out_fraction=0.5, held_out=how)  # type: ignore[arg-type]
        for seed in range(4):
            held_out = HeldOut(settings, seed)
            parts = [int(held_out.part(np.array(row))) for row in expected]
            assert [held_out.cases(text, part) for part in Part] == [parts.count(part) for part in Part]


@pytest.mark.parametrize("how", ["ordered", "unordered"])
@pytest.mark.parametrize(("modulus", "max_arguments"), [(20, 3), (45, 5)])
def test_with_distinct_numbers_no_tuple_that_repeats_one_is_held_out(
    how: Literal["ordered", "unordered"], modulus: int, max_arguments: int
) -> None:
    settings = TaskSettings(
        modulus=modulus, max_arguments=max_arguments, depth=1, held_out=how, held_out_numbers="distinct"
    )
    held_out, rng = HeldOut(settings, 3), np.random.default_rng(0)
    drawn = grid(modulus, max_arguments) if modulus == 20 else rng.integers(modulus, size=(200_000, max_arguments))
    parts = held_out.part(drawn)
    held = drawn[parts != Part.TRAINED]
    assert all(len(set(row)) == max_arguments for row in held.tolist())
    if modulus == 20:
        counts = {"ordered": len(held), "unordered": len(multisets_of(held))}
        assert counts[how] == settings.held_out_tuples == int(0.05 * settings.tuple_count)
    assert len(held) / len(drawn) == pytest.approx(settings.held_out_share, rel=0.05)
    assert (np.count_nonzero(parts == Part.TEST) / len(held)) == pytest.approx(0.5, abs=0.02)
    tuples = held_out.tuples(Part.TEST, 300, rng)
    assert (held_out.part(tuples) == Part.TEST).all()


def test_held_out_numbers_of_any_kind_are_what_they_were() -> None:
    plain, said = TaskSettings(modulus=8), TaskSettings(modulus=8, held_out_numbers="any")
    assert plain.described() == said.described()
    assert "held_out_numbers" not in plain.described()
    assert hashlib.sha256(HeldOut(plain, 0).part(all_tuples(plain)).tobytes()).hexdigest()[:16] == "3449afe856bac5e5"


def test_more_distinct_tuples_than_there_are_cannot_be_held_out() -> None:
    with pytest.raises(SettingsError, match="only 24 have 3 different numbers") as caught:
        TaskSettings(modulus=4, held_out_fraction=0.4, depth=1, held_out_numbers="distinct")
    assert caught.value.key == "task.held_out_fraction"
