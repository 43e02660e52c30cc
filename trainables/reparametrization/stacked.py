"""Sparse matrices of a stack of runs as one: block by block along the diagonal.

Shapes: S runs of the stack, N nodes of each graph, D numbers a node has, C features a node has.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sparse
import torch
from torch import Tensor


class SparseStack:
    """S symmetric sparse matrices [N, N], float64, each applied to its own run's part of ``[S, N, D]``.

    The rows of a product are summed one after the other, so a run's numbers do not depend on its neighbours.
    """

    def __init__(self, matrices: Sequence[Any], device: torch.device) -> None:
        self._matrices = tuple(matrices)
        self._device = device
        self._joined = joined(matrices, device)

    def __len__(self) -> int:
        return len(self._matrices)

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
        # torch says at the first one that sparse CSR is in beta.
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
