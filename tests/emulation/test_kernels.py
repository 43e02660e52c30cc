"""The project's Triton kernels against the plain path, in Triton's own interpreter, which runs them on a CPU.

``TRITON_INTERPRET=1`` must be there before Triton is imported: ``make emulate`` runs these by themselves.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from trainables.transformer import _attention

pytestmark = [pytest.mark.emulated, pytest.mark.timeout(300)]

if find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs Triton and TRITON_INTERPRET=1: make emulate", allow_module_level=True)

SHAPES = [(12, 16, 1), (128, 64, 1), (128, 40, 1), (37, 40, 1), (1, 8, 1), (100, 24, 3), (17, 5, 2), (60, 64, 2)]
"""Positions, width and heads: whole tiles, odd lengths, widths padded or not, several heads."""
NEAR = {torch.float32: 2e-6, torch.bfloat16: 3 * 2**-7}
"""How far results may lie apart, relative to the largest of them. float32: sums in another order. bf16: the weights,
the scores' gradient and the result are each cut to 8 bits, which the interpreter does without rounding; a GPU rounds,
and errs by half as much."""


def sample(positions: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, int]:
    """Queries, keys and values of two models on three rows, a gradient of what attention makes of them, the rows."""
    generator = torch.Generator().manual_seed(positions * 1000 + width)
    qkv_SNK = torch.randn(2, 3 * positions, 3 * width, generator=generator).to(dtype)
    upstream_SNC = torch.randn(2, 3 * positions, width, generator=generator).to(dtype)
    return qkv_SNK, upstream_SNC, 3


def exact(qkv_SNK: Tensor, upstream_SNC: Tensor, rows: int, n_head: int, scale: float) -> tuple[Tensor, Tensor]:
    """What the plain path makes of the same numbers in float64, forward and backward."""
    leaf_SNK = qkv_SNK.double().requires_grad_()
    mixed_SNC = _attention(leaf_SNK, rows, n_head, scale)
    [gradient_SNK] = torch.autograd.grad(mixed_SNC, leaf_SNK, upstream_SNC.double())
    return mixed_SNC.detach(), gradient_SNK


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize(("positions", "width", "n_head"), SHAPES)
def test_attention_and_its_gradient_are_the_plain_paths(
    positions: int, width: int, n_head: int, dtype: torch.dtype
) -> None:
    width *= n_head
    qkv_SNK, upstream_SNC, rows = sample(positions, width, dtype)
    scale = (width // n_head) ** -0.5
    expected = exact(qkv_SNK, upstream_SNC, rows, n_head, scale)
    from trainables.attention_kernel import attend  # Where Triton is.

    leaf_SNK = qkv_SNK.clone().requires_grad_()
    mixed_SNC = attend(leaf_SNK, rows, n_head, scale)
    [gradient_SNK] = torch.autograd.grad(mixed_SNC, leaf_SNK, upstream_SNC)
    for found, right in zip((mixed_SNC.detach(), gradient_SNK), expected, strict=True):
        assert found.dtype == dtype
        assert float((found.double() - right).abs().max()) <= NEAR[dtype] * float(right.abs().max())
