"""Biases and weight decay, compared with torch's encoder layer and AdamW."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.trainables.trainers import TRAINING, VOCABULARY, make_trainer
from trainables.transformer.architecture import ModelSettings, layout_of
from trainables.transformer.model import forward, initialize
from trainables.transformer.optimizer import StackState
from trainables.transformer.training_settings import Decay

WIDTH = 12
SETTINGS = {
    "one block four times": ModelSettings(block=9, bias=True),
    "two blocks, two heads, gelu": ModelSettings(
        block=9, n_layer=2, n_recurrence=2, n_head=2, activation="gelu", bias=True
    ),
    "tied": ModelSettings(block=9, n_recurrence=1, feed_forward=3, tied=True, bias=True),
    "parallel": ModelSettings(block=9, bias=True, parallel=True),
    "parallel, two blocks, no biases": ModelSettings(block=9, n_layer=2, n_recurrence=2, n_head=2, parallel=True),
}


class Oracle(nn.Module):
    """The model in terms of torch's library: pre-norm encoder layers, applied repeatedly under a causal mask."""

    def __init__(self, settings: ModelSettings, width: int) -> None:
        super().__init__()
        self.settings = settings
        self.token = nn.Embedding(VOCABULARY, width)
        self.position = nn.Embedding(settings.block, width)
        self.encoder = [
            nn.TransformerEncoderLayer(
                width,
                settings.n_head,
                settings.feed_forward * width,
                dropout=0.0,
                activation=settings.activation,
                batch_first=True,
                norm_first=True,
                bias=settings.bias,
            )
            for _ in range(settings.n_layer)
        ]
        self.layers = nn.ModuleList(self.encoder)
        self.final_norm = nn.LayerNorm(width, bias=settings.bias)
        self.head = nn.Linear(width, VOCABULARY, bias=settings.bias)
        if settings.tied:
            self.head.weight = self.token.weight

    def forward(self, tokens_BT: Tensor) -> Tensor:
        positions = tokens_BT.shape[1]
        x = self.token(tokens_BT) + self.position.weight[:positions]
        mask = nn.Transformer.generate_square_subsequent_mask(positions, dtype=x.dtype)
        for _ in range(self.settings.n_recurrence):
            for layer in self.encoder:
                x = _parallel(layer, x, mask) if self.settings.parallel else layer(x, src_mask=mask)
        logits: Tensor = self.head(self.final_norm(x))
        return logits

    def named(self) -> dict[str, Tensor]:
        """Return its parameters by their names in a stack, where matrices are transposed."""
        parameters: dict[str, Tensor] = {"token": self.token.weight, "position": self.position.weight}
        modules: dict[str, tuple[nn.Module, str]] = {"final_norm": (self.final_norm, ""), "head": (self.head, "")}
        for index, layer in enumerate(self.encoder):
            modules |= {
                f"{index}.attention_norm": (layer.norm1, ""),
                f"{index}.qkv": (layer.self_attn, "in_proj_"),
                f"{index}.attention_out": (layer.self_attn.out_proj, ""),
                f"{index}.feed_forward_norm": (layer.norm2, ""),
                f"{index}.feed_forward_in": (layer.linear1, ""),
                f"{index}.feed_forward_out": (layer.linear2, ""),
            }
        for name, (module, prefix) in modules.items():
            if not (name == "head" and self.settings.tied):
                parameters[name] = getattr(module, f"{prefix}weight")
            if self.settings.bias:
                parameters[f"{name}_bias"] = getattr(module, f"{prefix}bias")
        return parameters


