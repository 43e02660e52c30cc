"""Model settings, the layout of parameters, and counts of parameters and operations.

Plans and reports use this module without loading torch; the model is in model.py.

Shape suffixes: S stack, P parameters of one model (padded).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from trainables.base import Parameters
from trainables.contract.arms import ALL
from trainables.contract.settings import ADDED_LATER, described_fields, require
from trainables.transformer.initialization import EMBEDDINGS, HEAD, InitSettings

if TYPE_CHECKING:
    from torch import Tensor

ALIGNMENT = 16
"""Multiple of elements at which each parameter starts: 64 bytes in float32, enough for vector units and libraries."""
LARGEST_VALUES = {"n_layer": 1_024, "n_recurrence": 1_024, "n_head": 4_096, "feed_forward": 1_024, "block": 65_536}
"""Upper limits of settings. They only catch typing errors."""
GAIN = "norm"
"""Ending of the names of norm gains."""
BIAS = "bias"
"""Ending of the names of biases."""
MODEL_PARTS = ("embedding", "positions", "blocks", "head")
"""Parts of a model that a phase may take over or freeze. The last norm belongs to the blocks."""
_PART_OF = {"token": "embedding", "position": "positions", HEAD: "head", f"{HEAD}_{BIAS}": "head"}


@dataclass(frozen=True)
class ModelSettings:
    """The architecture without its width."""

    n_layer: int = 1
    """Number of blocks."""
    n_recurrence: int = 4
    """Number of times that all blocks are applied, one after the other, with the same weights."""
    n_head: int = 1
    """Number of attention heads; n_embed must be a multiple of it."""
    feed_forward: int = 4
    """Feed-forward width as a multiple of n_embed."""
    activation: Literal["relu", "gelu"] = "relu"
    """Activation of the feed-forward layers."""
    tied: bool = False
    """Also use the token embedding as the output head."""
    block: int = 128
    """Longest sequence, in tokens."""
    bias: bool = field(default=False, metadata=ADDED_LATER)
    """Add biases to all linear maps, including the head, and to layer norms; they start at 0."""
    init: InitSettings = field(default_factory=InitSettings)
    parallel: bool = field(default=False, metadata=ADDED_LATER)
    """Let a block's attention and feed-forward read the same stream: x + attention(norm x) + feed_forward(norm x),
    each with its own norm. Otherwise the feed-forward reads the stream after attention. The baseline of
    github.com/bhoov/nrgpt is parallel."""

    def __post_init__(self) -> None:
        for name, most in LARGEST_VALUES.items():
            given = getattr(self, name)
            require(1 <= given <= most, f"model.{name}", given, f"at least 1 and at most {most}")

    @property
    def additions(self) -> int:
        """Number of additions to the residual stream: two per application of a block."""
        return 2 * self.n_layer * self.n_recurrence

    def stackable(self) -> dict[str, Any]:
        """Return the plain values that runs of one stack share. Initial weights may differ."""
        return described_fields(self) | {"init": False}

    def described(self) -> dict[str, Any]:
        """Return everything that changes the mathematics, for run keys. A normal ``init`` has its old name
        ``init_std``."""
        described = described_fields(self)
        init = described.pop("init")
        return described | ({"init_std": init["std"]} if self.init.kind == "normal" else {"init": init})


@dataclass(frozen=True)
class Layout:
    """Offsets and shapes of one model's parameters in its flat vector of ``width`` elements."""

    shapes: Mapping[str, tuple[int, ...]]
    offsets: Mapping[str, int]
    width: int

    def views(self, flat_SP: Tensor) -> dict[str, Tensor]:
        """Return the parameters as views [S, *shape] of ``flat_SP`` [S, P]."""
        stack = flat_SP.shape[0]
        return {
            name: flat_SP[:, offset : offset + math.prod(self.shapes[name])].view(stack, *self.shapes[name])
            for name, offset in self.offsets.items()
        }


