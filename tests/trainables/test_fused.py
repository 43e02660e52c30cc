"""The project's own kernels stand in for torch's where they were made for, and compute the same there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tests.trainables.attention import SHAPES, by_kernel, exact, farthest, sample
from trainables import fused

NEAR = 1.5 * 2**-7
"""Three roundings to 8 bits, relative to the largest result: of the weights, the scores' gradient and the result."""


@pytest.mark.parametrize(
    ("positions", "depth", "n_head", "dtype", "major", "there", "taken"),
    [
        (128, 64, 1, torch.bfloat16, 9, True, True),
        (100, 24, 3, torch.bfloat16, 9, True, True),
        (129, 64, 1, torch.bfloat16, 9, True, False),
        (128, 72, 1, torch.bfloat16, 9, True, False),
        (128, 64, 6, torch.bfloat16, 9, True, False),
        (128, 64, 1, torch.float32, 9, True, False),
        (128, 64, 1, torch.bfloat16, 8, True, False),
        (128, 64, 1, torch.bfloat16, 9, False, False),
    ],
)
def test_kernels_are_taken_for_what_they_were_made_for(
    monkeypatch: pytest.MonkeyPatch,
    positions: int,
    depth: int,
    n_head: int,
    dtype: torch.dtype,
    major: int,
    there: bool,
    taken: bool,
) -> None:
    monkeypatch.setattr(fused, "THERE", there)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(major=major))
    qkv_SNK, _ = sample(positions, depth, n_head, dtype)
    assert not fused.attends(qkv_SNK, positions, n_head)  # On a CPU.
    on_gpu = SimpleNamespace(shape=qkv_SNK.shape, dtype=dtype, is_cuda=True, device="cuda")
    assert fused.attends(on_gpu, positions, n_head) is taken  # type: ignore[arg-type]


@pytest.mark.gpu
@pytest.mark.parametrize(("positions", "depth", "n_head"), SHAPES)
def test_on_a_gpu_attention_is_the_plain_paths(positions: int, depth: int, n_head: int) -> None:
    qkv_SNK, upstream_SNC = sample(positions, depth, n_head, torch.bfloat16)
    expected = exact(qkv_SNK, upstream_SNC, n_head)
    for found, right in zip(by_kernel(qkv_SNK.cuda(), upstream_SNC.cuda(), n_head), expected, strict=True):
        assert farthest(found, right) <= NEAR
