"""What is kept of a race for a picture: where a method was at the start, halfway and at the end.

Halfway is its first look with a gap of no more than the root of the tolerance; one that never came so far, or
broke down, has fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.reparametrization.methods import Method
from trainables.reparametrization.problems import Problem

PICTURED = 1024
"""Nodes of the largest graph that is kept: of more, nobody can tell one from another."""
NODES, EDGES, GAPS = "nodes_", "edges_", "gaps_"
"""What arrays of a run are called, before the method's name: [moments, nodes, 3] places and values, [E, 3] the
moment of an edge and its ends, [moments] the gaps."""


class Moments:
    """The last states of methods that have left the stack of a problem, by run and method."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._left: dict[tuple[int, str], Tensor] = {}

    def leave(self, run: int, name: str, method: Method, place: int) -> None:
        """Keep the states of a run, by its place in the method's stack, before the method goes on without it."""
        if len(self._problem.instances[run].places) <= PICTURED:
            self._left[run, name] = _states(method, place)

    def arrays(self, run: int) -> dict[str, NDArray[Any]]:
        """Of a run that every method has left: its arrays for pictures, and nothing of it is kept here any longer."""
        found: dict[str, NDArray[Any]] = {}
        for name in [method for other, method in self._left if other == run]:
            found |= self._drawn(run, name, self._left.pop((run, name)))
        return found

    def tensors(self) -> dict[str, Tensor]:
        """Everything that changes, by ``RUN/METHOD``."""
        return {f"{run}/{name}": states for (run, name), states in self._left.items()}

    def load(self, tensors: Mapping[str, Tensor], places: list[int]) -> None:
        """The inverse of :meth:`tensors`, where this stack's runs had other ``places`` in the stack that was saved."""
        self._left = {
            (run, key.partition("/")[2]): states
            for run, place in enumerate(places)
            for key, states in tensors.items()
            if key.partition("/")[0] == str(place)
        }

    def _drawn(self, run: int, name: str, states: Tensor) -> dict[str, NDArray[Any]]:
        alone = self._problem.take([run])
        moments = [self._problem.instances[run].start, *states.numpy()]
        excess = [float(alone.evaluate(alone.stacked([state]))[0]) for state in moments]
        pictures = [alone.picture(0, state) for state in moments]
        edges = [np.column_stack([np.full(len(one.edges), moment), one.edges]) for moment, one in enumerate(pictures)]
        return {
            f"{NODES}{name}": np.stack([one.nodes for one in pictures]),
            f"{EDGES}{name}": np.concatenate(edges).astype(np.int32),
            f"{GAPS}{name}": np.array(excess) / excess[0],
        }


def _states(method: Method, place: int) -> Tensor:
    """Halfway, if a run came so far, and where it is, unless it broke down: [moments, N, D], on the CPU."""
    halfway = method.halfway_SND[place : place + 1] if method.halved_S[place] else method.x_SND[:0]
    last = method.x_SND[:0] if method.broken_S[place] else method.x_SND[place : place + 1]
    return torch.cat([halfway, last]).cpu()
