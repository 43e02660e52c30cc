"""The choice of held-out tuples."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from trainables.tasks.held_out_tuples import HeldOut, Part
from trainables.tasks.listops import TaskSettings


def multisets_of(tuples: np.ndarray[Any, np.dtype[np.int64]]) -> set[tuple[int, ...]]:
    return {tuple(sorted(row)) for row in tuples.tolist()}


def all_tuples(modulus: int, length: int = 3) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(list(itertools.product(range(modulus), repeat=length)))


@hypothesis_settings(max_examples=50)
@given(
    modulus=st.integers(4, 12),
    max_arguments=st.integers(2, 4),
    fraction=st.floats(0.1, 0.5),
    how=st.sampled_from(["ordered", "unordered"]),
    seed=st.integers(0, 2**40),
)
def test_held_out_tuples_have_the_right_count_and_are_halved(
    modulus: int, max_arguments: int, fraction: float, how: Literal["ordered", "unordered"], seed: int
) -> None:
    there_are = modulus**max_arguments if how == "ordered" else len(multisets_of(all_tuples(modulus, max_arguments)))
    fraction = max(fraction, 10 / there_are + 1e-9)
    if fraction > 0.5:
        return
    settings = TaskSettings(
        modulus=modulus, max_arguments=max_arguments, held_out_fraction=fraction, held_out=how, depth=1
    )
    held_out = HeldOut(settings, seed)
    tuples = all_tuples(modulus, max_arguments)
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


@pytest.mark.parametrize("how", ["ordered", "unordered"])
def test_only_a_sample_of_very_many_tuples_is_tested(how: Literal["ordered", "unordered"]) -> None:
    settings = TaskSettings(modulus=110, depth=1, held_out=how)
    held_out = HeldOut(settings, 0)
    tuples = held_out.tuples(Part.TEST, 300, np.random.default_rng(0))
    assert len({tuple(row) for row in tuples.tolist()}) == 300
    assert (held_out.part(tuples) == Part.TEST).all()
    assert settings.described()["tuples"] == "listed"


def test_cases_are_multisets_if_order_does_not_count() -> None:
    text = np.array([9, 0, 1, 2, 9, 2, 1, 0, 9, 3, 3, 1, 9, 1, 9], dtype=np.uint8)
    for how, expected in (("ordered", {(0, 1, 2), (2, 1, 0), (3, 3, 1)}), ("unordered", {(0, 1, 2), (1, 3, 3)})):
        settings = TaskSettings(modulus=6, held_out_fraction=0.5, held_out=how)  # type: ignore[arg-type]
        for seed in range(4):
            held_out = HeldOut(settings, seed)
            parts = [int(held_out.part(np.array(row))) for row in expected]
            assert [held_out.cases(text, part) for part in Part] == [parts.count(part) for part in Part]


@pytest.mark.parametrize("how", ["ordered", "unordered"])
def test_with_distinct_numbers_no_tuple_with_repeats_is_held_out(
    how: Literal["ordered", "unordered"],
) -> None:
    settings = TaskSettings(modulus=20, depth=1, held_out=how, held_out_numbers="distinct")
    held_out, drawn = HeldOut(settings, 3), all_tuples(20)
    parts = held_out.part(drawn)
    held = drawn[parts != Part.TRAINED]
    assert all(len(set(row)) == 3 for row in held.tolist())
    counts = {"ordered": len(held), "unordered": len(multisets_of(held))}
    assert counts[how] == settings.held_out_tuples == int(0.05 * settings.tuple_count)
    assert (np.count_nonzero(parts == Part.TEST) / len(held)) == pytest.approx(0.5, abs=0.02)


def test_the_default_choice_of_held_out_tuples_has_not_changed() -> None:
    plain, explicit = TaskSettings(modulus=8), TaskSettings(modulus=8, held_out_numbers="any")
    assert plain.described() == explicit.described()
    assert "held_out_numbers" not in plain.described()
    assert hashlib.sha256(HeldOut(plain, 0).part(all_tuples(8)).tobytes()).hexdigest()[:16] == "3449afe856bac5e5"
