"""The graph network, whose output is the vector of unknowns to optimize.

Every node has C features, which are parameters. A layer is ``h <- M h``. M is made from ``P = 1 - D^-1/2 H D^-1/2``.
H is the Hessian at the start, or a control instead of it, and D has the sums of absolute values in its rows. The idea
is from arXiv 2205.13624. Layers and scale are ours.

If the unknowns are ``R z``, gradient descent on z moves them against ``R R'`` times the gradient. This is Newton's step
if ``R = H^-1/2``. With ``residual: series``, M is P, and the output is the series of R in P, cut off at the depth and
scaled to 1 for H = 0. With ``halves``, M is ``(1 + P) / 2``, and the output is the last layer.

Shapes: N nodes, C features per node, D numbers per node, P features of all nodes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sparse

from trainables.reparametrization.graphs import Floats, csr
from trainables.reparametrization.problems import Problem
from trainables.reparametrization.settings import NetworkSettings


def propagation(rule: str, problem: Problem, settings: NetworkSettings, rng: np.random.Generator) -> Any:
    """Return the matrix M [N, N] of a rule, scipy CSR.

    It is made from the Hessian at the start, from the bare graph's Laplacian or, with ``random``, from the Hessian with
    its nodes shuffled. The shuffled Hessian has the same spectrum and cost, on another graph.
    """
    matrix = problem.laplacian if rule == "laplacian" else problem.hessian
    if rule == "random":
        shuffled = rng.permutation(matrix.shape[0])
        matrix = matrix[shuffled][:, shuffled]
    # With this scale the matrix has no eigenvalue above 1 (Gershgorin).
    scale = sparse.diags(1 / np.sqrt(np.asarray(np.abs(matrix).sum(axis=1)).ravel()))
    share = 0.5 if settings.residual == "halves" else 1.0
    return csr(sparse.eye(matrix.shape[0]) - share * (scale @ matrix @ scale))


def series(depth: int) -> list[float]:
    """Return the first ``depth + 1`` coefficients of ``(1 - P)^-1/2`` in powers of P, divided by their sum."""
    coefficients = [math.comb(2 * power, power) / 4**power for power in range(depth + 1)]
    return [coefficient / sum(coefficients) for coefficient in coefficients]


class Network:
    """The network of one problem with D = ``numbers``. Its ``features_P`` start from N(0, 1)."""

    def __init__(self, settings: NetworkSettings, matrix: Any, numbers: int, rng: np.random.Generator) -> None:
        self._matrix = matrix
        depth = settings.depth
        self.features_P = rng.standard_normal(matrix.shape[0] * settings.width)
        # Each number is read from its own features. Columns have length 1.
        owners_DC = np.arange(settings.width) % numbers == np.arange(numbers)[:, None]
        self._readout_CD: Floats = np.asarray(owners_DC / np.sqrt(owners_DC.sum(axis=1, keepdims=True))).T
        self._shares = series(depth) if settings.residual == "series" else [0.0] * depth + [1.0]

    def __call__(self, features_P: Floats) -> Floats:
        """Return the output [N, D]."""
        h_NC = features_P.reshape(self._matrix.shape[0], -1)
        read_NC = self._shares[0] * h_NC
        for share in self._shares[1:]:
            h_NC = self._matrix @ h_NC
            if share:
                read_NC = read_NC + share * h_NC
        return read_NC @ self._readout_CD

    def pullback(self, gradient_ND: Floats) -> Floats:
        """Return the gradient [P] of the features from the gradient of the output. M is symmetric."""
        read_NC = gradient_ND @ self._readout_CD.T
        back_NC = self._shares[-1] * read_NC
        for share in self._shares[-2::-1]:
            back_NC = self._matrix @ back_NC + share * read_NC
        return back_NC.ravel()
