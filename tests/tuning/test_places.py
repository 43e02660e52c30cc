"""Where a mix is tuned: a little below its transition and a little above."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tuning.places import APART, possible_places, sizes_around

COARSE = (8, 16, 24, 32)
LAPTOP = (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 32, 48, 64)


@pytest.mark.parametrize(
    ("sizes", "low", "high", "found"),
    [
        (COARSE, 16, 24, (16, 24)),
        (COARSE, None, 8, (8, 16)),
        (COARSE, 32, None, (24, 32)),
        (COARSE, None, None, (24, 32)),
        (COARSE, 8, 16, (8, 16)),
        (LAPTOP, 10, 11, (8, 13)),
        (LAPTOP, 11, 12, (9, 14)),
        (LAPTOP, 48, 64, (32, 64)),
        (LAPTOP, None, 4, (4, 5)),
    ],
)
def test_sizes_lie_around_the_transition(
    sizes: tuple[int, ...], low: int | None, high: int | None, found: tuple[int, ...]
) -> None:
    assert sizes_around(sizes, low, high) == found


@given(st.sets(st.integers(2, 300), min_size=2, max_size=20).map(lambda found: tuple(sorted(found))), st.data())
def test_they_are_apart_where_the_sizes_allow(sizes: tuple[int, ...], data: st.DataObject) -> None:
    place = data.draw(st.integers(1, len(sizes) - 1))
    low, high = sizes[place - 1], sizes[place]
    below, above = sizes_around(sizes, low, high)
    middle = (low * high) ** 0.5
    assert below <= low < high <= above
    assert below == sizes[0] or below * APART <= middle * (1 + 1e-9)
    assert above == sizes[-1] or above >= middle * APART * (1 - 1e-9)
    assert (below, above) in possible_places(sizes)
