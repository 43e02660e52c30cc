"""The model: parameter counts, stacking, causality, and the effect of each setting."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from trainables.transformer import model
from trainables.transformer.architecture import ModelSettings, count_parameters, layout_of, parameter_shapes
from trainables.transformer.model import forward, initialize

VOCABULARY = 18


def models(settings: ModelSettings, n_embed: int, stack: int) -> Tensor:
    layout = layout_of(settings, n_embed, VOCABULARY)
    return torch.stack([initialize(settings, layout, torch.Generator().manual_seed(seed)) for seed in range(stack)])


def logits(settings: ModelSettings, n_embed: int, flat_SP: Tensor, tokens: Tensor) -> Tensor:
    return forward(settings, layout_of(settings, n_embed, VOCABULARY).views(flat_SP), tokens)


MODELS = st.builds(
    ModelSettings,
    n_layer=st.integers(1, 3),
    feed_forward=st.integers(1, 5),
    tied=st.booleans(),
    bias=st.booleans(),
    block=st.integers(1, 200),
)


@given(MODELS, st.integers(1, 70))
def test_the_closed_form_counts_every_parameter(settings: ModelSettings, n_embed: int) -> None:
    shapes = parameter_shapes(settings, n_embed, VOCABULARY)
    sizes = {name: torch.Size(shape).numel() for name, shape in shapes.items()}
    outside = {"token", "position", "head", "head_bias"}
    counted = count_parameters(settings, n_embed, VOCABULARY)
    assert counted.total == sum(sizes.values())
    assert counted.core == sum(size for name, size in sizes.items() if name not in outside)


@pytest.mark.parametrize("n_head", [1, 2])
def test_attention_by_products_agrees_with_torchs_kernel(n_head: int, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ModelSettings(n_head=n_head, block=9)
    tokens = torch.randint(0, VOCABULARY, (2, 5, 9), generator=torch.Generator().manual_seed(0))
    results = []
    for short in (9, 8):
        monkeypatch.setattr(model, "SHORT_ROW", short)
        flat = (models(settings, 12, 2).double() * 10).requires_grad_()
        logits_SBTV = logits(settings, 12, flat, tokens)
        results.append((logits_SBTV, *torch.autograd.grad(logits_SBTV.square().sum(), flat)))
    for by_products, torchs in zip(*results, strict=True):
        torch.testing.assert_close(by_products, torchs)


@pytest.mark.parametrize("most_rows", [1, 4, 5])
def test_attention_in_parts_gives_the_same_bits(most_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    qkv_SNK = torch.randn(2, 7 * 40, 3 * 8, generator=generator, requires_grad=True)
    weight = torch.randn(2, 7 * 40, 8, generator=generator)

    def attend() -> tuple[torch.Tensor, torch.Tensor]:
        mixed = model.attention(qkv_SNK, 7, 2, 0.5)
        return mixed, torch.autograd.grad((mixed * weight).sum(), qkv_SNK)[0]

    whole = attend()
    monkeypatch.setattr(model, "MOST_ROWS", most_rows)
    for expected, halved in zip(whole, attend(), strict=True):
        assert torch.equal(expected, halved)
