"""Accuracy of a model that a probe has changed, on held-out test expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from trainables.corpus import Dataset, Examples
from trainables.generation import accuracies

ASKED = 200
"""Expressions of each task that are asked, at most: their accuracy deviates by at most .035."""


def accuracy(
    forward: Callable[[Tensor], Tensor], questions: Mapping[str, Examples], *, eos: int, equals: int
) -> dict[str, float]:
    """The share of right answers by task, by greedy generation. ``forward`` gives logits [M, T, V] for [M, T]."""
    found = accuracies(
        lambda tokens_SMT: forward(tokens_SMT[0]).unsqueeze(0),
        [list(questions.values())],
        eos=eos,
        equals=equals,
        device=torch.device("cpu"),
    )
    return dict(zip(questions, found[0], strict=True))


def questions_of(data: Dataset) -> dict[str, Examples]:
    """The first test expressions of each task of the run's mix."""
    return {task: _first(examples) for task, examples in data.test.items()}


def _first(examples: Examples) -> Examples:
    return replace(
        examples,
        tokens=examples.tokens[:ASKED],
        prompt_lengths=examples.prompt_lengths[:ASKED],
        lengths=examples.lengths[:ASKED],
        answers=examples.answers[:ASKED],
    )
