"""Reliance on attention or feed-forward: the share each writes, and accuracy without it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.base import Family, RunConfig
from trainables.probes.asking import Change, Sublayer, accuracy, questions_of, traced, transformer_of
from trainables.probes.base import Probe, Probed
from trainables.transformer.generation import TrainedTransformer
from trainables.transformer.text_task import Dataset

SUBLAYERS: tuple[Sublayer, ...] = ("attention", "feed_forward")


class Reliance(Probe):
    """For runs of a transformer, on up to 300 test expressions of each task of its mix:

    * ``attention``: the share of attention in what is written to the residual stream, in [0, 1]: the mean square of
      its updates over that of its and the feed-forward's, over all tokens of the worked solutions, in the mean over
      applications. The array ``attention_share`` [applications], float64, has it for each.
    * ``TASK.whole``: the share of expressions whose whole worked solution is right (asking.py), as it is;
      ``TASK.no_attention`` and ``TASK.no_feed_forward``: with what the sublayer writes replaced by zero in every
      application; ``TASK.mean_attention`` and ``TASK.mean_feed_forward``: replaced by its mean over tokens, application
      by application, which takes away what depends on the input alone.

    It has no null: two mixes are compared at equal size. arXiv 2505.18369 finds that models of ADD alone lean
    on feed-forward and those of joint training on attention.
    """

    name: ClassVar[str] = "reliance"
    needs_model: ClassVar[bool] = True
    needs_data: ClassVar[bool] = True

    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        model, data = transformer_of(self.name, family, model, data)
        means, share = _written(model, data)
        numbers = {"attention": float(share.mean())}
        changes: dict[str, Change] = {"whole": lambda sublayer, application, update: update}
        for sublayer in SUBLAYERS:
            changes[f"no_{sublayer}"] = _replacing(sublayer, None)
            changes[f"mean_{sublayer}"] = _replacing(sublayer, means[sublayer])
        for name, change in changes.items():
            found = accuracy(partial(_forward, model, change), data)
            numbers |= {f"{task}.{name}": value for task, value in found.items()}
        return Probed(numbers, {"attention_share": share})


def _written(model: TrainedTransformer, data: Dataset) -> tuple[dict[Sublayer, list[Tensor]], NDArray[np.float64]]:
    """For each application the mean update of each sublayer [C], and attention's share of the mean squares."""
    updates: dict[Sublayer, list[list[Tensor]]] = {sublayer: [] for sublayer in SUBLAYERS}

    for task, tokens in questions_of(data).items():
        lengths = torch.from_numpy(np.array(data.test[task].lengths[: len(tokens)]))
        there = torch.arange(tokens.shape[1]) < lengths[:, None]

        def keep(sublayer: Sublayer, application: int, update: Tensor, there: Tensor = there) -> Tensor:
            kept = updates[sublayer]
            if application == len(kept):
                kept.append([])
            kept[application].append(update[there])
            return update

        _forward(model, keep, tokens)
    whole = {sublayer: [torch.cat(each) for each in kept] for sublayer, kept in updates.items()}
    squares = {name: np.array([float((each**2).mean()) for each in kept]) for name, kept in whole.items()}
    share = squares["attention"] / np.maximum(squares["attention"] + squares["feed_forward"], 1e-30)
    return {name: [each.mean(dim=0) for each in kept] for name, kept in whole.items()}, share


def _replacing(sublayer: Sublayer, means: list[Tensor] | None) -> Change:
    """A change that replaces what one sublayer writes by zero, or by these means."""

    def change(written: Sublayer, application: int, update: Tensor) -> Tensor:
        if written != sublayer:
            return update
        return torch.zeros_like(update) if means is None else means[application].expand_as(update)

    return change


def _forward(model: TrainedTransformer, change: Change, tokens_BT: Tensor) -> Tensor:
    with torch.no_grad():
        return traced(model.settings, model.parameters, tokens_BT, change)
