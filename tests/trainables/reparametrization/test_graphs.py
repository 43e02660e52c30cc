"""Graphs are what their names say, and a seed decides them."""

from __future__ import annotations

from typing import get_args

import networkx
import numpy as np
import pytest
import scipy.sparse as sparse

from trainables.errors import SettingsError
from trainables.reparametrization.graphs import GraphSettings, Kind, adjacency, edges, laplacian

KINDS = get_args(Kind)


def of(kind: Kind, nodes: int = 200, seed: int = 0, **settings: float) -> sparse.csr_matrix:
    return adjacency(GraphSettings(kind, **settings), nodes, np.random.default_rng(seed))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [16, 17, 200])
def test_graphs_are_simple_symmetric_and_whole(kind: Kind, nodes: int) -> None:
    matrix = of(kind, nodes)
    assert matrix.shape == (nodes, nodes)
    assert abs(matrix - matrix.T).nnz == 0
    assert set(matrix.data) == {1.0}
    assert matrix.diagonal().sum() == 0
    assert sparse.csgraph.connected_components(matrix)[0] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_decides_the_graph(kind: Kind) -> None:
    assert abs(of(kind, seed=3) - of(kind, seed=3)).nnz == 0
    if kind not in ("grid", "ring"):
        assert abs(of(kind, seed=3) - of(kind, seed=4)).nnz > 0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "grid"])
def test_nodes_have_the_degree_asked_for(kind: Kind) -> None:
    """In the mean; edges drawn twice, and the first nodes of a scale-free graph, leave a few out."""
    assert of(kind, 2000, degree=6).sum(axis=1).mean() == pytest.approx(6, rel=0.03)


def test_a_grid_is_one() -> None:
    square = networkx.to_scipy_sparse_array(networkx.grid_2d_graph(7, 7))
    assert abs(of("grid", 49) - square).nnz == 0


def test_a_ring_is_a_circulant_graph() -> None:
    assert abs(of("ring", 30) - networkx.to_scipy_sparse_array(networkx.circulant_graph(30, [1, 2]))).nnz == 0


def test_a_rewired_ring_is_a_small_world() -> None:
    def across(matrix: sparse.csr_matrix) -> float:
        return float(sparse.csgraph.shortest_path(matrix, unweighted=True).mean())

    assert across(of("small_world")) < 0.5 * across(of("ring"))


def test_a_scale_free_graph_has_hubs_and_blocks_are_apart() -> None:
    assert of("scale_free", 2000).sum(axis=1).max() > 8 * of("regular", 2000).sum(axis=1).max()
    ends = edges(of("blocks", 2000, blocks=4, crossing=0.1))
    block = ends * 4 // 2000
    assert (block[:, 0] != block[:, 1]).mean() == pytest.approx(0.1 / 2, rel=0.3)  # Half of the edges are the path.


def test_a_laplacian_sums_to_nothing() -> None:
    matrix = of("regular")
    assert np.abs(laplacian(matrix).sum(axis=1)).max() < 1e-12


def test_mistakes_are_refused() -> None:
    with pytest.raises(SettingsError, match="unknown kind of graph 'tree'"):
        GraphSettings("tree")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="must be even"):
        GraphSettings(degree=3)
    with pytest.raises(ValueError, match="at least 16 nodes"):
        of("grid", 15)
