"""The project's Triton kernels against the plain path, in Triton's own interpreter, which runs them on a CPU.

``TRITON_INTERPRET=1`` must be there before Triton is imported: ``make emulate`` runs these by themselves.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
import torch

from tests.trainables.attention import SHAPES, by_kernel, exact, farthest, sample
from tests.trainables.feed_forward import FEEDS, by_own_kernel, numbers, plainly

pytestmark = [pytest.mark.emulated, pytest.mark.timeout(300)]

if find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs Triton and TRITON_INTERPRET=1: make emulate", allow_module_level=True)

NEAR = {torch.float32: 2e-6, torch.bfloat16: 3 * 2**-7}
"""How far results may lie apart, relative to the largest of them. float32: sums in another order. bf16: what lies
between two products, its gradient and the result are each cut to 8 bits, which the interpreter does without rounding;
a GPU rounds, and errs by half as much."""


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize(("positions", "depth", "n_head"), SHAPES)
def test_attention_and_its_gradient_are_the_plain_paths(
    positions: int, depth: int, n_head: int, dtype: torch.dtype
) -> None:
    given = sample(positions, depth, n_head, dtype)
    for found, right in zip(by_kernel(*given, n_head), exact(*given, n_head), strict=True):
        assert found.dtype == dtype
        assert farthest(found, right) <= NEAR[dtype]


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize(("tokens", "width", "hidden", "bias"), FEEDS)
def test_a_feed_forward_and_its_gradients_are_the_plain_paths(
    tokens: int, width: int, hidden: int, bias: bool, dtype: torch.dtype
) -> None:
    given = numbers(tokens, width, hidden, bias, dtype)
    for found, right in zip(by_own_kernel(given), plainly(given), strict=True):
        assert found.dtype == dtype
        assert farthest(found, right) <= NEAR[dtype]
