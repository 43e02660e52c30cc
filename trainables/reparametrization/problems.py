"""What a problem on a graph is to those who race on it: how far a state lies above the solution, and the way down.

Shapes as in stacked.py.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import scipy.sparse as sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.reparametrization.graphs import Edges

Floats = NDArray[np.float64]
Curvature = Callable[[Tensor], Tensor]
"""The Hessian's product with a direction of each run, [S, N, D] to [S, N, D]."""

DRAWN: Mapping[str, bool] = {"drawn": True}
"""The metadata of what is for pictures alone."""


@dataclass(frozen=True)
class Instance:
    """The problem of one run, the same for every method: made from (nodes, seed) and the settings alone.

    ``places`` [nodes of the whole graph, 2] is where they are drawn, and no part of the problem.
    ``start`` and ``solution`` are [N, D]; ``hessian`` is that of the loss at the start, ``laplacian`` that of the bare
    graph without its weights: both scipy CSR [N, N]. Subclasses add what the loss is made of.
    """

    places: Floats = field(metadata=DRAWN)
    start: Floats
    solution: Floats
    hessian: Any
    laplacian: Any

    def digest(self) -> str:
        """A hash of the problem."""
        found = hashlib.sha256()
        for one in fields(self):
            if one.metadata == DRAWN:
                continue
            value = getattr(self, one.name)
            parts = (value.data, value.indices, value.indptr) if sparse.issparse(value) else (np.asarray(value),)
            for part in parts:
                found.update(np.ascontiguousarray(part).tobytes())
        return found.hexdigest()[:32]


@dataclass(frozen=True)
class Picture:
    """A state to be drawn: ``nodes`` [nodes of the whole graph, 3] are places and a value each, ``edges`` [E, 2] the
    ends of what is drawn between them."""

    nodes: Floats
    edges: Edges


class Problem(ABC):
    """The losses of a stack of runs, on their own graphs. Float64 throughout."""

    def __init__(self, instances: Sequence[Instance], device: torch.device) -> None:
        self.instances = tuple(instances)
        self.device = device

    @classmethod
    @abstractmethod
    def drawn(cls, settings: Any, nodes: int, seed: int) -> Instance:
        """The problem of one run, from its family's settings."""

    @abstractmethod
    def evaluate(self, x_SND: Tensor) -> tuple[Tensor, Tensor]:
        """How far each run's loss lies above that of its solution, [S], and the gradient [S, N, D]."""

    @abstractmethod
    def curvature(self, x_SND: Tensor) -> Curvature:
        """Products with the Hessian where each run is."""

    @abstractmethod
    def picture(self, row: int, x_ND: Floats) -> Picture:
        """A state of one run, as one would draw it."""

    def start(self) -> Tensor:
        """Where every method begins, [S, N, D]."""
        return self.stacked([one.start for one in self.instances])

    def take(self, rows: Sequence[int]) -> Problem:
        """The problem of some of the runs."""
        return type(self)([self.instances[row] for row in rows], self.device)

    def stacked(self, arrays: Sequence[Floats]) -> Tensor:
        """An array of each run as one tensor on the device."""
        return torch.from_numpy(np.stack(arrays)).to(self.device)


def inner(x_SND: Tensor, y_SND: Tensor) -> Tensor:
    """The inner product of each run's parts, [S]."""
    return (x_SND * y_SND).flatten(1).sum(dim=1)


def rng_of(purpose: str, nodes: int, seed: int) -> np.random.Generator:
    """The generator of what ``purpose`` names, for a graph of this size and seed; no mix or method goes into it."""
    digest = hashlib.sha256(f"{purpose}|{nodes}|{seed}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))
