"""The graph network whose output the unknowns are.

Every node has C features, which are parameters. A layer is ``h <- M h``. M is fixed, made from ``P = 1 - D^-1/2 H
D^-1/2`` with H the Hessian of the loss at the start and D the sums of absolute values in its rows (arXiv 2205.13624 has
the idea; layers and scale are this project's reading of it), or from a control in place of H. Where the unknowns are
``R z``, a step of gradient descent on z moves them against ``R R'`` times the gradient: Newton's step if ``R =
H^-1/2``. Its series in P, ``sum_k c_k P^k`` with ``c_k = (2k choose k) / 4^k``, cut off at the depth, is ``residual:
series`` (M is P), but for a factor that makes it 1 where H is 0. With ``halves`` M is ``(1 + P) / 2``, and the last
layer is read out.

The network's first output is taken off and the start of the problem put in its place, so that all methods begin at the
same state. Shapes: N nodes, C features a node, D numbers a node, P features of all nodes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sparse

from trainables.reparametrization.graphs import Floats
from trainables.reparametrization.problems import Problem
from trainables.reparametrization.settings import NetworkSettings


def propagation(rule: str, problem: Problem, settings: NetworkSettings, rng: np.random.Generator) -> Any:
    """The matrix M [N, N] by its rule, scipy CSR.

    ``hessian`` is made from the Hessian at the start, ``laplacian`` from the Laplacian of the bare graph; ``random``
    is the Hessian's with its nodes shuffled: the same spectrum and the same cost, about another graph.
    """
    matrix = problem.laplacian if rule == "laplacian" else problem.hessian
    if rule == "random":
        shuffled = rng.permutation(matrix.shape[0])
        matrix = matrix[shuffled][:, shuffled]
    # Gershgorin: scaled so, the matrix has no eigenvalue beyond 1.
    scale = sparse.diags(1 / np.sqrt(np.asarray(np.abs(matrix).sum(axis=1)).ravel()))
    share = 0.5 if settings.residual == "halves" else 1.0
    found = (sparse.eye(matrix.shape[0]) - share * (scale @ matrix @ scale)).tocsr()
    found.sort_indices()
    return found


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
    """The network of one problem."""

    def __init__(self, settings: NetworkSettings, matrix: Any, numbers: int) -> None:
        self._matrix = matrix
        self._nodes = matrix.shape[0]
        self._readout_CD = readout(settings.width, numbers)
        depth = settings.depth
        self._shares = series(depth) if settings.residual == "series" else [0.0] * depth + [1.0]

    def __call__(self, features_P: Floats) -> Floats:
        """The output [N, D]."""
        h_NC = features_P.reshape(self._nodes, -1)
        read_NC = self._shares[0] * h_NC
        for share in self._shares[1:]:
            h_NC = self._matrix @ h_NC
            if share:
                read_NC = read_NC + share * h_NC
        return read_NC @ self._readout_CD

    def pullback(self, gradient_ND: Floats) -> Floats:
        """The gradient of the features [P] from that of the output. M is symmetric."""
        read_NC = gradient_ND @ self._readout_CD.T
        back_NC = self._shares[-1] * read_NC
        for share in self._shares[-2::-1]:
            back_NC = self._matrix @ back_NC + share * read_NC
        return back_NC.ravel()
