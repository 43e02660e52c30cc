"""The project's own kernels stand in for torch's where they were made for, and compute the same there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tests.trainables.attention import SHAPES, by_kernel, exact, farthest, sample
from tests.trainables.feed_forward import FEEDS, by_own_kernel, numbers, plainly
from trainables import fused
from trainables.errors import SettingsError

NEAR = 1.5 * 2**-7
"""Three roundings to 8 bits, relative to the largest result: of the weights, the scores' gradient and the result."""


@pytest.mark.parametrize(
    ("positions", "depth", "n_head", "dtype", "major", "switch", "taken"),
    [
        (128, 64, 1, torch.bfloat16, 9, "1", True),
        (100, 24, 3, torch.bfloat16, 9, "1", True),
        (129, 64, 1, torch.bfloat16, 9, "1", False),
        (128, 72, 1, torch.bfloat16, 9, "1", False),
        (128, 64, 6, torch.bfloat16, 9, "1", False),
        (128, 64, 1, torch.float32, 9, "1", False),
        (128, 64, 1, torch.bfloat16, 8, "1", False),
        (128, 64, 1, torch.bfloat16, 9, "0", False),
        (128, 64, 1, torch.bfloat16, 9, "attention", True),
        (128, 64, 1, torch.bfloat16, 9, "feed_forward", False),
    ],
)
def test_kernels_are_taken_for_what_they_were_made_for(
    monkeypatch: pytest.MonkeyPatch,
    positions: int,
    depth: int,
    n_head: int,
    dtype: torch.dtype,
    major: int,
    switch: str,
    taken: bool,
) -> None:
    monkeypatch.setattr(fused, "USED", fused.asked(switch))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(major=major))
    qkv_SNK, _ = sample(positions, depth, n_head, dtype)
    assert not fused.attends(qkv_SNK, positions, n_head)  # On a CPU.
    on_gpu = SimpleNamespace(shape=qkv_SNK.shape, dtype=dtype, is_cuda=True, device="cuda")
    assert fused.attends(on_gpu, positions, n_head) is taken  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("width", "hidden", "activation", "dtype", "major", "switch", "taken"),
    [
        (64, 256, "relu", torch.bfloat16, 9, "1", True),
        (128, 512, "relu", torch.bfloat16, 9, "attention,feed_forward", True),
        (40, 160, "relu", torch.bfloat16, 9, "feed_forward", True),
        (136, 544, "relu", torch.bfloat16, 9, "1", False),
        (128, 1032, "relu", torch.bfloat16, 9, "1", False),
        (64, 256, "gelu", torch.bfloat16, 9, "1", False),
        (64, 256, "relu", torch.float32, 9, "1", False),
        (64, 256, "relu", torch.bfloat16, 8, "1", False),
        (64, 256, "relu", torch.bfloat16, 9, "attention", False),
        (64, 256, "relu", torch.bfloat16, 9, "0", False),
    ],
)
def test_feed_forwards_are_taken_that_the_kernel_was_made_for(
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    hidden: int,
    activation: str,
    dtype: torch.dtype,
    major: int,
    switch: str,
    taken: bool,
) -> None:
    monkeypatch.setattr(fused, "USED", fused.asked(switch))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(major=major))
    assert not fused.feeds(torch.zeros(1, 1, width, dtype=dtype), hidden, activation)  # On a CPU.
    on_gpu = SimpleNamespace(shape=(1, 1, width), dtype=dtype, is_cuda=True, device="cuda")
    assert fused.feeds(on_gpu, hidden, activation) is taken  # type: ignore[arg-type]


def test_a_switch_that_names_no_kernel_is_refused() -> None:
    with pytest.raises(SettingsError, match="TRANSITION_SWEEPS_FUSED is 'attentoin'; it is 0, 1, or of attention, "):
        fused.asked("attentoin")


@pytest.mark.gpu
@pytest.mark.parametrize(("tokens", "width", "hidden", "bias"), FEEDS)
def test_on_a_gpu_a_feed_forward_is_the_plain_paths(tokens: int, width: int, hidden: int, bias: bool) -> None:
    given = numbers(tokens, width, hidden, bias, torch.bfloat16)
    on_gpu = [None if each is None else each.cuda() for each in given]
    for found, right in zip(by_own_kernel(on_gpu), plainly(given), strict=True):
        assert farthest(found, right) <= NEAR


@pytest.mark.gpu
@pytest.mark.parametrize(("positions", "depth", "n_head"), SHAPES)
def test_on_a_gpu_attention_is_the_plain_paths(positions: int, depth: int, n_head: int) -> None:
    qkv_SNK, upstream_SNC = sample(positions, depth, n_head, torch.bfloat16)
    expected = exact(qkv_SNK, upstream_SNC, n_head)
    for found, right in zip(by_kernel(qkv_SNK.cuda(), upstream_SNC.cuda(), n_head), expected, strict=True):
        assert farthest(found, right) <= NEAR