def parameter_shapes(settings: ModelSettings, n_embed: int, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every parameter of one model, in the order of its flat vector.

    Weights are [in, out]. The bias of ``x`` follows it and is called ``x_bias``. A tied head has only a bias.
    """
    width = n_embed
    hidden = settings.feed_forward * n_embed
    shapes: dict[str, tuple[int, ...]] = {"token": (vocabulary, width), "position": (settings.block, width)}
    for layer in range(settings.n_layer):
        shapes |= {
            f"{layer}.attention_norm": (width,),
            f"{layer}.qkv": (width, 3 * width),
            f"{layer}.attention_out": (width, width),
            f"{layer}.feed_forward_norm": (width,),
            f"{layer}.feed_forward_in": (width, hidden),
            f"{layer}.feed_forward_out": (hidden, width),
        }
    shapes["final_norm"] = (width,)
    if not settings.tied:
        shapes["head"] = (width, vocabulary)
    if not settings.bias:
        return shapes
    biased: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        biased[name] = shape
        if name not in EMBEDDINGS:
            biased[f"{name}_{BIAS}"] = shape[-1:]
    return biased | {f"{HEAD}_{BIAS}": (vocabulary,)}


def named(names: Iterable[str], parts: Collection[str]) -> list[str]:
    """Return the names of the parameters in these parts (:data:`MODEL_PARTS`, or all)."""
    return [name for name in names if ALL in parts or _PART_OF.get(name, "blocks") in parts]


def layout_of(settings: ModelSettings, n_embed: int, vocabulary: int) -> Layout:
    """Return the layout of the parameters of a model of this width."""
    shapes = parameter_shapes(settings, n_embed, vocabulary)
    offsets = {}
    end = 0
    for name, shape in shapes.items():
        offsets[name] = end
        end += -(-math.prod(shape) // ALIGNMENT) * ALIGNMENT
    return Layout(shapes, offsets, end)


def count_parameters(settings: ModelSettings, n_embed: float, vocabulary: int) -> Parameters:
    """Count the trainable parameters of one model in closed form. ``n_embed`` may be fractional.

    A block has 3C^2 (query, key, value) + C^2 (output) + 2fC^2 (feed-forward) + 2C (norm gains). It has a bias for each
    column of these matrices, (4 + f + 1)C, and for each gain. The head's biases are not part of the core.
    """
    c = n_embed
    core = settings.n_layer * ((4 + 2 * settings.feed_forward) * c**2 + 2 * c) + c
    outside = c * (vocabulary + settings.block) + (0 if settings.tied else c * vocabulary)
    if settings.bias:
        core += settings.n_layer * (5 + settings.feed_forward + 2) * c + c
        outside += vocabulary
    return Parameters(total=core + outside, core=core)


def flops_per_token(settings: ModelSettings, n_embed: int, vocabulary: int) -> float:
    """Return the floating-point operations of one training step per token.

    A weight counts as 2 operations forward and 4 backward; attention adds half of its two T x T products, which are
    causal. Norms and biases are not counted.
    """
    c = n_embed
    t = settings.block
    weights = (4 + 2 * settings.feed_forward) * c**2 + t * c
    return 6.0 * (settings.n_layer * settings.n_recurrence * weights + c * vocabulary)


def training_bytes(settings: ModelSettings, n_embed: int, vocabulary: int, batch: int, item: int) -> float:
    """Estimate the peak memory of one run's training in bytes. ``item`` is the size of a number in the products.

    There are seven float32 copies of the parameters: weights, two moments, the gradient in pieces and as one, and two
    temporary copies. There are four copies of the logits. For its gradient, a block keeps per token 2C of sums, 2C of
    norms, 3C of qkv, 2C of attention and 8C around the activation. Temporary values add a fifth.
    """
    tokens = batch * settings.block
    blocks = settings.n_layer * settings.n_recurrence
    kept = tokens * blocks * (9 + 2 * settings.feed_forward) * n_embed * item
    logits = 4 * 4 * tokens * vocabulary
    return 7 * 4 * count_parameters(settings, n_embed, vocabulary).total + 1.2 * kept + logits
