"""The feed-forward (product, ReLU, product) added to the residual stream as one Triton kernel, its gradient as two.

What lies between the products is four times as wide as what goes in and comes out, and is never written: it is made
tile by tile, and made again for the gradient. The plain path (transformer.py) stays the reference.

The gradient of the weights is summed over pieces of the tokens that do not depend on the stack, so neither do its bits.

Importing this needs Triton (fused.py asks first). Shape suffixes as in transformer.py; R pieces.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

from trainables.matrix_units import dot, tile, wide

PIECE = 2048
"""Tokens over which one program sums a weight's gradient: with 8 192 a step, a stack of 8 keeps every multiprocessor
busy, and what is written of partial sums is a third of what is read."""


@triton.jit  # type: ignore[untyped-decorator]
def _hidden(x, into, bias_pointer, f, HIDDEN: tl.constexpr, BIAS: tl.constexpr, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """A tile of what the first product gives [N, F], float32."""
    hidden = dot(x, into, WIDE)
    if BIAS:
        hidden += tl.load(bias_pointer + f, mask=f < HIDDEN, other=0.0).to(tl.float32)[None, :]
    return hidden


@triton.jit  # type: ignore[untyped-decorator]
def _forward(  # type: ignore[no-untyped-def]
    x_pointer,
    stream_pointer,
    into_pointer,
    bias_pointer,
    out_of_pointer,
    result_pointer,
    tokens,
    into_stride,
    out_of_stride,
    WIDTH: tl.constexpr,
    HIDDEN: tl.constexpr,
    BIAS: tl.constexpr,
    N: tl.constexpr,
    C: tl.constexpr,
    F: tl.constexpr,
    WIDE: tl.constexpr,
):
    """A tile of one model's tokens. Those beyond ``tokens`` are zeros; nothing of them is stored."""
    program, tiles = tl.program_id(0), tl.cdiv(tokens, N)
    model = (program // tiles).to(tl.int64)
    n, c = (program % tiles) * N + tl.arange(0, N), tl.arange(0, C)
    at = model * tokens * WIDTH + n[:, None] * WIDTH + c[None, :]
    inside = (n[:, None] < tokens) & (c[None, :] < WIDTH)
    x = tl.load(x_pointer + at, mask=inside, other=0.0)
    result = tl.load(stream_pointer + at, mask=inside, other=0.0).to(tl.float32)
    for first in range(0, HIDDEN, F):
        f = first + tl.arange(0, F)
        into, out_of = _weights(
            into_pointer + model * into_stride, out_of_pointer + model * out_of_stride, c, f, WIDTH, HIDDEN
        )
        hidden = _hidden(x, into, bias_pointer + model * HIDDEN, f, HIDDEN, BIAS, WIDE)
        result += dot(tl.maximum(hidden, 0.0).to(x.dtype), out_of, WIDE)
    tl.store(result_pointer + at, result.to(x.dtype), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _weights(into_pointer, out_of_pointer, c, f, WIDTH: tl.constexpr, HIDDEN: tl.constexpr):  # type: ignore[no-untyped-def]
    """Both matrices of one model where they meet the hidden numbers ``f``: [C, F] and [F, C]."""
    into = tl.load(
        into_pointer + c[:, None] * HIDDEN + f[None, :], mask=(c[:, None] < WIDTH) & (f[None, :] < HIDDEN), other=0.0
    )
    out_of = tl.load(
        out_of_pointer + f[:, None] * WIDTH + c[None, :], mask=(f[:, None] < HIDDEN) & (c[None, :] < WIDTH), other=0.0
    )
    return into, out_of


@triton.jit  # type: ignore[untyped-decorator]
def _backward_tokens(  # type: ignore[no-untyped-def]
    x_pointer,
    upstream_pointer,
    into_pointer,
    bias_pointer,
    out_of_pointer,
    gradient_pointer,
    tokens,
    into_stride,
    out_of_stride,
    WIDTH: tl.constexpr,
    HIDDEN: tl.constexpr,
    BIAS: tl.constexpr,
    N: tl.constexpr,
    C: tl.constexpr,
    F: tl.constexpr,
    WIDE: tl.constexpr,
):
    """The gradient of a tile of one model's tokens."""
    program, tiles = tl.program_id(0), tl.cdiv(tokens, N)
    model = (program // tiles).to(tl.int64)
    n, c = (program % tiles) * N + tl.arange(0, N), tl.arange(0, C)
    at = model * tokens * WIDTH + n[:, None] * WIDTH + c[None, :]
    inside = (n[:, None] < tokens) & (c[None, :] < WIDTH)
    x = tl.load(x_pointer + at, mask=inside, other=0.0)
    upstream = tl.load(upstream_pointer + at, mask=inside, other=0.0)
    gradient = tl.zeros((N, C), tl.float32)
    for first in range(0, HIDDEN, F):
        f = first + tl.arange(0, F)
        into, out_of = _weights(
            into_pointer + model * into_stride, out_of_pointer + model * out_of_stride, c, f, WIDTH, HIDDEN
        )
        hidden = _hidden(x, into, bias_pointer + model * HIDDEN, f, HIDDEN, BIAS, WIDE)
        by_hidden = tl.where(hidden > 0, dot(upstream, tl.trans(out_of), WIDE), 0.0).to(x.dtype)
        gradient += dot(by_hidden, tl.trans(into), WIDE)
    tl.store(gradient_pointer + at, gradient.to(x.dtype), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _backward_weights(  # type: ignore[no-untyped-def]
    x_pointer,
    upstream_pointer,
    into_pointer,
    bias_pointer,
    out_of_pointer,
    by_into_pointer,
    by_bias_pointer,
    by_out_of_pointer,
    tokens,
    into_stride,
    out_of_stride,
    WIDTH: tl.constexpr,
    HIDDEN: tl.constexpr,
    BIAS: tl.constexpr,
    PIECE: tl.constexpr,
    N: tl.constexpr,
    C: tl.constexpr,
    F: tl.constexpr,
    WIDE: tl.constexpr,
):
    """The gradient of one model's weights where they meet a tile of hidden numbers, summed over a piece of its tokens.
    Programs of one piece follow one another, so that its tokens are read from memory once and then from the cache."""
    program, tiles, pieces = tl.program_id(0), tl.cdiv(HIDDEN, F), tl.cdiv(tokens, PIECE)
    model, piece = (program // tiles // pieces).to(tl.int64), program // tiles % pieces
    f, c = (program % tiles) * F + tl.arange(0, F), tl.arange(0, C)
    into, out_of = _weights(
        into_pointer + model * into_stride, out_of_pointer + model * out_of_stride, c, f, WIDTH, HIDDEN
    )
    by_into = tl.zeros((C, F), tl.float32)
    by_out_of = tl.zeros((F, C), tl.float32)
    by_bias = tl.zeros((F,), tl.float32)
    for first in range(0, PIECE, N):
        n = piece * PIECE + first + tl.arange(0, N)
        at = model * tokens * WIDTH + n[:, None] * WIDTH + c[None, :]
        inside = (n[:, None] < tokens) & (c[None, :] < WIDTH)
        x = tl.load(x_pointer + at, mask=inside, other=0.0)
        upstream = tl.load(upstream_pointer + at, mask=inside, other=0.0)
        hidden = _hidden(x, into, bias_pointer + model * HIDDEN, f, HIDDEN, BIAS, WIDE)
        by_out_of += dot(tl.trans(tl.maximum(hidden, 0.0).to(x.dtype)), upstream, WIDE)
        by_hidden = tl.where(hidden > 0, dot(upstream, tl.trans(out_of), WIDE), 0.0)
        by_into += dot(tl.trans(x), by_hidden.to(x.dtype), WIDE)
        if BIAS:
            by_bias += tl.sum(by_hidden, 0)
    whole = model * pieces + piece
    into_to = by_into_pointer + whole * WIDTH * HIDDEN + c[:, None] * HIDDEN + f[None, :]
    tl.store(into_to, by_into, mask=(c[:, None] < WIDTH) & (f[None, :] < HIDDEN))
    out_of_to = by_out_of_pointer + whole * WIDTH * HIDDEN + f[:, None] * WIDTH + c[None, :]
    tl.store(out_of_to, by_out_of, mask=(f[:, None] < HIDDEN) & (c[None, :] < WIDTH))
    if BIAS:
        tl.store(by_bias_pointer + whole * HIDDEN + f, by_bias, mask=f < HIDDEN)


@triton_op("transition_sweeps::feed_forward", mutates_args={})
def feed_forward(
    x_SNC: Tensor, stream_SNC: Tensor, into_SCF: Tensor, bias_S1F: Tensor | None, out_of_SFC: Tensor
) -> Tensor:
    """``stream`` + ReLU(``x`` ``into`` + ``bias``) ``out_of``, [S, N, C]. ``x`` and ``stream`` are contiguous, the
    matrices within each model."""
    result_SNC = torch.empty_like(x_SNC)
    stack, tokens, _ = x_SNC.shape
    shapes = _shapes(x_SNC, into_SCF, bias_S1F)
    wrap_triton(_forward)[(stack * triton.cdiv(tokens, shapes["N"]),)](
        x_SNC,
        stream_SNC,
        into_SCF,
        into_SCF if bias_S1F is None else bias_S1F,
        out_of_SFC,
        result_SNC,
        tokens,
        into_SCF.stride(0),
        out_of_SFC.stride(0),
        **shapes,
        num_warps=8,
        num_stages=2,
    )
    return result_SNC


@triton_op("transition_sweeps::feed_forward_gradient", mutates_args={})
def feed_forward_gradient(
    upstream_SNC: Tensor, x_SNC: Tensor, into_SCF: Tensor, bias_S1F: Tensor | None, out_of_SFC: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What a gradient of :func:`feed_forward`'s result, contiguous, is as one of its ``x`` [S, N, C] and, in float32
    and summed over each piece of the tokens, of ``into`` [S, R, C, F], ``bias`` [S, R, F] (nothing in it without one)
    and ``out_of`` [S, R, F, C]."""
    stack, tokens, width = x_SNC.shape
    hidden, pieces = into_SCF.shape[-1], triton.cdiv(tokens, PIECE)
    by_x_SNC = torch.empty_like(x_SNC)
    by_into_SRCF = x_SNC.new_empty(stack, pieces, width, hidden, dtype=torch.float32)
    by_bias_SRF = x_SNC.new_empty(stack, pieces, hidden, dtype=torch.float32)
    by_out_of_SRFC = x_SNC.new_empty(stack, pieces, hidden, width, dtype=torch.float32)
    given = (upstream_SNC, into_SCF, into_SCF if bias_S1F is None else bias_S1F, out_of_SFC)
    ways = (tokens, into_SCF.stride(0), out_of_SFC.stride(0))
    shapes = _shapes(x_SNC, into_SCF, bias_S1F)
    wrap_triton(_backward_tokens)[(stack * triton.cdiv(tokens, shapes["N"]),)](
        x_SNC, *given, by_x_SNC, *ways, **shapes, num_warps=8, num_stages=2
    )
    # Two sums are kept in registers, and a bias's besides: the assembler finds room for tiles of this width.
    shapes |= {"N": 64, "F": 128 if shapes["C"] <= 64 and bias_S1F is None else 64}
    wrap_triton(_backward_weights)[(stack * pieces * triton.cdiv(hidden, shapes["F"]),)](
        x_SNC,
        *given,
        by_into_SRCF,
        by_bias_SRF,
        by_out_of_SRFC,
        *ways,
        **shapes,
        PIECE=PIECE,
        num_warps=8,
        num_stages=2,
    )
    return by_x_SNC, by_into_SRCF, by_bias_SRF, by_out_of_SRFC


def _shapes(x_SNC: Tensor, into_SCF: Tensor, bias_S1F: Tensor | None) -> dict[str, int | bool]:
    """What the kernels are compiled for."""
    width, hidden = into_SCF.shape[1:]
    return {
        "WIDTH": width,
        "HIDDEN": hidden,
        "BIAS": bias_S1F is not None,
        "N": 128,
        "C": tile(width),
        "F": 64,
        "WIDE": wide(x_SNC),
    }


def _keep(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    x_SNC, _, into_SCF, bias_S1F, out_of_SFC = inputs
    ctx.save_for_backward(x_SNC, into_SCF, bias_S1F, out_of_SFC)


def _differentiate(ctx, upstream_SNC):  # type: ignore[no-untyped-def]
    x_SNC, into_SCF, bias_S1F, out_of_SFC = ctx.saved_tensors
    by_x_SNC, by_into_SRCF, by_bias_SRF, by_out_of_SRFC = feed_forward_gradient(
        upstream_SNC.contiguous(), x_SNC, into_SCF, bias_S1F, out_of_SFC
    )
    by_bias_S1F = None if bias_S1F is None else by_bias_SRF.sum(1, keepdim=True).to(bias_S1F.dtype)
    by_into_SCF = by_into_SRCF.sum(1).to(into_SCF.dtype)
    return by_x_SNC, upstream_SNC, by_into_SCF, by_bias_S1F, by_out_of_SRFC.sum(1).to(out_of_SFC.dtype)


feed_forward.register_autograd(_differentiate, setup_context=_keep)
