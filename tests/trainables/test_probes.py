"""Probes by name, their allowed results, and probes of embeddings with known structure: a circle, a line, noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.trainables.stacks import SETTINGS, config
from trainables.base import Family, SettingsError
from trainables.families.listops import ListOps
from trainables.families.permutations import Permutations, PermutationSettings
from trainables.probes.base import Probed, load_probe
from trainables.tasks.permutations import TaskSettings

Embedding = NDArray[np.float64]
MODULUS = 12


def listops(modulus: int = MODULUS) -> Family:
    return ListOps(replace(SETTINGS, task=replace(SETTINGS.task, modulus=modulus)))


def probed(name: str, embedding: Embedding, family: Family | None = None) -> Probed:
    return load_probe(name).run(family or listops(len(embedding)), config(), None, {"embedding": embedding}, None)


def circle() -> Embedding:
    """Return the numbers in order on a circle."""
    angle = 2 * math.pi * np.arange(MODULUS) / MODULUS
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def noise(seed: int, count: int = MODULUS) -> Embedding:
    return np.random.default_rng(seed).normal(size=(count, 32))


def test_a_parity_split_separates_parity_best() -> None:
    parities = np.eye(2)[np.arange(MODULUS) % 2] + noise(0)[:, :2] * 0.01
    numbers = probed("separation", parities).numbers
    assert numbers["mod2"] == pytest.approx(2, abs=0.05)  # Cosine 1 within groups, -1 between them.
    assert numbers["mod2.p"] == pytest.approx(0.001, abs=0.005)  # One of 462 orders gives this split.
    assert numbers["mod3"] < 0.2
    assert numbers["mod3.p"] > 0.05
    assert {name for name in numbers if "." not in name} == {"mod2", "mod3", "mod4", "mod6", "order"}


def test_noise_has_no_separation_beyond_chance() -> None:
    p = [probed("separation", noise(seed)).numbers["mod2.p"] for seed in range(40)]
    assert 0.3 < float(np.mean(p)) < 0.7
    assert sum(value <= 0.05 for value in p) <= 6


def test_elements_of_a_group_are_separated_by_sign_and_coset() -> None:
    task = replace(TaskSettings(), group="S3", subgroup="C3")
    family = Permutations(replace(PermutationSettings(), task=task))
    groupings = family.groupings()
    assert set(groupings) >= {"sign", "order", "coset"}
    assert sorted(np.bincount(groupings["sign"]).tolist()) == [3, 3]
    assert sorted(np.bincount(groupings["order"]).tolist()) == [1, 2, 3]
    embedding = np.eye(2)[np.array(groupings["sign"])] + noise(0, 6)[:, :2] * 0.01
    numbers = probed("separation", embedding, family).numbers
    assert numbers["sign"] == pytest.approx(2, abs=0.05)
    assert "order.p" in numbers


def test_a_circle_lies_in_a_plane() -> None:
    result = probed("components", circle())
    assert result.numbers["first"] == pytest.approx(0.5)
    assert result.numbers["second"] == pytest.approx(0.5)
    radius = np.hypot(*result.arrays["components"][:, :2].T)
    np.testing.assert_allclose(radius, 1, rtol=1e-9)


@pytest.mark.parametrize("name", ["separation", "components", "similarity"])
def test_too_few_items_give_no_numbers(name: str) -> None:
    assert probed(name, np.eye(2), listops()).numbers == {}


def test_on_a_ring_neighbors_are_similar() -> None:
    result = probed("similarity", circle())
    np.testing.assert_allclose(np.diag(result.arrays["similarity"]), np.ones(MODULUS))
    # All cosines of a row sum to 0: 1 for itself, c for two neighbors each, -1 - 2c for the others together.
    step = math.cos(2 * math.pi / MODULUS)
    assert result.numbers == {"ring": pytest.approx(step + (1 + 2 * step) / (MODULUS - 3))}


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


@pytest.mark.parametrize(
    ("numbers", "arrays", "message"),
    [
        ({"mean": math.nan}, {}, "the number 'mean' is nan"),
        ({"a/b": 1.0}, {}, "the name 'a/b' must be a letter"),
        ({}, {"..": np.eye(2)}, r"the name '\.\.' must be"),
        ({}, {"words": np.array([{}])}, "the array 'words' is ndarray; it must be a numpy array of plain values"),
    ],
)
def test_results_that_no_file_can_store_are_refused(
    numbers: dict[str, float], arrays: dict[str, NDArray[np.float64]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Probed(numbers, arrays)
