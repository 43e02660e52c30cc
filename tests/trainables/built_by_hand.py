"""Transformers whose weights are written down, so that what they compute is known: functions of sums of features.

Attention looks at all tokens alike and adds the features of the arguments up; the feed-forward applies units to the
sums; the head reads the answer off. A large constant in every embedding makes the layer norms nearly linear: what they
divide by hardly depends on the features.

Every feature, the constant and every answer have two columns of the stream, one the negative of the other: the mean,
which the norms take off, is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.architecture import parameter_shapes
from trainables.arms import Mix
from trainables.base import RunConfig
from trainables.corpus import Dataset, Examples
from trainables.transformer_family import TransformerFamily, TransformerSettings

Floats = NDArray[np.float64]
CONSTANT = 100.0
TOKENS = 6
"""Those of ``add ( a b ) =``."""


@dataclass(frozen=True)
class Units:
    """U units of the feed-forward, relu(slopes . sums of features + offsets), slopes [U, F] and offsets [U], and what
    each says for each of A answers, [U, A]."""

    slopes: Floats
    offsets: Floats
    says: Floats


def one_application(settings: TransformerSettings) -> TransformerSettings:
    """These settings with two arguments, and a block that is applied once."""
    task = replace(settings.task, max_arguments=2, depth=1, nesting=0.0, held_out_fraction=0.4)
    return replace(settings, task=task, model=replace(settings.model, n_layer=1, n_recurrence=1))


def width_of(features: Floats, units: Units) -> int:
    """Columns of the stream: C."""
    return 2 * (features.shape[1] + 1 + units.says.shape[1])


def weights(settings: TransformerSettings, features: Floats, units: Units) -> dict[str, NDArray[Any]]:
    """The weights of a model that sums ``features`` [n, F] of the items and answers what the units say loudest."""
    of_features, of_answers = features.shape[1], units.says.shape[1]
    width = width_of(features, units)
    half = width // 2
    shapes = parameter_shapes(settings.model, width, settings.task.alphabet().size)
    found = {name: np.zeros(shape) for name, shape in shapes.items()}
    columns = np.zeros((len(found["token"]), half))
    columns[:, of_features] = CONSTANT
    columns[: len(features), :of_features] = features
    found["token"] = np.concatenate([columns, -columns], axis=1)
    for name in found:
        if name.endswith("norm"):
            found[name][:] = CONSTANT / math.sqrt(half)  # What the norm divides by.
    feature, answer = np.arange(of_features), of_features + 1 + np.arange(of_answers)
    found["0.qkv"][feature, 2 * width + feature] = 1
    found["0.attention_out"][feature, feature] = TOKENS  # The mean over all tokens, as a sum.
    found["0.attention_out"][feature, half + feature] = -TOKENS
    count = len(units.slopes)
    found["0.feed_forward_in"][:of_features, :count] = units.slopes.T
    found["0.feed_forward_in"][of_features, :count] = units.offsets / CONSTANT
    found["0.feed_forward_out"][:count, answer] = units.says
    found["0.feed_forward_out"][:count, half + answer] = -units.says
    found["head"][answer, np.arange(of_answers)] = 1
    return {name: value.astype(np.float32) for name, value in found.items()}


def every_pair(family: TransformerFamily, task: str) -> tuple[RunConfig, Dataset]:
    """A run of a task, and all its questions of two arguments as test expressions."""
    settings: TransformerSettings = family.settings
    words, count = settings.task.vocabulary(), settings.task.value_count
    pairs = np.stack(np.meshgrid(np.arange(count), np.arange(count), indexing="ij"), axis=-1).reshape(-1, 2)
    answers = settings.task.function(task, 0)(pairs)
    sides = [[words.operation(task), words.open], [words.close, words.equals]]
    before, after = (np.tile(side, (len(pairs), 1)) for side in sides)
    ends = np.full((len(pairs), 1), words.eos)
    tokens = np.concatenate([before, pairs, after, answers[:, None], ends], axis=1).astype(words.dtype)
    lengths = np.full(len(pairs), TOKENS)
    examples = Examples(tokens, lengths, lengths + 2, answers)
    empty = np.zeros(0, np.int64)
    data = Dataset(empty.astype(words.dtype), empty.astype(bool), empty, {}, {task: examples}, None, {})
    return RunConfig(Mix.parse(task), 8, 0, settings), data
