"""Expressions as text with every reduction step, and the datasets made of them.

Shapes: B expressions, L tokens of all their texts together, S slots of a tree level (trees.py), W items of a slot's
text, T maximum number of reduction steps of an expression.
"""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainables.base import Mix, SettingsError
from trainables.contract.settings import digest_of
from trainables.contract.tables import Integers
from trainables.tasks import stream
from trainables.tasks.expression_task import ExpressionTask
from trainables.tasks.held_out_tuples import HeldOut, Part
from trainables.tasks.trees import Level, Steps, Trees, count_operations, evaluate, flat, grow, part_of, reduction_steps
from trainables.transformer.datasets import Dataset, Examples
from trainables.transformer.vocabulary import Tokens

BATCH = 8_192
"""Number of expressions that are generated at once. If it changes, the data change."""
GIVE_UP_AFTER = 32
"""Number of batches after which an error is raised if too few expressions fit the data."""
RAREST = 1e-4
"""Smallest share of expressions that must fit the data."""
LAYOUT_VERSION = 4
"""Raise it when the file format of a dataset changes."""


class Expressions:
    """Generator of the expressions of one mix, with the held-out tuples and tables of one seed.

    It returns examples whose ``tokens`` [L] are one text after the other, without padding. Raises
    :class:`SettingsError` (key ``mixes``) for an operation that does not exist or cannot be trained.
    """

    def __init__(self, settings: ExpressionTask, mix: Mix, seed: int) -> None:
        settings.check_mix(mix)
        self.settings = settings
        self.mix = mix
        self.vocabulary = settings.vocabulary()
        self.held_out = HeldOut(settings, seed)
        self.functions = [settings.function(task, seed) for task in mix.tasks]
        self._inner = [index for index, task in enumerate(mix.tasks) if settings.gives_values(task)]
        self.nests = settings.levels > 1 and bool(self._inner)
        """True if an operation may be an argument of another operation."""

    def sample(self, part: Part, count: int, rng: np.random.Generator) -> tuple[Examples, dict[str, int]]:
        """Return ``count`` random expressions of one part, and the number of nodes of each operation in them.

        ``TRAINED`` expressions contain no held-out tuple in any step. ``VALIDATION`` expressions contain a tuple held
        out for validation and none for the test; ``TEST`` expressions contain a tuple held out for the test. Raises
        :class:`SettingsError` (key ``task.held_out_fraction``) if almost no random expression fits the part.
        """
        texts: list[Examples] = []
        nodes = np.zeros(len(self.mix.tasks), dtype=np.int64)
        missing = count
        batches = 0
        while missing:
            self._check_yield(part, count - missing, batches)
            trees = grow(self.settings, self.mix.shares, self._inner, BATCH, rng)
            evaluate(trees, self.functions)
            chosen = np.flatnonzero(part_of(trees, self.held_out) == part)[:missing]
            batches += 1
            if len(chosen):
                trees = tuple(Level._make(array[chosen] for array in level) for level in trees)
                texts.append(self.render(trees))
                nodes += count_operations(trees, len(nodes))
                missing -= len(chosen)
        arrays = (np.concatenate([getattr(text, field.name) for text in texts]) for field in fields(Examples))
        return Examples(*arrays), dict(zip(self.mix.tasks, nodes.tolist(), strict=True))

    def render(self, trees: Trees) -> Examples:
        """Return the solutions of evaluated expressions."""
        tokens, birth, death = self._items(trees)
        lengths = (death - birth).sum(axis=1, dtype=np.int64)
        prompt_lengths = ((birth == 0) & (death > 0)).sum(axis=1, dtype=np.int64)
        step = np.arange(death.max(), dtype=birth.dtype)[:, None]
        # Row-major order of [B, T, W] is the order of the text: expression, step, position in the step.
        visible = (birth[:, None, :] <= step) & (step < death[:, None, :])
        text = np.broadcast_to(tokens[:, None, :], visible.shape)[visible]
        return Examples(text, prompt_lengths, lengths, trees[0].value[:, 0].copy())

    def _items(self, trees: Trees) -> tuple[Tokens, Steps, Steps]:
        """Return all tokens that occur in any step of an expression, in the order of the line, and their steps.

        The three arrays [B, W] are the token, its first step, and the step after its last. The two steps are equal if
        the token never occurs. If an operation is reduced in step t, its name and brackets occur before t. Its value
        occurs from t until its parent is reduced.
        """
        v = self.vocabulary
        k = self.settings.max_arguments
        names = np.array([v.operation(task) for task in self.mix.tasks])
        reduced = reduction_steps(trees)
        ends = [reduced[0] + 1] + [
            np.repeat(parent, k, axis=1) * level.present for parent, level in zip(reduced, trees[1:], strict=False)
        ]
        items = _item(trees[-1].value, 0, ends[-1])
        for level, step, end in reversed(list(zip(trees[:-1], reduced, ends, strict=False))):
            name, opened, closed = (_item(token, 0, step) for token in (names[level.operation], v.open, v.close))
            inside = items.reshape(3, *step.shape, -1)
            items = np.concatenate([name, opened, inside, closed, _item(level.value, step, end)], axis=-1)
        total = reduced[0]
        items = np.concatenate([items, _item(v.equals, 0, total), _item(v.eos, total, total + 1)], axis=-1)
        tokens, birth, death = items[:, :, 0]
        return tokens.astype(v.dtype), birth.astype(np.int16), death.astype(np.int16)

    def _check_yield(self, part: Part, drawn: int, batches: int) -> None:
        if batches >= GIVE_UP_AFTER and drawn < RAREST * batches * BATCH:
            word = "training" if part is Part.TRAINED else part.name.lower()
            fraction = self.settings.held_out_fraction
            drawn_of = f"only {drawn} of {batches * BATCH} random expressions of {self.mix} fit the {word} data"
            message = f"{drawn_of}; change task.held_out_fraction ({fraction:g}) or lower task.depth or task.nesting"
            raise SettingsError(message, key="task.held_out_fraction", given=f"{fraction:g}")


