"""Accuracy of a transformer without one of its parts: a sublayer, or a structure in its embeddings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.base import Family, RunConfig
from trainables.probes.base import Probed
from trainables.probes.nulls import other_groupings, p_value
from trainables.probes.transformer_probe import TransformerProbe, accuracy, group_means, questions_of
from trainables.tasks.datasets import Dataset
from trainables.transformer.generation import TrainedTransformer
from trainables.transformer.model import Change, Sublayer

SUBLAYERS: tuple[Sublayer, ...] = ("attention", "feed_forward")


class Reliance(TransformerProbe):
    """How much a model relies on attention and on feed-forward. The probe uses up to 300 test expressions of each task
    of the mix.

    * ``attention``: attention's share of the updates to the residual stream, in [0, 1]: a / (a + f), averaged over
      applications, for the mean squares a of attention's updates and f of feed-forward's over all tokens of the worked
      solutions. The array ``attention_share`` [applications], float64, has the share in each application.
    * ``TASK.whole``: the share of expressions whose whole worked solution is right, with the model choosing each token
      given the right earlier tokens.
    * ``TASK.no_attention`` and ``TASK.no_feed_forward``: the same share with the sublayer's update replaced by zero in
      every application.
    * ``TASK.mean_attention`` and ``TASK.mean_feed_forward``: the same share with the update replaced by its mean over
      tokens in each application. This removes only the part of the update that depends on the input.

    The probe has no null distribution: compare two mixes at equal size. arXiv 2505.18369 finds that models of ADD alone
    rely on feed-forward, and jointly trained models on attention.
    """

    name = "reliance"

    def ask(self, family: Family, run: RunConfig, model: TrainedTransformer, data: Dataset) -> Probed:
        means, share = _written(model, data)
        changes: dict[str, Change | None] = {"whole": None}
        for sublayer in SUBLAYERS:
            changes |= {f"no_{sublayer}": _replacing(sublayer, None), f"mean_{sublayer}": _replacing(sublayer, means)}
        numbers = {"attention": float(share.mean())}
        for name, change in changes.items():
            numbers |= {f"{task}.{name}": value for task, value in accuracy(model, data, change).items()}
        return Probed(numbers, {"attention_share": share})


def _written(
    model: TrainedTransformer, data: Dataset
) -> tuple[dict[tuple[Sublayer, int], Tensor], NDArray[np.float64]]:
    """Return each sublayer's mean update [C] in each application, and attention's share of the mean squares."""
    updates: dict[tuple[Sublayer, int], list[Tensor]] = defaultdict(list)
    for task, tokens in questions_of(data).items():
        present = torch.from_numpy(np.arange(tokens.shape[1]) < data.test[task].lengths[: len(tokens), None])

        def record(sublayer: Sublayer, application: int, update: Tensor, present: Tensor = present) -> Tensor:
            updates[sublayer, application].append(update[0, present])
            return update

        model.logits(tokens, record)
    whole = {place: torch.cat(parts) for place, parts in updates.items()}
    attention, feed_forward = (
        np.array([float((update**2).mean()) for (writer, _), update in whole.items() if writer == sublayer])
        for sublayer in SUBLAYERS
    )
    share = attention / np.maximum(attention + feed_forward, 1e-30)
    return {place: update.mean(dim=0) for place, update in whole.items()}, share


def _replacing(sublayer: Sublayer, means: Mapping[tuple[Sublayer, int], Tensor] | None) -> Change:
    def change(writer: Sublayer, application: int, update: Tensor) -> Tensor:
        if writer != sublayer:
            return update
        return torch.zeros_like(update) if means is None else means[writer, application].expand_as(update)

    return change


class Destruction(TransformerProbe):
    """How much accuracy depends on the directions that separate a grouping of the items, for every grouping that the
    family knows (residues by the divisors of the modulus, cosets). The probe removes these directions, the span of the
    groups' means around their own mean, from the items' token embeddings. It then runs the model again on up to 300
    test expressions of each task.

    * ``TASK.whole``: the share of expressions whose whole worked solution is right before any change, in [0, 1].
    * ``TASK.without_GROUPING``: the same share without the directions of this grouping.
    * ``TASK.others_GROUPING``: the same share without the directions of another grouping into groups of the same sizes,
      averaged over all such groupings or 19 of them.
    * ``TASK.without_GROUPING.p``: the share of all these groupings, including this grouping, under which accuracy falls
      as low. It is the p-value of a permutation test of the null hypothesis that this grouping matters no more than
      others. It is at least .1 for parity modulo 6.
    * ``removed_GROUPING`` and ``removed_others_GROUPING``: the share of the embeddings' variance that was removed, for
      this grouping and on average for the others.

    Random directions would be a weak null: with six embeddings of width 16, a random one removes only 6% of the
    variance. The mean difference between any two halves removes far more. A head tied to the embeddings changes with
    them.
    """

    name = "destruction"
    version = 2

    def ask(self, family: Family, run: RunConfig, model: TrainedTransformer, data: Dataset) -> Probed:
        groupings = family.groupings()
        if not groupings:
            return Probed()
        table_VC, items = model.parameters["token"], len(next(iter(groupings.values())))
        embedding = table_VC[:items].double()

        def without(labels: NDArray[Any]) -> tuple[dict[str, float], float]:
            directions = separating(embedding.numpy(), labels)
            basis = torch.from_numpy(directions)
            changed = embedding - (embedding - embedding.mean(dim=0)) @ basis.T @ basis  # The mean stays.
            changed_VC = torch.cat([changed.to(table_VC.dtype), table_VC[items:]])
            return accuracy(model, data, token=changed_VC), removed(embedding.numpy(), directions)

        rng = np.random.default_rng(run.seed)
        numbers = {f"{task}.whole": share for task, share in accuracy(model, data).items()}
        for name, labels in groupings.items():
            own, numbers[f"removed_{name}"] = without(np.array(labels))
            others = [without(other) for other in other_groupings(np.array(labels), rng)]
            numbers |= {f"{task}.without_{name}": share for task, share in own.items()}
            if others:
                numbers[f"removed_others_{name}"] = float(np.mean([other_variance for _, other_variance in others]))
            for task, share in own.items() if others else ():
                null = np.array([shares[task] for shares, _ in others])
                numbers[f"{task}.others_{name}"] = float(null.mean())
                numbers[f"{task}.without_{name}.p"] = p_value(-share, -null)
        return Probed(numbers)


def separating(embedding: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return orthonormal directions [k, C], k < groups, that span the groups' means of [n, C] around their mean."""
    _, means = group_means(embedding, labels)
    _, sizes, directions = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)
    spanning: NDArray[np.float64] = directions[sizes > 1e-9 * max(float(sizes[0]), 1e-30)]
    return spanning


def removed(embedding: NDArray[Any], directions: NDArray[np.float64]) -> float:
    """Return the share of the variance of [n, C] along orthonormal directions [k, C], in [0, 1]."""
    centered = embedding - embedding.mean(axis=0)
    return float(((centered @ directions.T) ** 2).sum() / max(float((centered**2).sum()), 1e-30))
