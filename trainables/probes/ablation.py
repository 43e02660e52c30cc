"""Accuracy of a transformer after a part of it is taken away: a sublayer, or the structure of its embeddings."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.base import Family, RunConfig
from trainables.probes.base import Probed
from trainables.probes.nulls import other_groupings, p_value
from trainables.probes.transformer_probe import (
    Change,
    Sublayer,
    TransformerProbe,
    accuracy,
    questions_of,
    traced,
    unchanged,
)
from trainables.tasks.datasets import Dataset
from trainables.transformer.generation import TrainedTransformer

SUBLAYERS: tuple[Sublayer, ...] = ("attention", "feed_forward")


class Reliance(TransformerProbe):
    """For runs of a transformer, on up to 300 test expressions of each task of its mix:

    * ``attention``: the share of attention in what is written to the residual stream, in [0, 1]: the mean square of
      its updates over that of its and the feed-forward's, over all tokens of the worked solutions, in the mean over
      applications. The array ``attention_share`` [applications], float64, has it for each.
    * ``TASK.whole``: the share of expressions whose whole worked solution is right (:func:`accuracy`), as it is;
      ``TASK.no_attention`` and ``TASK.no_feed_forward``: with what the sublayer writes replaced by zero in every
      application; ``TASK.mean_attention`` and ``TASK.mean_feed_forward``: replaced by its mean over tokens, application
      by application, which takes away what depends on the input alone.

    It has no null: two mixes are compared at equal size. arXiv 2505.18369 finds that models of ADD alone lean
    on feed-forward and those of joint training on attention.
    """

    name: ClassVar[str] = "reliance"

    def ask(self, family: Family, run: RunConfig, model: TrainedTransformer, data: Dataset) -> Probed:
        means, share = _written(model, data)
        numbers = {"attention": float(share.mean())}
        changes: dict[str, Change] = {"whole": unchanged}
        for sublayer in SUBLAYERS:
            changes[f"no_{sublayer}"] = _replacing(sublayer, None)
            changes[f"mean_{sublayer}"] = _replacing(sublayer, means[sublayer])
        for name, change in changes.items():
            found = accuracy(model, data, change)
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

        with torch.no_grad():
            traced(model.settings, model.parameters, tokens, keep)
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


class Destruction(TransformerProbe):
    """For every grouping of the items that the family knows (residues by the divisors of the modulus, cosets): the
    token embeddings of the items are projected off the directions that tell its groups apart, the span of the groups'
    means around their own mean. The model is then asked again, up to 300 test expressions of each task.

    * ``TASK.whole``: the share of expressions whose whole worked solution is right, untouched, in [0, 1].
    * ``TASK.without_GROUPING``: the same share without the directions of this grouping.
    * ``TASK.others_GROUPING``: its mean without those of other groupings into groups of the same sizes, all or 19.
    * ``TASK.without_GROUPING.p``: the share of all these groupings, this one counted in, under which accuracy falls as
      low: a permutation test that this grouping matters no more than another. At least .1 for parity modulo 6.
    * ``removed_GROUPING`` and ``removed_others_GROUPING``: the share of the embeddings' variance taken away.

    Random directions are no null: of six embeddings at width 16 they remove 6 % of the variance, mean differences
    of any halving far more. A head tied to the embeddings changes with them. For transformers of a family that knows a
    grouping; a prime modulus gives nothing.
    """

    name: ClassVar[str] = "destruction"
    version: ClassVar[int] = 2

    def ask(self, family: Family, run: RunConfig, model: TrainedTransformer, data: Dataset) -> Probed:
        groupings = family.groupings()
        if not groupings:
            return Probed()
        table_VC = model.parameters["token"]

        def without(labels: NDArray[Any]) -> tuple[dict[str, float], float]:
            embedding = table_VC[: len(labels)].double().numpy()
            directions = separating(embedding, labels)
            changed_VC = _projected(table_VC, len(labels), directions)
            return accuracy(model, data, token=changed_VC), removed(embedding, directions)

        rng = np.random.default_rng(run.seed)
        numbers = {f"{task}.whole": seen for task, seen in accuracy(model, data).items()}
        for name, labels in groupings.items():
            own, taken = without(np.array(labels))
            others = [without(each) for each in other_groupings(np.array(labels), rng)]
            numbers |= {f"{task}.without_{name}": seen for task, seen in own.items()}
            numbers[f"removed_{name}"] = taken
            if not others:
                continue
            numbers[f"removed_others_{name}"] = float(np.mean([each for _, each in others]))
            for task, seen in own.items():
                there = np.array([each[task] for each, _ in others])
                numbers[f"{task}.others_{name}"] = float(there.mean())
                numbers[f"{task}.without_{name}.p"] = p_value(-seen, -there)
        return Probed(numbers)


def separating(embedding: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Orthonormal directions [k, C] spanned by the groups' means of [n, C] around the mean of these; k is at most the
    number of groups less 1."""
    means = np.stack([embedding[labels == label].mean(axis=0) for label in np.unique(labels)])
    _, sizes, directions = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)
    found: NDArray[np.float64] = directions[sizes > 1e-9 * max(float(sizes[0]), 1e-30)]
    return found


def removed(embedding: NDArray[Any], directions: NDArray[np.float64]) -> float:
    """The share of the variance of [n, C] along orthonormal directions [k, C], in [0, 1]."""
    centred = embedding - embedding.mean(axis=0)
    return float(((centred @ directions.T) ** 2).sum() / max(float((centred**2).sum()), 1e-30))


def _projected(table_VC: Tensor, items: int, directions: NDArray[np.float64]) -> Tensor:
    """The table with the items' rows projected off these directions; their mean stays where it is."""
    rows = table_VC[:items].double()
    mean, basis = rows.mean(dim=0), torch.from_numpy(directions)
    moved = rows - (rows - mean) @ basis.T @ basis
    return torch.cat([moved.to(table_VC.dtype), table_VC[items:]])