def _item(token: Integers | int, birth: Steps | int, death: Steps) -> NDArray[np.int32]:
    """Return a token and its steps for each slot, [3, B, S, 1]."""
    return np.stack(np.broadcast_arrays(token, birth, death)).astype(np.int32)[..., None]


def make_dataset(settings: ExpressionTask, mix: Mix, seed: int) -> Dataset:
    """Return the dataset, a pure function of the arguments (seed >= 0). Raises :class:`SettingsError` if the settings
    cannot make one."""
    expressions = Expressions(settings, mix, seed)
    described = [f"{task}:{share:.12f}" for task, share in zip(mix.tasks, mix.shares, strict=True)]
    texts, nodes = expressions.sample(Part.TRAINED, settings.training_examples, stream(seed, "train", *described))
    starts = np.cumsum(texts.lengths) - texts.lengths
    position = np.arange(len(texts.tokens)) - np.repeat(starts, texts.lengths)
    mixed = None
    if len(mix.tasks) > 1 and expressions.nests:
        drawn, _ = expressions.sample(Part.TEST, settings.test_examples, stream(seed, "mixed", *described))
        mixed = _padded(drawn, expressions.vocabulary.eos)
    alone = {task: Expressions(settings, Mix.of({task: 1.0}), seed) for task in mix.tasks}
    test = {task: _held_out(generator, Part.TEST, seed) for task, generator in alone.items()}
    return Dataset(
        tokens=texts.tokens,
        answer=position >= np.repeat(texts.prompt_lengths, texts.lengths),
        starts=starts,
        validation={task: _held_out(generator, Part.VALIDATION, seed) for task, generator in alone.items()},
        test=test,
        mixed=mixed,
        nodes=nodes,
        # Every text ends with <eos>, so no tuple spans two texts.
        cases={
            task: expressions.held_out.cases(expressions.vocabulary.arguments(examples.tokens.ravel()), Part.TEST)
            for task, examples in test.items()
        },
    )


def _held_out(expressions: Expressions, part: Part, seed: int) -> Examples:
    """Return the examples of one task for validation or test."""
    settings = expressions.settings
    count = settings.test_examples if part is Part.TEST else settings.validation_examples
    if expressions.nests:
        texts, _ = expressions.sample(part, count, stream(seed, part.name, expressions.mix.name))
    else:  # All operations share these tuples.
        trees = flat(expressions.held_out.tuples(part, count, stream(seed, "tuples", part.name)))
        evaluate(trees, expressions.functions)
        texts = expressions.render(trees)
    return _padded(texts, expressions.vocabulary.eos)


def _padded(texts: Examples, eos: int) -> Examples:
    """Return examples with one row of tokens per text, padded with ``eos``."""
    tokens = np.full((len(texts.lengths), int(texts.lengths.max())), eos, dtype=texts.tokens.dtype)
    tokens[np.arange(tokens.shape[1]) < texts.lengths[:, None]] = texts.tokens
    return replace(texts, tokens=tokens)


def load_dataset(task: ExpressionTask, mix: Mix, seed: int, cache: Path) -> Dataset:
    """Return the dataset of (task, mix, seed), from ``cache`` or made there. Several processes may call this at once.

    The name of its file has a hash of everything that decides the data, including numpy's version.

    Raises:
        SettingsError: The task cannot make data for this mix.
        OSError: The directory cannot be written.
    """
    described = {
        "generator": task.generator_version,
        "layout": LAYOUT_VERSION,
        "numpy": np.__version__,
        "words": task.vocabulary().words,
        "settings": {name: value for name, value in asdict(task).items() if name != "decoding"},
        "mix": {name: f"{share:.12f}" for name, share in zip(mix.tasks, mix.shares, strict=True)},
        "seed": seed,
    }
    path = cache / f"{task.kind}-{digest_of(described)[:24]}.safetensors"
    if not path.is_file():
        make_dataset(task, mix, seed).write(path)
    return Dataset.read(path, mix.tasks)
