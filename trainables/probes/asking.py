"""Accuracy of a model that a probe has changed, on held-out test expressions, in one forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.base import Family
from trainables.corpus import Dataset, Examples
from trainables.loaded import TrainedTransformer

ASKED = 300
"""Expressions of each task that are asked, at most: their accuracy deviates by at most .03."""


def transformer_of(probe: str, family: Family, model: Any, data: Any) -> tuple[TrainedTransformer, Dataset]:
    """The model and its data, for a probe that asks transformers. Raises ``TypeError`` for those of another family."""
    if not isinstance(model, TrainedTransformer) or not isinstance(data, Dataset):
        raise TypeError(f"the probe {probe} is for transformers; {family.name} is another family")
    return model, data


def questions_of(data: Dataset) -> dict[str, Tensor]:
    """The first test expressions of each task of the run's mix: token ids [M, T] of the whole worked solutions, padded
    with ``<eos>``."""
    return {task: torch.from_numpy(examples.tokens[:ASKED].astype(np.int64)) for task, examples in data.test.items()}


def accuracy(forward: Callable[[Tensor], Tensor], data: Dataset) -> dict[str, float]:
    """By task the share of test expressions whose whole worked solution, from the first '=' to its ``<eos>``, the model
    chooses token by token, each given the right ones before. ``forward`` gives logits [M, T, V] for tokens [M, T].

    Greedy generation would write just these solutions, and may besides come to the right answer by a wrong step; this
    is stricter by that, and takes one pass where a model that was taken apart would need one for every wrong token.
    """
    return {task: _right(forward(tokens), tokens, data.test[task]) for task, tokens in questions_of(data).items()}


def _right(logits_MTV: Tensor, tokens_MT: Tensor, examples: Examples) -> float:
    chosen = logits_MTV[:, :-1].argmax(dim=-1) == tokens_MT[:, 1:]
    place = torch.arange(1, tokens_MT.shape[1])
    begin, end = (
        torch.from_numpy(np.array(each[:ASKED], np.int64))[:, None]
        for each in (examples.prompt_lengths, examples.lengths)
    )
    asked = (place >= begin) & (place < end)
    return float((chosen | ~asked).all(dim=1).double().mean())
