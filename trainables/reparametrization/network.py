"""The graph network whose output the unknowns are.

Every node has C features, which are parameters. A layer is ``h <- M h``, or ``h <- M h W`` with trained weights W. M is
fixed, made from ``P = 1 - D^-1/2 H D^-1/2`` with H the Hessian of the loss at the start and D the sums of absolute
values in its rows (arXiv 2205.13624 has the idea; layers and scale are this project's reading of it), or from a control
in place of H. Where the unknowns are ``R z``, a step of gradient descent on z moves them against ``R R'`` times the
gradient: Newton's step if ``R = H^-1/2``. Its series in P, ``sum_k c_k P^k`` with ``c_k = (2k choose k) / 4^k``, cut
off at the depth, is ``residual: series`` (M is P), but for a factor that makes it 1 where H is 0. With ``halves`` M is
``(1 + P) / 2``, and the last layer is read out.

The network's first output is taken off and the start of the problem put in its place, so that all methods begin at the
same state. Shapes as in problems.py; P parameters of one network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sparse
import torch
from torch import Tensor

from trainables.reparametrization.problems import Floats, Instance, SparseStack
from trainables.reparametrization.settings import NetworkSettings


def propagation(rule: str, instance: Instance, settings: NetworkSettings, rng: np.random.Generator) -> Any:
    """The matrix M [N, N] by its rule, scipy CSR.

    ``hessian`` is made from the Hessian at the start, ``laplacian`` from the Laplacian of the bare graph; ``random``
    is the Hessian's with its nodes shuffled: the same spectrum and the same cost, about another graph.
    """
    matrix = instance.laplacian if rule == "laplacian" else instance.hessian
    if rule == "random":
        shuffled = rng.permutation(matrix.shape[0])
        matrix = matrix[shuffled][:, shuffled]
    # Gershgorin: scaled so, the matrix has no eigenvalue beyond 1.
    scale = sparse.diags(1 / np.sqrt(np.asarray(np.abs(matrix).sum(axis=1)).ravel()))
    share = 0.5 if settings.residual == "halves" else 1.0
    found = (sparse.eye(matrix.shape[0]) - share * (scale @ matrix @ scale)).tocsr()
    found.sort_indices()
    return found


def initial(settings: NetworkSettings, nodes: int, numbers: int, rng: np.random.Generator) -> Floats:
    """First parameters [P]: features from N(0, 1); with trained weights identities, and the readout of the others."""
    features = rng.standard_normal(nodes * settings.width)
    if not settings.train_weights:
        return features
    weights = np.tile(np.eye(settings.width).ravel(), settings.depth)
    return np.concatenate([features, weights, readout(settings.width, numbers).ravel()])


def readout(width: int, numbers: int) -> Floats:
    """The matrix [width, numbers] that reads numbers out of features, each out of its own; columns have length 1."""
    assert width >= numbers, "with fewer features than numbers the output lies in a part of the space"
    owners = np.arange(width) % numbers == np.arange(numbers)[:, None]
    return np.asarray((owners / np.sqrt(owners.sum(axis=1, keepdims=True))).T)


def series(depth: int) -> list[float]:
    """The first ``depth + 1`` coefficients of ``(1 - P)^-1/2`` in powers of P, as shares of their sum."""
    coefficients = [math.comb(2 * power, power) / 4**power for power in range(depth + 1)]
    return [one / sum(coefficients) for one in coefficients]


class Network:
    """The networks of a stack, as one."""

    def __init__(self, settings: NetworkSettings, matrices: Sequence[Any], numbers: int, device: torch.device) -> None:
        self._settings = settings
        self._numbers = numbers
        self._nodes = matrices[0].shape[0]
        self._propagate = SparseStack(matrices, device)
        self._readout_CD = torch.from_numpy(readout(settings.width, numbers)).to(device)

    def __call__(self, parameters_SP: Tensor) -> Tensor:
        """The output [S, N, D]."""
        settings = self._settings
        width, features = settings.width, self._nodes * settings.width
        h_SNC = parameters_SP[:, :features].reshape(-1, self._nodes, width)
        shares = series(settings.depth)
        sum_SNC = shares[0] * h_SNC
        for layer in range(settings.depth):
            h_SNC = self._propagate(h_SNC)
            if settings.train_weights:
                first = features + layer * width**2
                h_SNC = h_SNC @ parameters_SP[:, first : first + width**2].reshape(-1, width, width)
            sum_SNC = sum_SNC + shares[layer + 1] * h_SNC
        read_SNC = sum_SNC if settings.residual == "series" else h_SNC
        if settings.train_weights:
            return read_SNC @ parameters_SP[:, -width * self._numbers :].reshape(-1, width, self._numbers)
        return read_SNC if width == self._numbers else read_SNC @ self._readout_CD

    def output_and_pullback(self, parameters_SP: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """The output without gradients, and a function from a gradient [S, N, D] to that of the parameters [S, P]."""
        leaf_SP = parameters_SP.detach().requires_grad_()
        output_SND = self(leaf_SP)

        def pullback(gradient_SND: Tensor) -> Tensor:
            # A run's output depends on its own parameters alone, so each row holds its run's own gradient.
            return torch.autograd.grad(output_SND, leaf_SP, gradient_SND)[0]

        return output_SND.detach(), pullback

    def take(self, rows: Sequence[int]) -> Network:
        """The networks of some of the runs."""
        mine = Network.__new__(Network)
        vars(mine).update(vars(self) | {"_propagate": self._propagate.take(rows)})
        return mine
