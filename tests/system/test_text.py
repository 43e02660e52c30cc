"""Numbers and times as people read them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator.system.text import bare, duration, number, size_on_disk


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (
            number,
            {7.254: "7.25", 371.2: "371", 999.9: "1,000", 19_621: "19,600", 0.0: "0", 0.1234: "0.123", 40: "40"},
        ),
        (duration, {0: "0 s", 59.4: "59 s", 60: "1 min 00 s", 200: "3 min 20 s", 3930: "1 h 05 min"}),
        (bare, {0.5: "0.5", 1.94: "1.9", 12.4: "12", 0.07: "0.07"}),
        (size_on_disk, {0: "0 kB", 350_000: "350 kB", 1_300_000_000: "1.3 GB", 12e6: "12 MB"}),
    ],
)
def test_numbers_are_formatted_for_people(words: Callable[[float], str], texts: dict[float, str]) -> None:
    assert {value: words(value) for value in texts} == texts
