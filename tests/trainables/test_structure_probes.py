"""Probes on embeddings with known structure: a circle, a parity split, noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.trainables.stacks import SETTINGS, config
from trainables.base import Family
from trainables.probes.base import Probed, load_probe
from trainables.tasks.listops import ListOps
from trainables.tasks.permutations import Permutations, PermutationSettings, TaskSettings

Embedding = NDArray[np.float64]
MODULUS = 12


def listops(modulus: int = MODULUS) -> Family:
    return ListOps(replace(SETTINGS, task=replace(SETTINGS.task, modulus=modulus)))


def probed(name: str, embedding: Embedding, family: Family | None = None) -> Probed:
    return load_probe(name).run(family or listops(len(embedding)), config(), None, {"embedding": embedding}, None)


def circle(frequency: int = 1, count: int = MODULUS) -> Embedding:
    angle = 2 * math.pi * frequency * np.arange(count) / count
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def split(divisor: int, count: int = MODULUS) -> Embedding:
    """Return an embedding with a separate direction for each residue, and a little noise."""
    rng = np.random.default_rng(0)
    return np.eye(divisor)[np.arange(count) % divisor] + rng.normal(size=(count, divisor)) * 0.01


def noise(seed: int, count: int = MODULUS) -> Embedding:
    return np.random.default_rng(seed).normal(size=(count, 32))


def test_a_parity_split_separates_parity_best() -> None:
    numbers = probed("separation", split(2)).numbers
    assert numbers["mod2"] == pytest.approx(2, abs=0.05)  # Cosine 1 within groups, -1 between them.
    assert numbers["mod2.p"] == pytest.approx(0.001, abs=0.005)  # One of 462 orders gives this split.
    assert numbers["mod3"] < 0.2
    assert numbers["mod3.p"] > 0.05
    assert {name for name in numbers if "." not in name} == {"mod2", "mod3", "mod4", "mod6", "order"}


def test_noise_has_no_separation_beyond_chance() -> None:
    p = [probed("separation", noise(seed)).numbers["mod2.p"] for seed in range(40)]
    assert 0.3 < float(np.mean(p)) < 0.7
    assert sum(value <= 0.05 for value in p) <= 6


def test_a_prime_modulus_has_no_groups_to_separate() -> None:
    numbers = probed("separation", noise(0, 7), listops(7)).numbers
    assert numbers.keys() == {"order", "order.p"}


def test_elements_of_a_group_are_separated_by_sign_and_coset() -> None:
    task = replace(TaskSettings(), group="S3", subgroup="A3")
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
    assert result.numbers["effective"] == pytest.approx(2)
    radius = np.hypot(*result.arrays["components"][:, :2].T)
    np.testing.assert_allclose(radius, 1, rtol=1e-9)


def test_components_preserve_distances_at_any_width() -> None:
    rotated = circle() @ np.linalg.qr(noise(1, 32)[:2, :2])[0]
    wide = np.concatenate([rotated, np.zeros((MODULUS, 30))], axis=1)
    mine, theirs = (probed("components", embedding).arrays["components"] for embedding in (circle(), wide))
    apart = [np.linalg.norm(points[:, None] - points, axis=-1) for points in (mine, theirs)]
    np.testing.assert_allclose(apart[0], apart[1], atol=1e-7)


@pytest.mark.parametrize("name", ["separation", "components"])
def test_too_few_items_give_no_numbers(name: str) -> None:
    assert probed(name, np.eye(2), listops()).numbers == {}
