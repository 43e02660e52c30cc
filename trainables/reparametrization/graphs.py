"""Sparse graphs of any number of nodes, from a generator: symmetric adjacency matrices of zeros and ones.

No node is its own neighbour, and no edge is there twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from trainables.errors import SettingsError

Kind = Literal["grid", "ring", "regular", "small_world", "scale_free", "blocks"]
Edges = NDArray[np.int64]
"""[E, 2], both ends of every edge."""
FEWEST = 16
"""Nodes of the smallest graph."""


@dataclass(frozen=True)
class GraphSettings:
    """Which graphs. ``degree`` is the mean number of neighbours (even, from 2 on), but for a ``grid``, where a node has
    up to four.

    ``ring``: each node with its nearest on a ring. ``regular``: the union of degree / 2 random cycles through all
    nodes, which is contiguous to the uniform random regular graph (Kim and Wormald 2001, J. Combin. Theory B 81, 20);
    an edge of two cycles is there once. ``small_world``: a ring, each edge with the probability ``rewired`` moved to a
    random end (Watts and Strogatz 1998, Nature 393, 440). ``scale_free``: preferential attachment (Barabasi and Albert
    1999, Science 286, 509). ``blocks``: a stochastic block model of ``blocks`` equal blocks, where the share
    ``crossing`` of all edges leads to another block.
    """

    kind: Kind = "grid"
    """A square ``grid``, a ``ring``, random cycles (``regular``), a ring with edges moved (``small_world``),
    preferential attachment (``scale_free``), or ``blocks`` with more edges within than across."""
    degree: int = 4
    rewired: float = 0.05
    blocks: int = 4
    crossing: float = 0.05

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise SettingsError(
                f"unknown kind of graph {self.kind!r}", key="graph.kind", given=str(self.kind), allowed=get_args(Kind)
            )
        if self.degree < 2 or self.degree % 2:
            raise SettingsError(f"degree is {self.degree}; it must be even, 2 or more", key="graph.degree")
        if self.degree >= FEWEST // 2:
            raise SettingsError(
                f"degree is {self.degree}; it must be under {FEWEST // 2}, half of the smallest graph",
                key="graph.degree",
            )
        if self.blocks < 2:
            raise SettingsError(f"blocks is {self.blocks}; it must be 2 or more", key="graph.blocks")
        for name in ("rewired", "crossing"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be in [0, 1]", key=f"graph.{name}")

    @property
    def neighbours(self) -> float:
        """Neighbours of a node, in the mean over a large graph."""
        return 4.0 if self.kind == "grid" else float(self.degree)


def adjacency(settings: GraphSettings, nodes: int, rng: np.random.Generator) -> Any:
    """The adjacency matrix [nodes, nodes] of a graph: scipy CSR, float64, sorted indices.

    Raises ``ValueError`` for fewer than :data:`FEWEST` nodes.
    """
    if nodes < FEWEST:
        raise ValueError(f"a graph has at least {FEWEST} nodes, got {nodes}")
    ends = _EDGES[settings.kind](settings, nodes, rng)
    ends = ends[ends[:, 0] != ends[:, 1]]
    both = np.concatenate([ends, ends[:, ::-1]])
    matrix = sparse.coo_matrix((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(nodes, nodes)).tocsr()
    matrix.data[:] = 1.0  # An edge drawn twice was summed.
    matrix.sort_indices()
    return matrix


def laplacian(weights: Any) -> Any:
    """``D - W`` of a symmetric matrix of edge weights; scipy CSR with sorted indices."""
    found = (sparse.diags(np.asarray(weights.sum(axis=1)).ravel()) - weights).tocsr()
    found.sort_indices()
    return found


def edges(matrix: Any) -> Edges:
    """Every edge of a symmetric matrix once, the smaller end first, in order."""
    upper = sparse.triu(matrix, k=1).tocoo()
    found: Edges = np.stack([upper.row, upper.col], axis=1).astype(np.int64)
    return found[np.lexsort((found[:, 1], found[:, 0]))]


def places(settings: GraphSettings, nodes: int) -> NDArray[np.float64]:
    """Where to draw the nodes of a graph, [nodes, 2]: a grid as one, others on a circle in order, where rings and
    blocks are what they are."""
    if settings.kind == "grid":
        down, across = np.divmod(np.arange(nodes), _across(nodes))
        return np.stack([across, -down], axis=1).astype(np.float64)
    angle = 2 * math.pi * np.arange(nodes) / nodes
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _grid(settings: GraphSettings, nodes: int, rng: np.random.Generator) -> Edges:
    """Row by row, as square as can be; the last row may be short."""
    across = _across(nodes)
    node = np.arange(nodes)
    right = node[(node % across != across - 1) & (node + 1 < nodes)]
    down = node[node + across < nodes]
    return np.concatenate([np.stack([right, right + 1], 1), np.stack([down, down + across], 1)])


def _across(nodes: int) -> int:
    """Nodes in a row of a grid."""
    return math.isqrt(nodes - 1) + 1


def _ring(settings: GraphSettings, nodes: int, rng: np.random.Generator) -> Edges:
    node = np.arange(nodes)
    return np.concatenate([np.stack([node, (node + far) % nodes], 1) for far in range(1, settings.degree // 2 + 1)])


def _regular(settings: GraphSettings, nodes: int, rng: np.random.Generator) -> Edges:
    cycles = [rng.permutation(nodes) for _ in range(settings.degree // 2)]
    return np.concatenate([np.stack([cycle, np.roll(cycle, 1)], 1) for cycle in cycles])


def _small_world(settings: GraphSettings, nodes: int, rng: np.random.Generator) -> Edges:
    ends = _ring(settings, nodes, rng)
    moved = rng.random(len(ends)) < settings.rewired
    ends[moved, 1] = rng.integers(nodes, size=int(moved.sum()))
    return ends


def _scale_free(settings: GraphSettings, nodes: int, rng: np.random.Generator) -> Edges:
    """Each new node takes degree / 2 ends of edges that are there, so that a node is found as often as it has them."""
    new = settings.degree // 2
    ends = np.empty(2 * new * nodes, np.int64)
    count = 0
    for node in range(1, nodes):
        drawn = rng.integers(count, size=new) if count else None
        chosen = {0} if drawn is None else {int(ends[place]) for place in drawn}
        for other in sorted(chosen):
            ends[count : count + 2] = node, other
            count += 2
    return ends[:count].reshape(-1, 2)


def _blocks(settings: GraphSettings, nodes: int, rng: np.random.Generator) -> Edges:
    """Edges with both ends drawn at random, the second from the first one's block or, for crossing ones, from another.
    A path through all nodes, block by block, holds the graph together."""
    count = settings.degree * nodes // 2 - (nodes - 1)
    first = rng.integers(nodes, size=max(count, 0))
    block = first * settings.blocks // nodes
    shift = rng.integers(1, settings.blocks, size=len(first)) * (rng.random(len(first)) < settings.crossing)
    other = (block + shift) % settings.blocks
    begin, end = -(-other * nodes // settings.blocks), -(-(other + 1) * nodes // settings.blocks)
    second = begin + (rng.random(len(first)) * (end - begin)).astype(np.int64)
    path = np.arange(nodes - 1)
    return np.concatenate([np.stack([first, second], 1), np.stack([path, path + 1], 1)])


_EDGES: dict[str, Callable[[GraphSettings, int, np.random.Generator], Edges]] = {
    "grid": _grid,
    "ring": _ring,
    "regular": _regular,
    "small_world": _small_world,
    "scale_free": _scale_free,
    "blocks": _blocks,
}
