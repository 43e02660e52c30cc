"""Trees and diagrams against those that are known, and against two libraries."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage

from trainables.reparametrization.trees import deaths, spanning_tree

BY_GUDHI = Path(__file__).resolve().parents[2] / "data" / "h0_diagrams.json"


def clouds() -> dict[str, NDArray[np.float64]]:
    """Clouds on which a triangulation meets every kind of trouble."""
    rng = np.random.default_rng(0)
    line = np.outer(rng.random(20), (1.0, 2.0))
    uniform = rng.random((300, 2))
    grid = np.stack(np.meshgrid(np.arange(7.0), np.arange(5.0)), axis=-1).reshape(-1, 2)
    return {
        "uniform": uniform,
        "clusters": np.concatenate([rng.normal(size=(40, 2)), 30 + rng.normal(size=(40, 2))]),
        "far": 1e6 + uniform,
        "tiny": 1e-12 * uniform,
        "grid": grid,
        "line": line,
        "level": np.stack([np.arange(9.0) ** 2, np.zeros(9)], axis=1),
        "twice": np.concatenate([uniform[:50], uniform[:20]]),
        "nearly": np.concatenate([uniform[:50], uniform[:20] * (1 + 1e-15)]),
        "two": np.array([[0.0, 0.0], [3.0, 4.0]]),
        "one place": np.ones((5, 2)),
    }


@pytest.mark.parametrize("name", clouds())
def test_deaths_are_the_heights_of_single_linkage(name: str) -> None:
    """Components merge at the same scales, whatever the pairs; scipy finds them from all distances."""
    points = clouds()[name]
    expected = np.sort(linkage(points, "single")[:, 2])
    assert deaths(points) == pytest.approx(expected, rel=1e-9, abs=1e-12 * np.abs(points).max())


def test_a_tree_joins_all() -> None:
    points = clouds()["uniform"]
    tree = spanning_tree(points)
    assert tree.shape == (299, 2)
    assert (tree[:, 0] < tree[:, 1]).all()
    reached = {0}
    while new := {int(b) for pair in tree for a, b in (pair, pair[::-1]) if a in reached} - reached:
        reached |= new
    assert len(reached) == 300


def test_a_square_and_an_oblong_by_hand() -> None:
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    assert deaths(square).tolist() == [1.0, 1.0, 1.0]
    assert deaths(square * (1.0, 2.0)).tolist() == [1.0, 1.0, 2.0]
    # Of four sides that are equally long the first three in order.
    assert spanning_tree(square).tolist() == [[0, 1], [0, 3], [1, 2]]


def test_a_circle_dies_at_one_scale() -> None:
    angle = 2 * np.pi * np.arange(24) / 24
    found = deaths(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    assert found == pytest.approx(np.full(23, 2 * np.sin(np.pi / 24)), rel=1e-12)


def test_two_clusters_have_one_long_class() -> None:
    rng = np.random.default_rng(1)
    near, far = rng.random((2, 30, 2))
    far[:, 0] += 5.0
    found = deaths(np.concatenate([near, far]))
    between = np.hypot(*(near[:, None] - far[None]).transpose(2, 0, 1)).min()
    assert found[-1] == pytest.approx(between, rel=1e-12)
    assert found[-2] < 1.0


@pytest.mark.parametrize("name", json.loads(BY_GUDHI.read_text())["clouds"])
def test_diagrams_are_those_of_gudhi(name: str) -> None:
    """Its Vietoris-Rips complexes of these clouds (tests/data/README.md says how they were made)."""
    recorded = json.loads(BY_GUDHI.read_text())["clouds"][name]
    assert deaths(np.array(recorded["points"])) == pytest.approx(np.array(recorded["deaths"]), rel=1e-9)


@pytest.mark.parametrize("points", [np.zeros((1, 2)), np.zeros((5, 3)), np.full((4, 2), np.nan)])
def test_what_is_no_cloud_is_refused(points: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match="a tree needs"):
        spanning_tree(points)
