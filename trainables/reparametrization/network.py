"""The graph network whose output the unknowns are.

Every node has C features z, parameters as the weights are. A layer is ``h <- act(P h W)``, and the unknowns are read
out, ``h V``. P is fixed: ``1 - (1 - damping) H`` with the Hessian H of the loss at the start, scaled to a spectrum
within 1 (arXiv 2205.13624 has the idea; layers and scale are this project's reading of it), or the same with a control
in place of H. Where the unknowns are ``R z``, a step of gradient descent on z moves them against ``R R'`` times the
gradient, which were Newton's step with ``R = H^-1/2``. As its series in P, ``sum_k c_k P^k`` with
``c_k = (2k choose k) / 4^k``, cut off at the depth, that is what a network without activation begins as when the layers
are read out together (``residual: series``), but for a factor that makes it 1 where H is 0.

The network's first output is taken off and the start of the problem put in its place, so that all methods begin at the
same state. Shapes as in stacked.py; P parameters of one network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sparse
import torch
from torch import Tensor

from trainables.reparametrization.problems import Floats, Instance
from trainables.reparametrization.settings import NetworkSettings
from trainables.reparametrization.stacked import SparseStack


def propagation(rule: str, instance: Instance, settings: NetworkSettings, rng: np.random.Generator) -> Any:
    """The matrix P [N, N] by its rule, scipy CSR.

    ``hessian`` is made from the Hessian at the start, ``laplacian`` from the Laplacian of the bare graph; ``random``
    is the Hessian's with its nodes shuffled: the same spectrum and the same cost, about another graph.
    """
    matrix = instance.laplacian if rule == "laplacian" else instance.hessian
    if rule == "random":
        shuffled = rng.permutation(matrix.shape[0])
        matrix = matrix[shuffled][:, shuffled]
    # Gershgorin: no eigenvalue is larger than the largest sum of absolute values in a row; of the matrix scaled by the
    # roots of these sums, which has the spectrum of a matrix with rows that sum to 1 at most, none is larger than 1.
    sums = np.asarray(np.abs(matrix).sum(axis=1)).ravel()
    roots = np.sqrt(sums if settings.scale == "degree" else np.full_like(sums, sums.max()))
    scaled = sparse.diags(1 / roots) @ matrix @ sparse.diags(1 / roots)
    found = (sparse.eye(matrix.shape[0]) - (1 - settings.damping) * scaled).tocsr()
    found.sort_indices()
    return found


def count_parameters(settings: NetworkSettings, nodes: int, numbers: int) -> int:
    """Parameters of a network on ``nodes`` nodes that have ``numbers`` unknowns each."""
    width = settings.width
    return nodes * width + settings.depth * width * width + width * numbers


def initial(settings: NetworkSettings, nodes: int, numbers: int, rng: np.random.Generator) -> Floats:
    """First parameters [P]: features from N(0, 1), a readout of +-1 / sqrt(width), and identities as weights, so that
    layers begin as powers of P. Several numbers are read out by columns that are orthogonal, each of length 1, too."""
    width = settings.width
    features = rng.standard_normal(nodes * width)
    if numbers == 1:
        readout = rng.choice((-1.0, 1.0), width) / math.sqrt(width)
    else:
        assert width >= numbers, "with fewer features than numbers the output lies in a part of the space"
        readout = np.linalg.qr(rng.standard_normal((width, numbers)))[0].ravel()
    return np.concatenate([features, np.tile(np.eye(width).ravel(), settings.depth), readout])


def series(depth: int) -> list[float]:
    """The first ``depth + 1`` coefficients of ``(1 - P)^-1/2`` in powers of P, as shares of their sum."""
    coefficients = [1.0]
    for power in range(1, depth + 1):
        coefficients.append(coefficients[-1] * (2 * power - 1) / (2 * power))
    return [one / sum(coefficients) for one in coefficients]


class Network:
    """The networks of a stack, as one."""

    def __init__(self, settings: NetworkSettings, matrices: Sequence[Any], numbers: int, device: torch.device) -> None:
        self._settings = settings
        self._numbers = numbers
        self._nodes = matrices[0].shape[0]
        self._propagate = SparseStack(matrices, device)

    def __call__(self, parameters_SP: Tensor) -> Tensor:
        """The output [S, N, D]."""
        settings = self._settings
        width = settings.width
        sizes = [self._nodes * width, settings.depth * width * width, width * self._numbers]
        features_SP, weights_SP, readout_SP = torch.split(parameters_SP, sizes, dim=1)
        h_SNC = features_SP.reshape(-1, self._nodes, width)
        weights_SLCC = weights_SP.reshape(-1, settings.depth, width, width)
        shares = series(settings.depth)
        sum_SNC = shares[0] * h_SNC
        for layer in range(settings.depth):
            moved_SNC = self._propagate(h_SNC) @ weights_SLCC[:, layer]
            if settings.activation == "tanh":
                moved_SNC = torch.tanh(moved_SNC)
            h_SNC = (h_SNC + moved_SNC) / 2 if settings.residual == "halves" else moved_SNC
            sum_SNC = sum_SNC + shares[layer + 1] * h_SNC
        read_SNC = sum_SNC if settings.residual == "series" else h_SNC
        output_SND: Tensor = read_SNC @ readout_SP.reshape(-1, width, self._numbers)
        return output_SND

    def output_and_pullback(self, parameters_SP: Tensor) -> tuple[Tensor, Any]:
        """The output without gradients, and a function from a gradient [S, N, D] to that of the parameters [S, P]."""
        leaf_SP = parameters_SP.detach().requires_grad_()
        output_SND = self(leaf_SP)

        def pullback(gradient_SND: Tensor) -> Tensor:
            # A run's output depends on its own parameters alone, so each row holds its run's own gradient.
            (gradient_SP,) = torch.autograd.grad(output_SND, leaf_SP, gradient_SND)
            if not self._settings.train_weights:
                gradient_SP[:, self._nodes * self._settings.width :] = 0.0
            return gradient_SP

        return output_SND.detach(), pullback

    def take(self, rows: Sequence[int]) -> Network:
        """The networks of some of the runs."""
        mine = Network.__new__(Network)
        mine._settings, mine._numbers, mine._nodes = self._settings, self._numbers, self._nodes
        mine._propagate = self._propagate.take(rows)
        return mine
