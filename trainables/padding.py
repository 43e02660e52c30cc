"""Widths that matrix units like: parameters padded with zeros, exactly.

Tensor cores read rows of 16 bytes; a model of width 37 would leave them for a path several times slower. Padded with
zero columns it is the same model: what is zero stays zero on the way forward and gets a zero gradient on the way
back, and the layer norm is taken over the true width (transformer.py). Parameters are kept and updated unpadded;
padding is a part of each forward pass.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor
from torch.nn import functional

from trainables.architecture import ModelSettings


def pad_parameters(settings: ModelSettings, parameters: Mapping[str, Tensor], multiple: int) -> Mapping[str, Tensor]:
    """The same stack of models with every inner width, and the head's vocabulary, a multiple of ``multiple``.

    Heads are padded one by one. Norm gains and their biases keep the true width, which is how the forward pass knows
    it.
    """
    stack, vocabulary, width = parameters["token"].shape
    depth, hidden = width // settings.n_head, settings.feed_forward * width
    if not any(missing(size, multiple) for size in (width, depth, hidden, vocabulary)):
        return parameters
    columns, rows = (0, missing(width, multiple)), (0, 0, 0, missing(width, multiple))
    within_head, within_hidden = missing(depth, multiple), missing(hidden, multiple)
    padded = dict(parameters)
    padded["token"] = functional.pad(parameters["token"], columns)
    padded["position"] = functional.pad(parameters["position"], columns)
    for layer in range(settings.n_layer):
        qkv = parameters[f"{layer}.qkv"].view(stack, width, 3 * settings.n_head, depth)
        padded[f"{layer}.qkv"] = functional.pad(functional.pad(qkv, (0, within_head)).flatten(2), rows)
        out = parameters[f"{layer}.attention_out"].view(stack, settings.n_head, depth, width)
        padded[f"{layer}.attention_out"] = functional.pad(
            functional.pad(out, (0, 0, 0, within_head)).flatten(1, 2), columns
        )
        padded[f"{layer}.feed_forward_in"] = functional.pad(
            parameters[f"{layer}.feed_forward_in"], (0, within_hidden, *rows[2:])
        )
        padded[f"{layer}.feed_forward_out"] = functional.pad(
            parameters[f"{layer}.feed_forward_out"], (*columns, 0, within_hidden)
        )
    if settings.bias:
        padded |= _padded_biases(settings, parameters, multiple)
    if not settings.tied:
        padded["head"] = functional.pad(parameters["head"], (0, missing(vocabulary, multiple), *rows[2:]))
    return padded


def _padded_biases(settings: ModelSettings, parameters: Mapping[str, Tensor], multiple: int) -> dict[str, Tensor]:
    """The biases of the linear maps, as wide as the padded maps are."""
    stack, vocabulary, width = parameters["token"].shape
    depth = width // settings.n_head
    padded = {}
    for layer in range(settings.n_layer):
        qkv = parameters[f"{layer}.qkv_bias"].view(stack, 3 * settings.n_head, depth)
        padded[f"{layer}.qkv_bias"] = functional.pad(qkv, (0, missing(depth, multiple))).flatten(1)
        for name in (f"{layer}.attention_out_bias", f"{layer}.feed_forward_in_bias", f"{layer}.feed_forward_out_bias"):
            bias = parameters[name]
            padded[name] = functional.pad(bias, (0, missing(bias.shape[1], multiple)))
    # A head that is the padded token embedding has its true vocabulary still.
    beyond = 0 if settings.tied else missing(vocabulary, multiple)
    padded["head_bias"] = functional.pad(parameters["head_bias"], (0, beyond))
    return padded


def missing(size: int, multiple: int) -> int:
    """What ``size`` lacks to the next multiple."""
    return -size % multiple
