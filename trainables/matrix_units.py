"""What the project's own Triton kernels share: products on matrix units, in tiles of powers of two.

Importing this needs Triton (fused.py asks first).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

SMALLEST_TILE = 16
"""Along every axis of a product on matrix units."""


@triton.jit  # type: ignore[untyped-decorator]
def dot(a, b, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """A product summed in float32; ``WIDE``: of float32 numbers, too."""
    if WIDE:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
        return tl.dot(a, b, input_precision="ieee")
    else:  # Triton wants both branches of a constant condition.
        return tl.dot(a, b)


def tile(size: int) -> int:
    """The tile that so many numbers fit into."""
    return max(SMALLEST_TILE, int(triton.next_power_of_2(size)))


def wide(numbers: Tensor) -> bool:
    """Whether products of such numbers are float32's. Triton's interpreter, which runs a kernel on a CPU, multiplies
    bits where it is given bf16."""
    return not numbers.is_cuda or numbers.dtype == torch.float32
