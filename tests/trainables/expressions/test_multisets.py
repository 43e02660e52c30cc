"""Multisets: counts, numbers and orders against lists of all of them."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from trainables.tasks.held_out_tuples import (
    MultisetNumbering,
    _sum_of_squares,
    multiset_count,
    orders,
    tuple_share,
)


@hypothesis_settings(max_examples=40, deadline=None)
@given(modulus=st.integers(1, 7), length=st.integers(1, 5))
def test_every_multiset_has_a_number_and_its_orders(modulus: int, length: int) -> None:
    listed = Counter(tuple(sorted(row)) for row in itertools.product(range(modulus), repeat=length))
    multisets = np.array(list(listed))
    assert len(listed) == multiset_count(modulus, length)
    numbering = MultisetNumbering(modulus, length)
    numbers = numbering.number(multisets)
    assert sorted(numbers.tolist()) == list(range(len(listed)))
    assert np.array_equal(numbering.multisets(numbers), multisets)
    assert orders(multisets).tolist() == pytest.approx(list(listed.values()))
    assert _sum_of_squares(modulus, length) == sum(size**2 for size in listed.values())


@pytest.mark.parametrize(
    ("modulus", "length", "fraction"),
    [(4, 3, 0.5), (6, 4, 0.1), (6, 4, 0.05), (6, 5, 0.2), (20, 3, 0.05), (5, 6, 0.1), (12, 2, 0.2)],
)
def test_the_share_of_tuples_is_bounded_and_right_on_average(modulus: int, length: int, fraction: float) -> None:
    count = multiset_count(modulus, length)
    sizes = orders(MultisetNumbering(modulus, length).multisets(np.arange(count)))
    taken, rng = int(fraction * count + 1e-9), np.random.default_rng(1)
    shares = np.array([sizes[rng.permutation(count)[:taken]].sum() for _ in range(1_000)]) / modulus**length
    least, most = tuple_share(modulus, length, fraction)
    assert shares.mean() == pytest.approx(taken / count, rel=0.05)
    assert ((shares >= least) & (shares <= most)).mean() >= 0.995
    assert least >= fraction / 6, "a bound that says nothing refuses what works"


def test_bounds_of_the_largest_settings_are_numbers() -> None:
    assert tuple_share(65_000, 32, 0.001) == pytest.approx((0.001, 0.001))
    least, most = tuple_share(2, 32, 0.5)
    assert 0 < least < 0.5 < most <= 1
