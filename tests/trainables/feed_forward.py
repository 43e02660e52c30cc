"""A feed-forward on made-up numbers, and what the plain path makes of them: for tests of the project's own kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.transformer import _feed_forward, _Linear

FEEDS = [(40, 64, 256, False), (130, 37, 148, True), (7, 8, 32, True), (70, 80, 320, False), (2100, 16, 64, True)]
"""Tokens, width, hidden numbers and whether with biases: whole tiles, odd sizes, tiles larger than what there is, more
than one piece of tokens."""


def numbers(tokens: int, width: int, hidden: int, bias: bool, dtype: torch.dtype) -> list[Tensor | None]:
    """What goes into the feed-forwards of two models: x, stream [2, N, C], into [2, C, F], bias [2, 1, F] or None, out
    of [2, F, C], which is a part of a wider tensor as parameters are."""
    generator = torch.Generator().manual_seed(1000 * tokens + width)

    def made(*shape: int, by: float = 1.0) -> Tensor:
        return (by * torch.randn(2, *shape, generator=generator)).to(dtype)

    flat_SP = made(hidden * width + 16, by=hidden**-0.5)
    out_of_SFC = flat_SP[:, 16:].view(2, hidden, width)
    into_SCF = made(width, hidden, by=width**-0.5)
    return [made(tokens, width), made(tokens, width), into_SCF, made(1, hidden) if bias else None, out_of_SFC]


def plainly(given: list[Tensor | None]) -> list[Tensor]:
    """What the plain path makes of the same numbers in float64: the result and every gradient."""
    x_SNC, stream_SNC, into_SCF, bias_S1F, out_of_SFC = leaves = _leaves(given, torch.float64)
    assert x_SNC is not None
    assert stream_SNC is not None
    assert into_SCF is not None
    assert out_of_SFC is not None
    into = _Linear(into_SCF, bias_S1F)
    result_SNC = _feed_forward(stream_SNC, x_SNC, into, {"0.feed_forward_out": out_of_SFC}, 0, "relu")
    return _with_gradients(result_SNC, leaves)


def by_own_kernel(given: list[Tensor | None]) -> list[Tensor]:
    """What the project's own kernel makes of them."""
    from trainables.feed_forward_kernel import feed_forward  # Where Triton is.

    leaves = _leaves(given, None)
    return _with_gradients(feed_forward(*leaves), leaves)


def _leaves(given: list[Tensor | None], dtype: torch.dtype | None) -> list[Tensor | None]:
    return [None if each is None else each.detach().to(dtype or each.dtype).requires_grad_() for each in given]


def _with_gradients(result_SNC: Tensor, leaves: list[Tensor | None]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    upstream_SNC = torch.randn(result_SNC.shape, generator=generator).bfloat16().to(result_SNC)
    there = [each for each in leaves if each is not None]
    return [result_SNC.detach(), *torch.autograd.grad(result_SNC, there, upstream_SNC)]
