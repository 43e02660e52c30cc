"""A trained transformer one sublayer at a time, for probes: what attention and feed-forward write, and without them.

The same mathematics as transformer.py, for one model and written to be read: what it adds to the residual stream is
handed out, and may be changed, application by application.

Shape suffixes: B rows, T positions, C n_embed, H heads, D = C/H.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from trainables.architecture import ModelSettings

Sublayer = Literal["attention", "feed_forward"]
Change = Callable[[Sublayer, int, Tensor], Tensor]
"""What is written to the stream in place of what a sublayer writes [B, T, C] in an application, counted from 0."""


def unchanged(sublayer: Sublayer, application: int, update_BTC: Tensor) -> Tensor:
    """Every sublayer writes what it writes."""
    return update_BTC


def traced(
    settings: ModelSettings, parameters: Mapping[str, Tensor], tokens_BT: Tensor, change: Change = unchanged
) -> Tensor:
    """Logits [B, T, V] of a model for token ids [B, T], T at most ``block``, with what its sublayers write changed.

    Blocks are applied ``n_layer`` x ``n_recurrence`` times, all layers in one recurrence.
    """
    p = parameters
    positions = tokens_BT.shape[1]
    x_BTC = p["token"][tokens_BT.long()] + p["position"][:positions]
    for application in range(settings.n_layer * settings.n_recurrence):
        layer = application % settings.n_layer
        x_BTC = x_BTC + change("attention", application, _attention(settings, p, layer, x_BTC))
        x_BTC = x_BTC + change("feed_forward", application, _feed_forward(settings, p, layer, x_BTC))
    head = p["token"].T if settings.tied else p["head"]
    return _linear(p, "head", _norm(p, "final_norm", x_BTC), head)


def _attention(settings: ModelSettings, p: Mapping[str, Tensor], layer: int, x_BTC: Tensor) -> Tensor:
    rows, positions, width = x_BTC.shape
    normed = _norm(p, f"{layer}.attention_norm", x_BTC)
    qkv = _linear(p, f"{layer}.qkv", normed, p[f"{layer}.qkv"]).view(rows, positions, 3, settings.n_head, -1)
    q_BHTD, k_BHTD, v_BHTD = qkv.permute(2, 0, 3, 1, 4)
    score_BHTT = q_BHTD @ k_BHTD.transpose(-1, -2) / math.sqrt(width // settings.n_head)
    future_TT = torch.ones(positions, positions, dtype=torch.bool).triu(1)
    mixed_BHTD = score_BHTT.masked_fill(future_TT, -math.inf).softmax(dim=-1) @ v_BHTD
    mixed_BTC = mixed_BHTD.transpose(1, 2).reshape(rows, positions, width)
    return _linear(p, f"{layer}.attention_out", mixed_BTC, p[f"{layer}.attention_out"])


def _feed_forward(settings: ModelSettings, p: Mapping[str, Tensor], layer: int, x_BTC: Tensor) -> Tensor:
    normed = _norm(p, f"{layer}.feed_forward_norm", x_BTC)
    hidden = _linear(p, f"{layer}.feed_forward_in", normed, p[f"{layer}.feed_forward_in"])
    hidden = functional.relu(hidden) if settings.activation == "relu" else functional.gelu(hidden)
    return _linear(p, f"{layer}.feed_forward_out", hidden, p[f"{layer}.feed_forward_out"])


def _norm(p: Mapping[str, Tensor], name: str, x_BTC: Tensor) -> Tensor:
    return functional.layer_norm(x_BTC, x_BTC.shape[-1:], p[name], p.get(f"{name}_bias"))


def _linear(p: Mapping[str, Tensor], name: str, x: Tensor, matrix: Tensor) -> Tensor:
    bias = p.get(f"{name}_bias")
    return x @ matrix if bias is None else x @ matrix + bias
