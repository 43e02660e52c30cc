"""The model: parameter counts, stacking, causality, and the effect of each setting."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainables.transformer import model
from trainables.transformer.architecture import ModelSettings, count_parameters, layout, parameter_shapes
from trainables.transformer.initialization import InitSettings
from trainables.transformer.model import forward, initialize

VOCABULARY = 18


def models(settings: ModelSettings, n_embed: int, stack: int) -> Tensor:
    where = layout(settings, n_embed, VOCABULARY)
    return torch.stack([initialize(settings, where, torch.Generator().manual_seed(seed)) for seed in range(stack)])


def logits(settings: ModelSettings, n_embed: int, flat_SP: Tensor, tokens: Tensor) -> Tensor:
    return forward(settings, layout(settings, n_embed, VOCABULARY).views(flat_SP), tokens)


@settings(max_examples=40)
@given(
    n_layer=st.integers(1, 3),
    feed_forward=st.integers(1, 5),
    tied=st.booleans(),
    bias=st.booleans(),
    block=st.integers(1, 200),
    n_embed=st.integers(1, 70),
)
def test_the_closed_form_counts_every_parameter(
    n_layer: int, feed_forward: int, tied: bool, bias: bool, block: int, n_embed: int
) -> None:
    settings = ModelSettings(n_layer=n_layer, feed_forward=feed_forward, tied=tied, bias=bias, block=block)
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


def test_the_gain_of_a_norm_scales_its_output() -> None:
    settings, tokens = ModelSettings(block=9), torch.arange(9).expand(1, 3, 9)
    flat = models(settings, 12, 1) * 10
    views = layout(settings, 12, VOCABULARY).views(flat)
    before = logits(settings, 12, flat, tokens)
    views["final_norm"].mul_(2)
    torch.testing.assert_close(logits(settings, 12, flat, tokens), 2 * before)
    views["final_norm"].mul_(0.5)
    views["0.qkv"].mul_(torch.arange(1.0, 13).unsqueeze(1))
    scaled = logits(settings, 12, flat, tokens)
    views["0.qkv"].div_(torch.arange(1.0, 13).unsqueeze(1))
    views["0.attention_norm"].mul_(torch.arange(1.0, 13))
    torch.testing.assert_close(logits(settings, 12, flat, tokens), scaled)


def test_no_token_sees_the_future() -> None:
    settings = ModelSettings(block=9)
    flat = models(settings, 12, 1) * 10
    tokens = torch.randint(0, VOCABULARY, (1, 2, 9), generator=torch.Generator().manual_seed(1))
    changed = tokens.clone()
    changed[..., 5] = (tokens[..., 5] + 1) % VOCABULARY
    before, after = (logits(settings, 12, flat, text) for text in (tokens, changed))
    torch.testing.assert_close(before[:, :, :5], after[:, :, :5], rtol=0, atol=1e-6)
    assert not torch.allclose(before[:, :, 5:], after[:, :, 5:])


def test_recurrence_and_heads_change_the_output_but_not_the_parameters() -> None:
    tokens = torch.arange(9).view(1, 1, 9)
    flat = models(ModelSettings(block=9), 12, 1) * 10
    base = logits(ModelSettings(block=9), 12, flat, tokens)
    for other in (ModelSettings(block=9, n_recurrence=3), ModelSettings(block=9, n_head=2)):
        assert layout(other, 12, VOCABULARY) == layout(ModelSettings(block=9), 12, VOCABULARY)
        assert not torch.allclose(base, logits(other, 12, flat, tokens))


def test_initialization_has_the_given_spread_and_unit_gains() -> None:
    settings = ModelSettings(block=64, init=InitSettings(std=0.05))
    where = layout(settings, 64, VOCABULARY)
    views = where.views(initialize(settings, where, torch.Generator().manual_seed(3)).unsqueeze(0))
    assert views["0.feed_forward_in"].std().item() == pytest.approx(0.05, rel=0.03)
    assert bool((views["final_norm"] == 1).all())


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
