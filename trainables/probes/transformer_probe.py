"""Probes that run a trained transformer, possibly with its sublayers or embeddings changed.

Shape suffixes: M questions, T positions, V vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.base import Family, RunConfig
from trainables.contract.tables import Integers
from trainables.probes.base import Probe, Probed
from trainables.transformer.datasets import Dataset
from trainables.transformer.generation import TrainedTransformer

QUESTIONS = 300
"""Maximum number of expressions per task. Their accuracy then has a standard error of at most .03."""


class TransformerProbe(Probe):
    """A probe that runs a transformer."""

    needs_model = True
    needs_data = True

    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        """Run :meth:`measure`. Raises ``TypeError`` for a model of another family."""
        if not isinstance(model, TrainedTransformer) or not isinstance(data, Dataset):
            raise TypeError(f"the probe {self.name} supports only transformers, not the family {family.name}")
        return self.measure(family, run, model, data)

    @abstractmethod
    def measure(self, family: Family, run: RunConfig, model: TrainedTransformer, data: Dataset) -> Probed:
        """Probe one finished run of a transformer; see :meth:`Probe.run`."""


def questions_of(data: Dataset) -> dict[str, Tensor]:
    """Return the first test expressions by task: token ids [M, T] of worked solutions, padded with ``<eos>``."""
    return {
        task: torch.from_numpy(examples.tokens[:QUESTIONS].astype(np.int64)) for task, examples in data.test.items()
    }


def accuracy(model: TrainedTransformer, data: Dataset, **parameters: Tensor) -> dict[str, float]:
    """Return, by task, the share of test expressions whose whole worked solution the model gets right.

    The model must choose every token from the first '=' to ``<eos>``, given the right earlier tokens. This is stricter
    than greedy generation, which may reach a right answer through a wrong step. ``parameters`` replace some of the
    model's parameters.
    """
    shares = {}
    for task, tokens_MT in questions_of(data).items():
        right_MT = model.logits(tokens_MT, None, **parameters)[:, :-1].argmax(dim=-1) == tokens_MT[:, 1:]
        position = np.arange(1, tokens_MT.shape[1])
        examples = data.test[task]
        begun = position >= examples.prompt_lengths[:QUESTIONS, None]
        in_solution = begun & (position < examples.lengths[:QUESTIONS, None])
        shares[task] = float((right_MT.numpy() | ~in_solution).all(axis=1).mean())
    return shares


@dataclass(frozen=True)
class LastSteps:
    """The last steps of M different test expressions of one task.

    Attributes:
        tokens: Tokens of the whole worked solutions, [M, T].
        equals: Positions of the last '=', [M].
        places: Positions of the last step's arguments, an array for each expression.
        answers: Right answers as token ids, [M].
    """

    tokens: Tensor
    equals: Integers
    places: tuple[Integers, ...]
    answers: Integers


def last_steps(run: RunConfig, data: Dataset) -> dict[str, LastSteps]:
    """Return the last steps of the first 300 different test expressions, by task."""
    vocabulary = run.settings.task.vocabulary()
    steps = {}
    for task, examples in data.test.items():
        # A random sample repeats short questions.
        rows = np.sort(np.unique(examples.tokens, axis=0, return_index=True)[1])[:QUESTIONS]
        tokens_MT = examples.tokens[rows].astype(np.int64)
        ends = [np.flatnonzero(row == vocabulary.equals) for row in tokens_MT]
        begins = [at[-2] + 1 if len(at) > 1 else 0 for at in ends]
        places = tuple(
            begin + np.flatnonzero(row[begin : at[-1]] < vocabulary.items)
            for row, begin, at in zip(tokens_MT, begins, ends, strict=True)
        )
        equals = np.array([at[-1] for at in ends])
        steps[task] = LastSteps(torch.from_numpy(tokens_MT), equals, places, examples.answers[rows])
    return steps


def group_means(embedding: NDArray[Any], labels: Integers) -> tuple[Integers, NDArray[Any]]:
    """Return the groups of ``labels`` [n], ascending, and the means of their rows of ``embedding`` [n, C]."""
    groups = np.unique(labels)
    return groups, np.stack([embedding[labels == group].mean(axis=0) for group in groups])


def answers(model: TrainedTransformer, questions: LastSteps, codes: int) -> Integers:
    """Return the model's most likely answer to each question [M], among the tokens below ``codes``."""
    logits_MV = model.logits(questions.tokens)[torch.arange(len(questions.equals)), questions.equals]
    chosen: Integers = logits_MV[:, :codes].argmax(dim=-1).numpy()
    return chosen
