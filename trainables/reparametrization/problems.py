"""What a problem on a graph is to those who race on it: how far a state lies above the solution, and the way down.

Shapes as in stacked.py.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Instance:
    """The problem of one run, the same for every method: made from (nodes, seed) and the settings alone.

    ``start`` and ``solution`` are [N, D]; ``hessian`` is that of the loss at the start, ``laplacian`` that of the bare
    graph without its weights: both scipy CSR [N, N]. Subclasses add what the loss is made of.
    """

    start: Floats
    solution: Floats
    hessian: Any
    laplacian: Any

    def digest(self) -> str:
        """A hash of everything in it."""
        found = hashlib.sha256()
        for one in fields(self):
            value = getattr(self, one.name)
            parts = (value.data, value.indices, value.indptr) if sparse.issparse(value) else (np.asarray(value),)
            for part in parts:
                found.update(np.ascontiguousarray(part).tobytes())
        return found.hexdigest()[:32]


class Problem(ABC):
    """The losses of a stack of runs, on their own graphs. Float64 throughout."""

    def __init__(self, instances: Sequence[Instance], device: torch.device) -> None:
        self.instances = tuple(instances)
        self.device = device

    @abstractmethod
    def evaluate(self, x_SND: Tensor) -> tuple[Tensor, Tensor]:
        """How far each run's loss lies above that of its solution, [S], and the gradient [S, N, D]."""

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
