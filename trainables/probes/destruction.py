"""Whether a transformer uses the structure of its embeddings: its accuracy once that is taken away."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.base import Family, RunConfig
from trainables.loaded import TrainedTransformer
from trainables.probes.asking import accuracy, transformer_of
from trainables.probes.base import Probe, Probed
from trainables.probes.trace import traced

DRAWS = 5
"""Random subspaces that a grouping's own is measured against."""


class Destruction(Probe):
    """For every grouping of the items that the family knows (residues by the divisors of the modulus, cosets): the
    token embeddings of the items are projected off the directions that tell its groups apart, the span of the groups'
    means around their own mean, and the model is asked again, up to 300 test expressions of each task.

    ``TASK.without_GROUPING`` is the share of expressions whose whole worked solution is right then (asking.py),
    ``TASK.random_GROUPING`` the mean share over 5 random subspaces of the same rank, ``TASK.whole`` as it is, all in
    [0, 1]. A head that is tied to the embeddings changes with them. For transformers of a family that knows a grouping;
    nothing is said otherwise (a prime modulus).
    """

    name: ClassVar[str] = "destruction"
    needs_model: ClassVar[bool] = True
    needs_data: ClassVar[bool] = True

    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        model, data = transformer_of(self.name, family, model, data)
        groupings = family.groupings()
        if not groupings:
            return Probed()

        def asked(table_VC: Tensor) -> dict[str, float]:
            return accuracy(partial(_forward, model, table_VC), data)

        rng = np.random.default_rng(run.seed)
        table_VC = model.parameters["token"]
        numbers = {f"{task}.whole": value for task, value in asked(table_VC).items()}
        for name, labels in groupings.items():
            directions = separating(table_VC[: len(labels)].double().numpy(), np.array(labels))
            without = asked(_projected(table_VC, len(labels), directions))
            numbers |= {f"{task}.without_{name}": value for task, value in without.items()}
            drawn = [
                asked(_projected(table_VC, len(labels), random_directions(directions.shape, rng))) for _ in range(DRAWS)
            ]
            numbers |= {f"{task}.random_{name}": float(np.mean([each[task] for each in drawn])) for task in data.test}
        return Probed(numbers)


def separating(embedding: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Orthonormal directions [k, C] spanned by the groups' means of [n, C] around the mean of these; k is at most the
    number of groups less 1."""
    means = np.stack([embedding[labels == label].mean(axis=0) for label in np.unique(labels)])
    _, sizes, directions = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)
    found: NDArray[np.float64] = directions[sizes > 1e-9 * max(float(sizes[0]), 1e-30)]
    return found


def random_directions(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """Orthonormal directions [k, C], k at most C, uniform over all subspaces."""
    found: NDArray[np.float64] = np.linalg.qr(rng.normal(size=shape[::-1]))[0].T
    return found


def _projected(table_VC: Tensor, items: int, directions: NDArray[np.float64]) -> Tensor:
    """The table with the items' rows projected off these directions; their mean stays where it is."""
    rows = table_VC[:items].double()
    mean, basis = rows.mean(dim=0), torch.from_numpy(directions)
    moved = rows - (rows - mean) @ basis.T @ basis
    return torch.cat([moved.to(table_VC.dtype), table_VC[items:]])


def _forward(model: TrainedTransformer, table_VC: Tensor, tokens_BT: Tensor) -> Tensor:
    with torch.no_grad():
        return traced(model.settings, {**model.parameters, "token": table_VC}, tokens_BT)
