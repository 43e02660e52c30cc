"""Which tuples are held out."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from trainables.listops.heldout import LARGEST_TABLE, HeldOut, Part
from trainables.listops.settings import TaskSettings


def all_tuples(settings: TaskSettings) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(list(itertools.product(range(settings.modulus), repeat=settings.max_arguments)))


@hypothesis_settings(max_examples=50, deadline=None)
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
    if int(fraction * modulus**max_arguments) < 10:
        fraction = 0.5 if modulus**max_arguments < 100 else 0.1
    if int(fraction * modulus**max_arguments) < 10:
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
    if how == "ordered":
        assert held == settings.held_out_tuples
        assert counts[Part.TEST] - counts[Part.VALIDATION] in (0, 1)
    else:
        assert settings.held_out_tuples <= held < settings.held_out_tuples + 2 * 24
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
