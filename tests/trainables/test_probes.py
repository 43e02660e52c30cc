"""Probes by name, what they may give, and what similarity says of numbers on a line, on a ring and anywhere."""

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


def test_numbers_on_a_ring_resemble_their_neighbors_and_its_ends_meet() -> None:
    angle = 2 * math.pi * np.arange(COUNT) / COUNT
    values = numbers(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    # All cosines of a row sum to 0: itself 1, two neighbors c each, the other 17 together -1 - 2c.
    step = math.cos(2 * math.pi / COUNT)
    expected = step + (1 + 2 * step) / (COUNT - 3)
    assert values["ring"] == pytest.approx(expected)
    assert values["ends"] == pytest.approx(expected)


def test_numbers_on_a_line_resemble_their_neighbors_and_its_ends_do_not_meet() -> None:
    angle = math.pi * np.arange(COUNT) / COUNT  # Half a ring: the ends lie opposite.
    values = numbers(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    assert values["ring"] > 0.5
    assert values["ends"] < -0.5


@pytest.mark.parametrize("count", [1, 2, 3])
def test_if_all_are_neighbors_there_are_no_numbers(count: int) -> None:
    assert ring_numbers(np.eye(count)) == {}


def test_a_row_of_zeros_is_unlike_every_other() -> None:
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
def test_what_is_no_probe_is_refused(name: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        load_probe(name)
    assert (caught.value.key, caught.value.given) == ("probes", name)


def test_what_no_file_could_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="the number 'mean' is nan"):
        Probed({"mean": math.nan})
    with pytest.raises(ValueError, match=r"the name 'a/b' must be a letter"):
        Probed({"a/b": 1.0})
    with pytest.raises(ValueError, match=r"the name '\.\.' must be"):
        Probed({}, {"..": np.eye(2)})
    with pytest.raises(ValueError, match="the array 'words' is ndarray; it must be a numpy array of plain values"):
        Probed({}, {"words": np.array([{}])})
