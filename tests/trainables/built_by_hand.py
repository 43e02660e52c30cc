"""Transformers with hand-written weights, whose computation is known: they compute functions of sums of features.

Attention weighs all tokens equally and sums the features of the arguments, the feed-forward layer applies units to the
sums, and the head reads the answer. A large constant in every embedding makes the layer norms nearly linear, because
the features hardly change their divisor.

Every feature, the constant and every answer have two columns of the stream, each the negative of the other, so that
the mean that the norms subtract is 0."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trainables.base import RunConfig
from trainables.contract.arms import Mix
from trainables.families.transformer import TransformerFamily, TransformerSettings
from trainables.tasks.expression_task import ExpressionTask
from trainables.transformer.architecture import parameter_shapes
from trainables.transformer.datasets import Dataset, Examples
from trainables.transformer.generation import TrainedTransformer

Floats = NDArray[np.float64]
CONSTANT = 100.0
TOKENS = 6
"""Number of tokens of ``add ( a b ) =``."""
NUMBERS = np.arange(6)
PARITY, THIRD = 2.0 * (NUMBERS % 2) - 1, NUMBERS % 3 - 1.0
"""Parity: 1 for odd numbers, -1 for even ones. Remainder modulo 3: -1, 0, 1."""


@dataclass(frozen=True)
class Units:
    """U units of the feed-forward layer, relu(slopes . sums of features + offsets): slopes [U, F], offsets [U], and
    the weight of each for each of A answers, [U, A]."""

    slopes: Floats
    offsets: Floats
    says: Floats


def one_application(settings: TransformerSettings) -> TransformerSettings:
    """Return these settings with two arguments and a block that is applied once."""
    assert isinstance(settings.task, ExpressionTask)
    task = replace(settings.task, max_arguments=2, depth=1, nesting=0.0, held_out_fraction=0.4)
    return replace(settings, task=task, model=replace(settings.model, n_layer=1, n_recurrence=1))


def made(settings: TransformerSettings, features: Floats, units: Units) -> TrainedTransformer:
    """Return a model that sums ``features`` [n, F] of the items, gives the answer with the largest total weight, and
    ends."""
    of_features, of_answers = features.shape[1], units.says.shape[1]
    half = of_features + 1 + of_answers + 1
    width, words = 2 * half, settings.task.vocabulary()
    parameters = {name: np.zeros(shape) for name, shape in parameter_shapes(settings.model, width, len(words)).items()}
    columns = np.zeros((len(words), half))
    columns[:, of_features] = CONSTANT
    columns[: len(features), :of_features] = features
    parameters["token"] = np.concatenate([columns, -columns], axis=1)
    for name in parameters:
        if name.endswith("norm"):
            parameters[name][:] = CONSTANT / math.sqrt(half)  # Cancels the norm's divisor.
    feature, answer = np.arange(of_features), of_features + 1 + np.arange(of_answers)
    parameters["0.qkv"][feature, 2 * width + feature] = 1
    parameters["0.attention_out"][feature, feature] = TOKENS  # Turns the mean over all tokens into a sum.
    parameters["0.attention_out"][feature, half + feature] = -TOKENS
    count = len(units.slopes)
    parameters["0.feed_forward_in"][:of_features, :count] = units.slopes.T
    parameters["0.feed_forward_in"][of_features, :count] = units.offsets / CONSTANT
    parameters["0.feed_forward_out"][:count, answer] = units.says
    parameters["0.feed_forward_out"][:count, half + answer] = -units.says
    parameters["head"][answer, np.arange(of_answers)] = 1
    parameters["position"][TOKENS, [half - 1, width - 1]] = 20, -20  # The end follows the answer.
    parameters["head"][half - 1, words.eos] = 1
    return TrainedTransformer(settings.model, width, len(words), parameters)


def peak(feature: int, of: int, at: float, width: float, says: Floats) -> list[tuple[Floats, float, Floats]]:
    """Return units that add up to ``says`` if the sum of a feature is ``at``, and to zero if it is ``width`` away."""
    slope = np.eye(of)[feature]
    return [(slope, -at + shift * width, scale * says / width) for shift, scale in ((1, 1), (0, -2), (-1, 1))]


def units(*of: tuple[Floats, float, Floats]) -> Units:
    slopes, offsets, says = zip(*of, strict=True)
    return Units(np.array(slopes), np.array(offsets), np.array(says))


def by_remainders() -> Units:
    """Return units that compute parity and remainder modulo 3. A sum is odd if the parities differ and thus add up
    to 0; its remainder modulo 3 follows from the sum of remainders."""
    parities = [peak(0, 2, at, 2, np.eye(2)[odd][NUMBERS % 2]) for at, odd in ((-2, 0), (0, 1), (2, 0))]
    thirds = [peak(1, 2, at, 1, np.eye(3)[(at + 2) % 3][NUMBERS % 3]) for at in range(-2, 3)]
    return units(*(unit for group in (*parities, *thirds) for unit in group))


def by_heart() -> Units:
    """Return one unit for each pair of numbers, which knows only that sum."""
    known = []
    for number in NUMBERS:
        for other in range(number, 6):
            slope = np.maximum(np.eye(6)[number], np.eye(6)[other])
            known.append((slope, -1.0, np.eye(6)[(number + other) % 6] * (2.0 if number == other else 1.0)))
    return units(*known)


def every_pair(family: TransformerFamily, task: str) -> tuple[RunConfig, Dataset]:
    """Return a run of a task and all its questions of two arguments as test expressions."""
    settings: TransformerSettings = family.settings
    task_settings = settings.task
    assert isinstance(task_settings, ExpressionTask)
    words, count = task_settings.vocabulary(), task_settings.value_count
    pairs = np.stack(np.meshgrid(np.arange(count), np.arange(count), indexing="ij"), axis=-1).reshape(-1, 2)
    answers = task_settings.function(task, 0)(pairs)
    sides = [[words.operation(task), words.open], [words.close, words.equals]]
    before, after = (np.tile(side, (len(pairs), 1)) for side in sides)
    ends = np.full((len(pairs), 1), words.eos)
    tokens = np.concatenate([before, pairs, after, answers[:, None], ends], axis=1).astype(words.dtype)
    lengths = np.full(len(pairs), TOKENS)
    examples = Examples(tokens, lengths, lengths + 2, answers)
    empty = np.zeros(0, np.int64)
    data = Dataset(empty.astype(words.dtype), empty.astype(bool), empty, {}, {task: examples}, None, {})
    return RunConfig(Mix.parse(task), 8, 0, settings), data
