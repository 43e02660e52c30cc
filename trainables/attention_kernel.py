"""Causal attention within short rows as one Triton kernel, and its gradient as another.

A row's scores of one head fit into one tile, so the softmax needs no second pass, and the gradient recomputes it from
queries, keys and values: nothing is kept for it. The gradient is written where the product before it wants it, beside
one another; torch's kernel writes three tensors, which another kernel has to put together. The plain path
(transformer.py) stays the reference.

Importing this needs Triton (fused.py asks first). Shape suffixes as in transformer.py.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

from trainables.matrix_units import dot, tile, wide


@triton.jit  # type: ignore[untyped-decorator]
def _weights(q, k, scale, t, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """exp(score - largest score) [T, T], 0 for what comes later, and its sum over every query's row [T]."""
    score = dot(q, tl.trans(k), WIDE) * scale
    score = tl.where(t[:, None] >= t[None, :], score, float("-inf"))
    weight = tl.exp(score - tl.max(score, 1)[:, None])
    return weight, tl.sum(weight, 1)


@triton.jit  # type: ignore[untyped-decorator]
def _forward(  # type: ignore[no-untyped-def]
    qkv_pointer,
    mixed_pointer,
    scale,
    positions,
    heads,
    DEPTH: tl.constexpr,
    T: tl.constexpr,
    D: tl.constexpr,
    WIDE: tl.constexpr,
):
    """One head of one row. Queries beyond ``positions`` are zeros and see zeros; nothing of them is stored."""
    program = tl.program_id(0)
    row, head = (program // heads).to(tl.int64), program % heads
    t, d = tl.arange(0, T), tl.arange(0, D)
    inside = (t[:, None] < positions) & (d[None, :] < DEPTH)
    width = heads * DEPTH
    at = t[:, None] * (3 * width) + d[None, :]
    first = qkv_pointer + row * positions * 3 * width + head * DEPTH
    q = tl.load(first + at, mask=inside, other=0.0)
    k = tl.load(first + width + at, mask=inside, other=0.0)
    v = tl.load(first + 2 * width + at, mask=inside, other=0.0)
    weight, total = _weights(q, k, scale, t, WIDE)
    mixed = dot(weight.to(v.dtype), v, WIDE) / total[:, None]
    to = mixed_pointer + row * positions * width + head * DEPTH + t[:, None] * width + d[None, :]
    tl.store(to, mixed.to(v.dtype), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _backward(  # type: ignore[no-untyped-def]
    qkv_pointer,
    upstream_pointer,
    gradient_pointer,
    scale,
    positions,
    heads,
    DEPTH: tl.constexpr,
    T: tl.constexpr,
    D: tl.constexpr,
    WIDE: tl.constexpr,
):
    """The gradient of one head of one row. With p the softmax and g its gradient, that of the scores is
    p (g - sum p g); the whole row is at hand, so the sum needs no pass of its own."""
    program = tl.program_id(0)
    row, head = (program // heads).to(tl.int64), program % heads
    t, d = tl.arange(0, T), tl.arange(0, D)
    inside = (t[:, None] < positions) & (d[None, :] < DEPTH)
    width = heads * DEPTH
    at = t[:, None] * (3 * width) + d[None, :]
    first = row * positions * 3 * width + head * DEPTH
    q = tl.load(qkv_pointer + first + at, mask=inside, other=0.0)
    k = tl.load(qkv_pointer + first + width + at, mask=inside, other=0.0)
    v = tl.load(qkv_pointer + first + 2 * width + at, mask=inside, other=0.0)
    above = upstream_pointer + row * positions * width + head * DEPTH + t[:, None] * width + d[None, :]
    upstream = tl.load(above, mask=inside, other=0.0)
    weight, total = _weights(q, k, scale, t, WIDE)
    share = weight / total[:, None]
    to = gradient_pointer + first + at
    tl.store(to + 2 * width, dot(tl.trans(share.to(v.dtype)), upstream, WIDE).to(v.dtype), mask=inside)
    by_share = dot(upstream, tl.trans(v), WIDE)
    by_score = (share * (by_share - tl.sum(share * by_share, 1)[:, None]) * scale).to(v.dtype)
    tl.store(to, dot(by_score, k, WIDE).to(v.dtype), mask=inside)
    tl.store(to + width, dot(tl.trans(by_score), q, WIDE).to(v.dtype), mask=inside)


@triton_op("transition_sweeps::attention", mutates_args={})
def attend(qkv_SNK: Tensor, rows: int, n_head: int, scale: float) -> Tensor:
    """Causal attention within each of ``rows`` rows of every stack member: [S, N, 3C], contiguous -> [S, N, C]."""
    stack, tokens, width3 = qkv_SNK.shape
    mixed_SNC = qkv_SNK.new_empty(stack, tokens, width3 // 3)
    positions, depth = tokens // rows, width3 // 3 // n_head
    wrap_triton(_forward)[(stack * rows * n_head,)](
        qkv_SNK, mixed_SNC, scale, positions, n_head, **_constants(qkv_SNK, positions, depth)
    )
    return mixed_SNC


@triton_op("transition_sweeps::attention_gradient", mutates_args={})
def attend_gradient(upstream_SNC: Tensor, qkv_SNK: Tensor, rows: int, n_head: int, scale: float) -> Tensor:
    """What a gradient of :func:`attend`'s result, contiguous, is as one of its ``qkv_SNK``: [S, N, C] -> [S, N, 3C]."""
    stack, tokens, width3 = qkv_SNK.shape
    gradient_SNK = torch.empty_like(qkv_SNK)
    positions, depth = tokens // rows, width3 // 3 // n_head
    wrap_triton(_backward)[(stack * rows * n_head,)](
        qkv_SNK, upstream_SNC, gradient_SNK, scale, positions, n_head, **_constants(qkv_SNK, positions, depth)
    )
    return gradient_SNK


def _constants(qkv_SNK: Tensor, positions: int, depth: int) -> dict[str, int | bool]:
    """What the kernels are compiled for."""
    row = tile(positions)
    return {
        "DEPTH": depth,
        "T": row,
        "D": tile(depth),
        "WIDE": wide(qkv_SNK),
        "num_warps": 8 if row > 64 else 4,
        "num_stages": 1,
    }


def _keep(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    qkv_SNK, ctx.rows, ctx.n_head, ctx.scale = inputs
    ctx.save_for_backward(qkv_SNK)


def _differentiate(ctx, upstream_SNC):  # type: ignore[no-untyped-def]
    [qkv_SNK] = ctx.saved_tensors
    gradient_SNK = attend_gradient(upstream_SNC.contiguous(), qkv_SNK, ctx.rows, ctx.n_head, ctx.scale)
    return gradient_SNK, None, None, None


attend.register_autograd(_differentiate, setup_context=_keep)
