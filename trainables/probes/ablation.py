"""Probes of a transformer's parts: attention's share of its work, and its accuracy without a structure in its
embeddings."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.base import Family, RunConfig
from trainables.probes.base import Probed
from trainables.probes.nulls import other_groupings, p_value
from trainables.probes.transformer_probe import TransformerProbe, accuracy, group_means, questions_of
from trainables.transformer.datasets import Dataset
from trainables.transformer.generation import TrainedTransformer
from trainables.transformer.model import Sublayer


class Reliance(TransformerProbe):
    """How much a model relies on attention and on feed-forward. The probe uses up to 300 test expressions of each task
    of the mix.

    ``attention`` is attention's share of the updates to the residual stream, in [0, 1]: a / (a + f), averaged over
    applications. Here a is the mean square of attention's updates, and f that of feed-forward's updates, over all
    tokens of the worked solutions.

    The probe has no null distribution: compare two mixes at equal size. arXiv 2505.18369 finds that models of ADD alone
    rely on feed-forward, and jointly trained models on attention.
    """

    name = "reliance"

    def measure(self, family: Family, run: RunConfig, model: TrainedTransformer, data: Dataset) -> Probed:
        updates: dict[tuple[Sublayer, int], list[Tensor]] = defaultdict(list)
        for task, tokens in questions_of(data).items():
            present = torch.from_numpy(np.arange(tokens.shape[1]) < data.test[task].lengths[: len(tokens), None])

            def record(sublayer: Sublayer, application: int, update: Tensor, present: Tensor = present) -> None:
                updates[sublayer, application].append(update[0, present])

            model.logits(tokens, record)
        squares = {writer: float((torch.cat(parts) ** 2).mean()) for writer, parts in updates.items()}
        attention, feed_forward = (
            np.array([square for (written_by, _), square in squares.items() if written_by == sublayer])
            for sublayer in ("attention", "feed_forward")
        )
        return Probed({"attention": float((attention / np.maximum(attention + feed_forward, 1e-30)).mean())})


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

    Random directions would be a weak null: with six embeddings of width 16, a random one removes only 6% of the
    variance. The mean difference between any two halves removes far more. A head tied to the embeddings changes with
    them.
    """

    name = "destruction"
    version = 2

    def measure(self, family: Family, run: RunConfig, model: TrainedTransformer, data: Dataset) -> Probed:
        groupings = family.groupings()
        if not groupings:
            return Probed()
        table_VC = model.parameters["token"]
        items = len(next(iter(groupings.values())))
        embedding = table_VC[:items].double()

        def without(labels: NDArray[Any]) -> dict[str, float]:
            basis = torch.from_numpy(separating(embedding.numpy(), labels))
            changed = embedding - (embedding - embedding.mean(dim=0)) @ basis.T @ basis  # The mean stays.
            changed_VC = torch.cat([changed.to(table_VC.dtype), table_VC[items:]])
            return accuracy(model, data, token=changed_VC)

        rng = np.random.default_rng(run.seed)
        numbers = {f"{task}.whole": share for task, share in accuracy(model, data).items()}
        for name, labels in groupings.items():
            others = [without(other) for other in other_groupings(np.array(labels), rng)]
            for task, share in without(np.array(labels)).items():
                numbers[f"{task}.without_{name}"] = share
                if others:
                    null = np.array([shares[task] for shares in others])
                    numbers[f"{task}.others_{name}"] = float(null.mean())
                    numbers[f"{task}.without_{name}.p"] = p_value(-share, -null)
        return Probed(numbers)


def separating(embedding: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return orthonormal directions [k, C], k < groups, that span the groups' means of [n, C] around their mean."""
    _, means = group_means(embedding, labels)
    _, sizes, directions = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)
    spanning: NDArray[np.float64] = directions[sizes > 1e-9 * max(float(sizes[0]), 1e-30)]
    return spanning
