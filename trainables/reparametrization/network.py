"""The graph network whose output the unknowns are.

Every node has C features z, parameters as the weights are. A layer is ``h <- act(P h W)``, with a residual
``h <- (h + act(P h W)) / 2``, and the unknowns are ``h V``. P is fixed: ``I - (1 - damping) H / h`` with the Hessian H of the
loss at the start and a bound h of its spectrum (arXiv 2205.13624 has the idea; layers and bound are this project's
reading of it), or the same with a control in place of H. One over the other, layers are a polynomial in H, so that a
step of gradient descent on z moves the unknowns against the gradient times that polynomial squared: a large step
where H is small, as in Newton's method. The half keeps the polynomial between 0 and 1, whatever the depth.

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
    """First parameters [P]: features from N(0, 1), a readout of +-1 / sqrt(width), and identities as weights, so that a
    layer begins as ``(1 + P) / 2``, which is largest where H is smallest."""
    width = settings.width
    features = rng.standard_normal(nodes * width)
    readout = rng.choice((-1.0, 1.0), width * numbers) / math.sqrt(width)
    return np.concatenate([features, np.tile(np.eye(width).ravel(), settings.depth), readout])


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
        features_SP, weights_SP, readout_SP = parameters_SP.split(sizes, dim=1)
        h_SNC = features_SP.unflatten(1, (self._nodes, width))
        weights_SLCC = weights_SP.unflatten(1, (settings.depth, width, width))
        for layer in range(settings.depth):
            moved_SNC = self._propagate(h_SNC) @ weights_SLCC[:, layer]
            if settings.activation == "tanh":
                moved_SNC = torch.tanh(moved_SNC)
            h_SNC = (h_SNC + moved_SNC) / 2 if settings.residual else moved_SNC
        return h_SNC @ readout_SP.unflatten(1, (width, self._numbers))

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
