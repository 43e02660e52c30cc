"""Padding widths for the GPU changes no number: neither logits nor gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from trainables.architecture import ModelSettings, layout
from trainables.padding import pad_parameters
from trainables.stack import stack_losses
from trainables.transformer import _embed, _embed_by_product, forward, initialise

VOCABULARY = 13
MODELS = {
    "the paper's": (ModelSettings(block=9), 5),
    "two heads": (ModelSettings(block=9, n_head=2), 10),
    "two blocks, tied, gelu": (ModelSettings(n_layer=2, n_recurrence=1, tied=True, activation="gelu", block=9), 7),
    "odd feed-forward": (ModelSettings(n_recurrence=2, feed_forward=3, block=9), 8),
    "biases": (ModelSettings(block=9, bias=True), 5),
    "biases, two heads": (ModelSettings(block=9, n_head=2, bias=True), 10),
    "biases, two blocks, tied, gelu": (
        ModelSettings(n_layer=2, n_recurrence=1, tied=True, activation="gelu", block=9, bias=True),
        7,
    ),
}


def models(settings: ModelSettings, n_embed: int) -> dict[str, Tensor]:
    """A stack of two in float64, with gains that are not all 1 and biases that are not 0."""
    where = layout(settings, n_embed, VOCABULARY)
    generator = torch.Generator().manual_seed(0)
    flat = torch.stack([initialise(settings, where, generator) for _ in range(2)]).double() * 10
    flat += 0.1 * torch.randn(flat.shape, generator=generator)
    return {name: view.detach().requires_grad_() for name, view in where.views(flat).items()}


def windows() -> Tensor:
    return torch.randint(0, VOCABULARY, (2, 3, 10), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", MODELS)
def test_padded_models_compute_the_same_logits(name: str) -> None:
    settings, n_embed = MODELS[name]
    parameters = models(settings, n_embed)
    padded = pad_parameters(settings, parameters, 16)
    assert padded["token"].shape[-1] == 16
    tokens = windows()[..., :-1]
    torch.testing.assert_close(
        forward(settings, padded, tokens), forward(settings, parameters, tokens), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("name", MODELS)
def test_padded_models_have_the_same_gradients(name: str) -> None:
    settings, n_embed = MODELS[name]
    parameters = models(settings, n_embed)
    counted = torch.ones(2, 3, 9, dtype=torch.bool)
    plain, padded = (
        torch.autograd.grad(
            stack_losses(settings, parameters, windows(), counted, pad_to).sum(), list(parameters.values())
        )
        for pad_to in (1, 16)
    )
    for key, one, other in zip(parameters, plain, padded, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-9, msg=f"the gradient of {key} differs")


def test_looking_up_by_a_product_is_looking_up() -> None:
    table = torch.randn(2, VOCABULARY, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    tokens = torch.randint(0, VOCABULARY, (2, 40), generator=torch.Generator().manual_seed(1))
    plain, product = _embed(table, tokens), _embed_by_product(table, tokens)
    assert torch.equal(plain, product)
    (one,), (other,) = (torch.autograd.grad(result.square().sum(), table) for result in (plain, product))
    torch.testing.assert_close(one, other)


def test_widths_that_fit_are_left_alone() -> None:
    settings = ModelSettings(block=9, feed_forward=2)
    where = layout(settings, 16, 24)
    views = where.views(torch.zeros(1, where.width))
    assert pad_parameters(settings, views, 8) is views
