"""When the project's own kernels stand in for torch's: on a GPU they were looked at for, in what they were made for."""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch
from torch import Tensor

from trainables.errors import SettingsError

ATTENTION, FEED_FORWARD = "attention", "feed_forward"
SWITCH = "TRANSITION_SWEEPS_FUSED"
"""The environment variable that says which of them may be used: 1 (all, as where it is not set), 0 (none: everything is
left to torch's kernels), or their names with commas between."""


def asked(text: str) -> frozenset[str]:
    """The kernels that a value of :data:`SWITCH` stands for. Raises :class:`SettingsError`."""
    every = frozenset({ATTENTION, FEED_FORWARD})
    if text in ("0", "1"):
        return every if text == "1" else frozenset()
    names = frozenset(part.strip() for part in text.split(","))
    if not names <= every:
        raise SettingsError(f"{SWITCH} is {text!r}; it is 0, 1, or of {', '.join(sorted(every))} with commas between")
    return names


USED = asked(os.environ.get(SWITCH, "1")) if find_spec("triton") is not None else frozenset()
"""The kernels that may be used in this process."""
MOST_POSITIONS, MOST_DEPTH = 128, 64
"""Of a row and of a head that attend: what a multiprocessor's registers have room for."""
MOST_WIDTH = 128
"""Of a model whose feed-forward is taken, for the same reason."""
MOST_NUMBERS = 1024
"""Of a token's queries, keys and values, and of its hidden numbers: the kernels take a row, or one of the weights that
make it, to lie side by side, and the compiler may spread longer ones in memory (its ``padding_stride_threshold``)."""
COMPUTE = 9
"""The major number of the compute capability for which the kernels need no memory beside registers and shared memory
(by the assembler's count; on 8.0 and 8.6 the gradient of the longest rows does)."""


def attends(qkv_SNK: Tensor, positions: int, n_head: int) -> bool:
    """Whether attention over these queries, keys and values is the project's own kernel's. It is made for bf16: in
    float32 its products would have no matrix units."""
    numbers = qkv_SNK.shape[-1]
    fits = positions <= MOST_POSITIONS and numbers // 3 // n_head <= MOST_DEPTH and numbers <= MOST_NUMBERS
    return ATTENTION in USED and fits and _made_for(qkv_SNK)


def feeds(x_SNC: Tensor, hidden: int, activation: str) -> bool:
    """Whether a feed-forward on these numbers, so wide between its products, is the project's own kernel's."""
    fits = activation == "relu" and x_SNC.shape[-1] <= MOST_WIDTH and hidden <= MOST_NUMBERS
    return FEED_FORWARD in USED and fits and _made_for(x_SNC)


def _made_for(numbers: Tensor) -> bool:
    if not (numbers.is_cuda and numbers.dtype == torch.bfloat16):
        return False
    return torch.cuda.get_device_properties(numbers.device).major == COMPUTE


if ATTENTION in USED:
    from trainables.attention_kernel import attend as attend
if FEED_FORWARD in USED:
    from trainables.feed_forward_kernel import feed_forward as feed_forward
