"""When the project's own kernels stand in for torch's: on a GPU they were looked at for, in what they were made for."""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch
from torch import Tensor

SWITCH = "TRANSITION_SWEEPS_FUSED"
"""The environment variable that, set to 0, leaves everything to torch's kernels."""
THERE = find_spec("triton") is not None and os.environ.get(SWITCH, "1") != "0"
"""Whether the kernels may be used in this process."""
MOST_POSITIONS, MOST_DEPTH = 128, 64
"""Of a row and of a head: what a multiprocessor's registers have room for."""
MOST_NUMBERS = 1024
"""Of a token's queries, keys and values: the kernels take them to lie side by side, and the compiler may spread longer
rows in memory (its ``padding_stride_threshold``)."""
COMPUTE = 9
"""The major number of the compute capability for which the kernels need no memory beside registers and shared memory
(by the assembler's count; on 8.0 and 8.6 the gradient of the longest rows does)."""


def attends(qkv_SNK: Tensor, positions: int, n_head: int) -> bool:
    """Whether attention over these queries, keys and values is the project's own kernel's. It is made for bf16: in
    float32 its products would have no matrix units."""
    numbers = qkv_SNK.shape[-1]
    fits = positions <= MOST_POSITIONS and numbers // 3 // n_head <= MOST_DEPTH and numbers <= MOST_NUMBERS
    if not (THERE and fits and qkv_SNK.is_cuda and qkv_SNK.dtype == torch.bfloat16):
        return False
    return torch.cuda.get_device_properties(qkv_SNK.device).major == COMPUTE


if THERE:
    from trainables.attention_kernel import attend as attend
