"""Probes by name, their allowed results, and similarity of numbers on a line, on a ring and elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.families import Firing
from tests.trainables.stacks import SETTINGS, config
from trainables.base import SettingsError
from trainables.probes.base import Probed, load_probe
from trainables.probes.embeddings import Similarity, ring_numbers
from trainables.tasks.listops import ListOps

COUNT = 20


def numbers(embedding: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> dict[str, float]:
    result = Similarity().run(ListOps(SETTINGS), config(), None, {"embedding": embedding}, None)
    assert result.arrays["similarity"].shape == (len(embedding), len(embedding))
    np.testing.assert_allclose(np.diag(result.arrays["similarity"]), 1)
    return dict(result.numbers)


def test_on_a_ring_neighbors_are_similar_and_so_are_the_ends() -> None:
    angle = 2 * math.pi * np.arange(COUNT) / COUNT
    values = numbers(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    # All cosines of a row sum to 0: 1 for itself, c for two neighbors each, -1 - 2c for the other 17 together.
    step = math.cos(2 * math.pi / COUNT)
    expected = step + (1 + 2 * step) / (COUNT - 3)
    assert values["ring"] == pytest.approx(expected)
    assert values["ends"] == pytest.approx(expected)


def test_on_a_line_neighbors_are_similar_but_the_ends_are_not() -> None:
    angle = math.pi * np.arange(COUNT) / COUNT  # Half a ring, whose ends are opposite each other.
    values = numbers(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    assert values["ring"] > 0.5
    assert values["ends"] < -0.5


@pytest.mark.parametrize("count", [1, 2, 3])
def test_there_are_no_numbers_if_all_items_are_neighbors(count: int) -> None:
    assert ring_numbers(np.eye(count)) == {}


def test_a_row_of_zeros_has_no_similarity_to_other_rows() -> None:
    result = Similarity().run(ListOps(SETTINGS), config(), None, {"embedding": np.eye(5)[:, :4]}, None)
    np.testing.assert_array_equal(result.arrays["similarity"][4], np.zeros(5))


def test_probes_are_found_by_name() -> None:
    assert isinstance(load_probe("similarity"), Similarity)
    assert isinstance(load_probe("tests.families:Firing"), Firing)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("similarty", "there is no probe 'similarty'"),
        ("no.such.module:Probe", "cannot be imported"),
        ("tests.families:LogisticFamily", "is not a subclass of trainables.probes.base.Probe"),
        ("tests.families:Nothing", "the module tests.families has no 'Nothing'"),
        ("trainables.probes.base:Probe", "is not a complete probe: it lacks run"),
    ],
)
def test_invalid_probes_are_refused(name: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        load_probe(name)
    assert (caught.value.key, caught.value.given) == ("probes", name)


def test_results_that_no_file_can_store_are_refused() -> None:
    with pytest.raises(ValueError, match="the number 'mean' is nan"):
        Probed({"mean": math.nan})
    with pytest.raises(ValueError, match=r"the name 'a/b' must be a letter"):
        Probed({"a/b": 1.0})
    with pytest.raises(ValueError, match=r"the name '\.\.' must be"):
        Probed({}, {"..": np.eye(2)})
    with pytest.raises(ValueError, match="the array 'words' is ndarray; it must be a numpy array of plain values"):
        Probed({}, {"words": np.array([{}])})
