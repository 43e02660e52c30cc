"""Attention on made-up numbers, and what the plain path makes of them: for tests of the project's own kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.transformer import _attention

SHAPES = [(12, 16, 1), (128, 64, 1), (128, 40, 1), (37, 40, 1), (1, 8, 1), (100, 24, 3), (17, 5, 2), (60, 64, 2)]
"""Positions, depth of a head and heads: whole tiles, odd lengths, depths padded or not, several heads."""
ROWS = 3


def sample(positions: int, depth: int, n_head: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Queries, keys and values of two models on three rows [2, N, 3C]; a gradient of what comes of them [2, N, C]."""
    generator = torch.Generator().manual_seed(positions * 1000 + depth)
    qkv_SNK = torch.randn(2, ROWS * positions, 3 * depth * n_head, generator=generator).to(dtype)
    upstream_SNC = torch.randn(2, ROWS * positions, depth * n_head, generator=generator).to(dtype)
    return qkv_SNK, upstream_SNC


def exact(qkv_SNK: Tensor, upstream_SNC: Tensor, n_head: int) -> tuple[Tensor, Tensor]:
    """What the plain path makes of the same numbers in float64, forward and backward."""
    leaf_SNK = qkv_SNK.double().requires_grad_()
    mixed_SNC = _attention(leaf_SNK, ROWS, n_head, scale(qkv_SNK, n_head))
    [gradient_SNK] = torch.autograd.grad(mixed_SNC, leaf_SNK, upstream_SNC.double())
    return mixed_SNC.detach(), gradient_SNK


def by_kernel(qkv_SNK: Tensor, upstream_SNC: Tensor, n_head: int) -> tuple[Tensor, Tensor]:
    """What the project's own kernel makes of them."""
    from trainables.attention_kernel import attend  # Where Triton is.

    leaf_SNK = qkv_SNK.clone().requires_grad_()
    mixed_SNC = attend(leaf_SNK, ROWS, n_head, scale(qkv_SNK, n_head))
    [gradient_SNK] = torch.autograd.grad(mixed_SNC, leaf_SNK, upstream_SNC)
    return mixed_SNC.detach(), gradient_SNK


def scale(qkv_SNK: Tensor, n_head: int) -> float:
    """What scores are multiplied by."""
    return float((qkv_SNK.shape[-1] // 3 // n_head) ** -0.5)


def farthest(found: Tensor, right: Tensor) -> float:
    """How far results lie apart at most, relative to the largest of them."""
    return float((found.cpu().double() - right).abs().max() / right.abs().max())
