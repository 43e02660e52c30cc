"""The last steps of held-out questions, whose parts a probe can name: the arguments, what comes of two, the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.base import RunConfig
from trainables.corpus import Dataset, Examples
from trainables.expressions.task import ExpressionTask
from trainables.expressions.trees import Function
from trainables.probes.asking import ASKED

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class LastSteps:
    """The last steps of M different test expressions of one task, whose values are one token each.

    ``tokens`` [M, T] are the whole worked solutions, ``equals`` [M] the places of the last '=' in them, where the model
    says the answer, given the right steps before. ``places``, an array for each, are those of the arguments of the last
    step; ``first``, ``second``, ``last`` [M] are three of these arguments, ``first_two`` [M] what the task makes of the
    first two alone, ``answers`` [M] the right answers: token ids all.
    ``cases`` [M] are equal where the arguments are.
    """

    tokens: Tensor
    equals: Integers
    places: tuple[Integers, ...]
    first: Integers
    second: Integers
    last: Integers
    first_two: Integers
    answers: Integers
    cases: Integers


def last_steps(run: RunConfig, data: Dataset) -> Mapping[str, LastSteps]:
    """Those of the first 300 different test expressions, by task; none where values are not one token each."""
    task = run.settings.task
    if not isinstance(task, ExpressionTask) or task.value_tokens != 1:
        return {}
    items, equals = task.alphabet().items, task.alphabet().equals
    return {name: _of(examples, items, equals, task.function(name, run.seed)) for name, examples in data.test.items()}


def _of(examples: Examples, items: int, equals: int, function: Function) -> LastSteps:
    tokens_MT = examples.tokens.astype(np.int64)
    # Random samples hold a short question many times.
    kept = np.sort(np.unique(tokens_MT, axis=0, return_index=True)[1])[:ASKED]
    tokens_MT = tokens_MT[kept]
    ends = [np.flatnonzero(row == equals) for row in tokens_MT]
    begins = [at[-2] + 1 if len(at) > 1 else 0 for at in ends]
    places = tuple(
        begin + np.flatnonzero(row[begin : at[-1]] < items)
        for row, begin, at in zip(tokens_MT, begins, ends, strict=True)
    )
    arguments = [row[at] for row, at in zip(tokens_MT, places, strict=True)]
    first, second, last = (np.array([each[at] for each in arguments]) for at in (0, 1, -1))
    codes = {case: code for code, case in enumerate(sorted({tuple(each.tolist()) for each in arguments}))}
    return LastSteps(
        torch.from_numpy(tokens_MT),
        np.array([at[-1] for at in ends]),
        places,
        first,
        second,
        last,
        np.asarray(function(np.stack([first, second], axis=1))),
        examples.answers[kept],
        np.array([codes[tuple(each.tolist())] for each in arguments]),
    )
