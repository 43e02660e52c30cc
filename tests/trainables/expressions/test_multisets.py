"""Multisets: counts, numbers and orders against lists of all of them."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from trainables.tasks.expressions import multiset_count
from trainables.tasks.held_out_tuples import MultisetNumbering, orders


@hypothesis_settings(max_examples=40)
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
