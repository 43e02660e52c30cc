"""Datasets of expressions: text to train on, held-out expressions of each operation, and mixed ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trainables.base import Mix
from trainables.tasks.expressions.heldout import Part
from trainables.tasks.expressions.text import Expressions, Texts
from trainables.tasks.expressions.vocabulary import ExpressionVocabulary
from trainables.tasks.streams import stream
from trainables.transformer.datasets import digest
from trainables.transformer.text_task import Dataset, Examples

if TYPE_CHECKING:
    from trainables.tasks.expressions.task import ExpressionTask


def make_dataset(settings: ExpressionTask, mix: Mix, seed: int) -> Dataset:
    """The dataset of (settings, mix, seed), a pure function of the three (seed >= 0)."""
    expressions = Expressions(settings, mix, seed)
    described = [f"{task}:{share:.12f}" for task, share in zip(mix.tasks, mix.shares, strict=True)]
    texts, nodes = expressions.sample(Part.TRAINED, settings.training_examples, stream(seed, "train", *described))
    starts = np.cumsum(texts.lengths) - texts.lengths
    place = np.arange(len(texts.tokens)) - np.repeat(starts, texts.lengths)
    mixed = None
    if len(mix.tasks) > 1 and expressions.nests:
        drawn, _ = expressions.sample(Part.TEST, settings.test_examples, stream(seed, "mixed", *described))
        mixed = _examples(drawn, expressions.vocabulary)
    alone = {task: Expressions(settings, Mix.of({task: 1.0}), seed) for task in mix.tasks}
    test = {task: _held_out(alone[task], Part.TEST, seed) for task in mix.tasks}
    dataset = Dataset(
        tokens=texts.tokens,
        answer=place >= np.repeat(texts.prompt_lengths, texts.lengths),
        starts=starts,
        validation={task: _held_out(alone[task], Part.VALIDATION, seed) for task in mix.tasks},
        test=test,
        mixed=mixed,
        nodes=nodes,
        cases={task: _cases(alone[task], test[task]) for task in mix.tasks},
    )
    return replace(dataset, digest=digest(dataset))


def _held_out(expressions: Expressions, part: Part, seed: int) -> Examples:
    """Validation or test expressions of one operation: every tuple once where flat, else a random sample."""
    settings = expressions.settings
    count = settings.test_examples if part is Part.TEST else settings.validation_examples
    if not expressions.nests:
        # The same tuples for every operation.
        texts = expressions.flat(expressions.held_out.tuples(part, count, stream(seed, "tuples", part.name)))
    else:
        texts, _ = expressions.sample(part, count, stream(seed, part.name, expressions.mix.name))
    return _examples(texts, expressions.vocabulary)


def _cases(expressions: Expressions, examples: Examples) -> int:
    """Number of different held-out tuples under the test expressions."""
    # An expression ends with <eos>, so no tuple reaches from one row into the next.
    return expressions.held_out.cases(expressions.vocabulary.arguments(examples.tokens.reshape(-1)), Part.TEST)


def _examples(texts: Texts, vocabulary: ExpressionVocabulary) -> Examples:
    tokens = np.full((len(texts.lengths), int(texts.lengths.max())), vocabulary.eos, dtype=vocabulary.dtype)
    tokens[np.arange(tokens.shape[1]) < texts.lengths[:, None]] = texts.tokens
    return Examples(tokens, texts.prompt_lengths, texts.lengths, texts.answers)
