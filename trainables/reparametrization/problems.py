"""The contract of a problem on a sparse graph, the graphs, and sparse matrices of a stack.

Shapes: S runs of the stack, N nodes of each graph, D numbers a node has, C features a node has.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.reparametrization.settings import FEWEST, GraphSettings

Floats = NDArray[np.float64]
Edges = NDArray[np.int64]
"""[E, 2], both ends of every edge."""
Curvature = Callable[[Tensor], Tensor]
"""The Hessian's product with a direction of each run, [S, N, D] to [S, N, D]."""


@dataclass(frozen=True)
class Instance:
    """The problem of one run, the same for every method: made from (nodes, seed) and the settings alone.

    ``start`` and ``solution`` are [N, D]; ``hessian`` is that of the loss at the start, ``laplacian`` that of the bare
    graph without its weights: both scipy CSR [N, N]. Subclasses add the loss.
    """

    start: Floats
    solution: Floats
    hessian: Any
    laplacian: Any

    def digest(self) -> str:
        """A hash of the problem."""
        found = hashlib.sha256()
        for one in fields(self):
            value = getattr(self, one.name)
            parts = (value.data, value.indices, value.indptr) if sparse.issparse(value) else (np.asarray(value),)
            for part in parts:
                found.update(np.ascontiguousarray(part).tobytes())
        return found.hexdigest()[:32]


class Problem(ABC):
    """The losses of a stack of runs, on their own graphs. Float64 throughout.

    A gradient that is 0 by the mathematics is exactly 0: Adam divides a gradient by its own size, so that rounding
    would become a full step.
    """

    def __init__(self, instances: Sequence[Instance], device: torch.device) -> None:
        self.instances = tuple(instances)
        self.device = device

    @classmethod
    @abstractmethod
    def drawn(cls, settings: Any, nodes: int, seed: int) -> Instance:
        """The problem of one run, from its family's settings."""

    @abstractmethod
    def evaluate(self, x_SND: Tensor) -> tuple[Tensor, Tensor]:
        """Each run's loss above that of its solution, [S], and the gradient [S, N, D]."""

    @abstractmethod
    def curvature(self, x_SND: Tensor) -> Curvature:
        """Products with the Hessian where each run is."""

    @abstractmethod
    def diagonal(self, x_SND: Tensor) -> Tensor:
        """Jacobi's preconditioner where each run is, [S, N, D]: the Hessian's diagonal, or a positive bound of it."""

    def start(self) -> Tensor:
        """The state every method begins at, [S, N, D]."""
        return self.stacked([one.start for one in self.instances])

    def take(self, rows: Sequence[int]) -> Problem:
        """The problem of some of the runs."""
        return type(self)([self.instances[row] for row in rows], self.device)

    def stacked(self, arrays: Sequence[Floats]) -> Tensor:
        """An array of each run as one tensor on the device."""
        return torch.from_numpy(np.stack(arrays)).to(self.device)


def inner(x_SND: Tensor, y_SND: Tensor) -> Tensor:
    """The inner product of each run's parts, [S]."""
    return (x_SND * y_SND).flatten(1).sum(dim=1)


def rng_of(purpose: str, nodes: int, seed: int) -> np.random.Generator:
    """The generator for one purpose on a graph of this size and seed. Neither mix nor method enters it."""
    digest = hashlib.sha256(f"{purpose}|{nodes}|{seed}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


# Graphs: symmetric adjacency matrices of zeros and ones, without loops or double edges.


def adjacency(settings: GraphSettings, nodes: int, rng: np.random.Generator) -> Any:
    """The adjacency matrix [nodes, nodes] of a graph: scipy CSR, float64, sorted indices.

    Raises ``ValueError`` for fewer than :data:`FEWEST` nodes.
    """
    if nodes < FEWEST:
        raise ValueError(f"a graph has at least {FEWEST} nodes, got {nodes}")
    ends = _grid(nodes) if settings.kind == "grid" else _small_world(settings, nodes, rng)
    ends = ends[ends[:, 0] != ends[:, 1]]
    matrix = weighted(ends, np.ones(len(ends)), nodes)
    matrix.data[:] = 1.0  # An edge drawn twice was summed.
    return matrix


def weighted(ends: Edges, weights: Floats, nodes: int) -> Any:
    """The symmetric matrix [nodes, nodes] of edges with weights: scipy CSR, sorted indices."""
    rows, columns = np.concatenate([ends, ends[:, ::-1]]).T
    matrix = sparse.coo_matrix((np.tile(weights, 2), (rows, columns)), shape=(nodes, nodes)).tocsr()
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


def _grid(nodes: int) -> Edges:
    """Row by row, as square as can be; the last row may be short."""
    across = math.isqrt(nodes - 1) + 1
    node = np.arange(nodes)
    right = node[(node % across != across - 1) & (node + 1 < nodes)]
    down = node[node + across < nodes]
    return np.concatenate([np.stack([right, right + 1], 1), np.stack([down, down + across], 1)])


def _small_world(settings: GraphSettings, nodes: int, rng: np.random.Generator) -> Edges:
    node = np.arange(nodes)
    ends = np.concatenate([np.stack([node, (node + far) % nodes], 1) for far in range(1, settings.degree // 2 + 1)])
    moved = rng.random(len(ends)) < settings.rewired
    ends[moved, 1] = rng.integers(nodes, size=int(moved.sum()))
    return ends


# Sparse matrices of a stack as one, block by block along the diagonal.


class SparseStack:
    """S symmetric sparse matrices [N, N], float64, each applied to its own run's part of ``[S, N, D]``.

    The rows of a product are summed one after the other, so a run's numbers do not depend on its neighbours.
    """

    def __init__(self, matrices: Sequence[Any], device: torch.device) -> None:
        self._matrices = tuple(matrices)
        self._device = device
        self._joined = joined(matrices, device)

    def __call__(self, x_SND: Tensor) -> Tensor:
        """Each run's matrix times its part, with gradients."""
        product: Tensor = _Product.apply(self._joined, x_SND)  # type: ignore[no-untyped-call]
        return product

    def take(self, rows: Sequence[int]) -> SparseStack:
        """The matrices of some of the runs."""
        return SparseStack([self._matrices[row] for row in rows], self._device)


def joined(matrices: Sequence[Any], device: torch.device) -> Tensor:
    """Sparse matrices block by block along the diagonal, as one sparse CSR tensor in float64."""
    whole = sparse.block_diag(matrices, format="csr")
    whole.sort_indices()
    index = np.int32 if whole.nnz < 2**31 else np.int64
    with warnings.catch_warnings():
        # torch warns once that sparse CSR is in beta.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support", category=UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(whole.indptr.astype(index)),
            torch.from_numpy(whole.indices.astype(index)),
            torch.from_numpy(whole.data.astype(np.float64)),
            size=whole.shape,
            device=device,
            check_invariants=False,
        )


class _Product(torch.autograd.Function):
    """The product with a symmetric sparse matrix, whose gradient is the same product again."""

    @staticmethod
    def forward(ctx: Any, joined: Tensor, x_SND: Tensor) -> Tensor:
        ctx.joined = joined
        return _product(joined, x_SND)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, _product(ctx.joined, gradients[0])


def _product(joined: Tensor, x_SND: Tensor) -> Tensor:
    flat = x_SND.reshape(-1, x_SND.shape[-1])
    if flat.shape[1] == 1:
        return torch.mv(joined, flat[:, 0]).reshape(x_SND.shape)
    return torch.mm(joined, flat).reshape(x_SND.shape)
