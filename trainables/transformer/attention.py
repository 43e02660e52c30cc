"""Causal attention of a stack, by torch's kernel.

Shape suffixes as in model.py: S stack, N = B*T, C n_embed, H heads, D = C/H, T positions.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

MOST_ROWS = 65_535
"""Limit of rows: attention kernels count them along a grid dimension of CUDA."""


def attention(qkv_SNK: Tensor, rows: int, n_head: int, scale: float) -> Tensor:
    """Apply causal attention within each row; [S, N, 3C] -> [S, N, C]."""
    stack, tokens, width3 = qkv_SNK.shape
    # Split first: compiled with a dynamic stack axis, the gradient is then written once, by one kernel per block.
    q_BHTD, k_BHTD, v_BHTD = (
        part_SNC.view(stack, rows, tokens // rows, n_head, -1).flatten(0, 1).transpose(1, 2)
        for part_SNC in qkv_SNK.chunk(3, dim=-1)
    )
    mixed_BHTD = _by_kernel(q_BHTD, k_BHTD, v_BHTD, scale)
    return mixed_BHTD.transpose(1, 2).reshape(stack, tokens, width3 // 3)


def _by_kernel(q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor, scale: float) -> Tensor:
    """Use torch's kernel, on halves if there are too many rows."""
    rows = q_BHTD.shape[0]
    if rows > MOST_ROWS:
        half = rows // 2
        first_BHTD = _by_kernel(q_BHTD[:half], k_BHTD[:half], v_BHTD[:half], scale)
        second_BHTD = _by_kernel(q_BHTD[half:], k_BHTD[half:], v_BHTD[half:], scale)
        return torch.cat((first_BHTD, second_BHTD))
    return functional.scaled_dot_product_attention(q_BHTD, k_BHTD, v_BHTD, is_causal=True, scale=scale)