def _parallel(layer: nn.TransformerEncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    """Apply torch's layer with attention and feed-forward both reading the layer's input."""
    normed = layer.norm1(x)
    mixed: Tensor = layer.self_attn(normed, normed, normed, attn_mask=mask, need_weights=False)[0]
    hidden: Tensor = layer.linear2(layer.activation(layer.linear1(layer.norm2(x))))
    return x + mixed + hidden


def way_up(name: str, tensor: Tensor) -> Tensor:
    """Return an oracle's parameter or gradient in the orientation of a stack."""
    return tensor if name in ("token", "position") or tensor.dim() == 1 else tensor.T


def random_stack(settings: ModelSettings, stack: int, width: int = WIDTH) -> Tensor:
    """Return models [S, P] with random gains, biases and weights."""
    generator = torch.Generator().manual_seed(0)
    layout = layout_of(settings, width, VOCABULARY)
    flat = torch.stack([initialize(settings, layout, generator) for _ in range(stack)])
    noise = torch.zeros_like(flat)
    for view in layout.views(noise).values():
        view.normal_(0.0, 0.3, generator=generator)
    return flat + noise


def oracle_of(settings: ModelSettings, flat_1P: Tensor, width: int = WIDTH) -> Oracle:
    """Return the oracle with the parameters of a stack of one, in their precision."""
    oracle = Oracle(settings, width).to(flat_1P.dtype)
    views = layout_of(settings, width, VOCABULARY).views(flat_1P)
    named = oracle.named()
    assert named.keys() == views.keys()
    assert {id(tensor) for tensor in named.values()} == {id(tensor) for tensor in oracle.parameters()}
    with torch.no_grad():
        for name, parameter in named.items():
            way_up(name, parameter).copy_(views[name][0])
    return oracle


@pytest.mark.parametrize("name", SETTINGS)
def test_logits_and_gradients_agree_with_torchs_encoder_layer(name: str) -> None:
    settings = SETTINGS[name]
    flat = random_stack(settings, 1).double().requires_grad_()
    tokens = torch.randint(0, VOCABULARY, (5, 9), generator=torch.Generator().manual_seed(1))
    weights = torch.randn(5, 9, VOCABULARY, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    layout = layout_of(settings, WIDTH, VOCABULARY)
    logits = forward(settings, layout.views(flat), tokens.unsqueeze(0))[0]
    oracle = oracle_of(settings, flat.detach())
    expected = oracle(tokens)
    torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-9)
    (gradient,) = torch.autograd.grad((logits * weights).sum(), flat)
    (expected * weights).sum().backward()
    views = layout.views(gradient)
    for key, parameter in oracle.named().items():
        assert parameter.grad is not None
        torch.testing.assert_close(views[key][0], way_up(key, parameter.grad), rtol=1e-8, atol=1e-8, msg=key)


@pytest.mark.parametrize("decay", ["matrices", "all"])
def test_steps_agree_with_torchs_adamw(decay: Decay) -> None:
    model = ModelSettings(block=12, n_recurrence=2, bias=True)
    training = replace(TRAINING, weight_decay=0.5, decay=decay, beta2=0.999, clip=0.5)
    flat = random_stack(model, 1, width=16)
    oracle = oracle_of(model, flat, width=16)
    matrices = [weight for weight in oracle.parameters() if weight.dim() == 2]
    others = [weight for weight in oracle.parameters() if weight.dim() < 2]
    others_decay = training.weight_decay if decay == "all" else 0.0
    groups: list[dict[str, Any]] = [{"params": matrices}, {"params": others, "weight_decay": others_decay}]
    optimizer = torch.optim.AdamW(
        groups,
        lr=training.learning_rate,
        betas=(training.beta1, training.beta2),
        weight_decay=training.weight_decay,
    )
    trainer = make_trainer([0], model=model, settings=[training], state=StackState.start(flat.clone()))
    for step in range(12):
        windows = trainer._sampler.draw(torch.tensor(step))[0][0]
        optimizer.zero_grad()
        logits = oracle(windows[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(oracle.parameters(), training.clip)
        for group in optimizer.param_groups:
            group["lr"] = float(training.learning_rates(step, step + 1)[0])
        optimizer.step()
        trainer.run(step, step + 1)
    views = layout_of(model, 16, VOCABULARY).views(trainer.state.parameters_SP)
    for name, parameter in oracle.named().items():
        ours, theirs = views[name][0], way_up(name, parameter.detach())
        if name == "0.qkv_bias":
            # A bias of the keys adds the same to all scores of a query, so its gradient is noise, which Adam amplifies.
            ours, theirs = (torch.cat((bias[:16], bias[32:])) for bias in (ours, theirs))
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, msg=name)
