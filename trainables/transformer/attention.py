"""Causal attention of a stack: torch's kernel or, for short rows on a CPU, matrix products.

Shape suffixes as in model.py: S stack, N = B*T, C n_embed, H heads, D = C/H, T positions, X = rows x heads.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

SHORT_ROW = 32
"""Longest row for which a CPU uses matrix products."""
MOST_ROWS = 65_535
"""Maximum number of rows: attention kernels count them along a grid dimension of CUDA."""


def attention(qkv_SNK: Tensor, rows: int, n_head: int, scale: float) -> Tensor:
    """Apply causal attention within each row; [S, N, 3C] -> [S, N, C]."""
    stack, tokens, width3 = qkv_SNK.shape
    # Split first: compiled with a dynamic stack axis, the gradient is then written once, by one kernel per block.
    q_BHTD, k_BHTD, v_BHTD = (
        part_SNC.view(stack, rows, tokens // rows, n_head, -1).flatten(0, 1).transpose(1, 2)
        for part_SNC in qkv_SNK.chunk(3, dim=-1)
    )
    if qkv_SNK.is_cpu and tokens // rows <= SHORT_ROW:
        mixed_BHTD = _by_products(q_BHTD, k_BHTD, v_BHTD, scale)
    else:
        mixed_BHTD = _by_kernel(q_BHTD, k_BHTD, v_BHTD, scale)
    return mixed_BHTD.transpose(1, 2).reshape(stack, tokens, width3 // 3)


def _by_kernel(q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor, scale: float) -> Tensor:
    rows = q_BHTD.shape[0]
    if rows > MOST_ROWS:
        half = rows // 2
        first_BHTD = _by_kernel(q_BHTD[:half], k_BHTD[:half], v_BHTD[:half], scale)
        second_BHTD = _by_kernel(q_BHTD[half:], k_BHTD[half:], v_BHTD[half:], scale)
        return torch.cat((first_BHTD, second_BHTD))
    return functional.scaled_dot_product_attention(q_BHTD, k_BHTD, v_BHTD, is_causal=True, scale=scale)


def _by_products(q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor, scale: float) -> Tensor:
    """Use matrix products, which are faster for short rows because these do not fill the blocks of torch's kernel."""
    batch, heads, positions, _ = q_BHTD.shape
    q_XTD, k_XTD, v_XTD = (part.flatten(0, 1) for part in (q_BHTD, k_BHTD, v_BHTD))
    future_TT = q_XTD.new_full((positions, positions), -math.inf).triu(1)
    score_XTT = torch.baddbmm(future_TT, q_XTD, k_XTD.transpose(1, 2), alpha=scale)
    return torch.bmm(score_XTT.softmax(dim=-1), v_XTD).view(batch, heads, positions, -1)
