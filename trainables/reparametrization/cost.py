"""What methods pay for what they do, and what a step of each costs in floating-point operations, counted from its
formulas.

Additions, multiplications, divisions and roots count as one, a sine or cosine as :data:`SINE`. All numbers are per
node of the graph, with q entries in a row of its matrices (a node's neighbours and itself), D numbers a node and C
features. The backward pass of a network takes each sparse product again, and two dense products for one.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainables.reparametrization.settings import REPARAMETRIZED, NetworkSettings

SINE = 10
UPDATE = {"momentum": 4, "rmsprop": 8, "adam": 14}
"""An optimiser's update (optimizers.py), for a parameter."""
HISTORY = 10
"""Pairs that L-BFGS keeps."""


@dataclass(frozen=True)
class Price:
    """What a method pays, in units of the race: once at the ``setup``, for every ``look`` at the loss and its gradient,
    for a ``step`` beyond its look, and for a ``product`` with the Hessian."""

    setup: float
    look: float
    step: float
    product: float = 0.0


def step_flops(method: str, network: NetworkSettings, evaluation: float, entries: float, numbers: int) -> float:
    """A step of a method without line search, ``evaluation`` being what the loss and its gradient take."""
    if method not in REPARAMETRIZED:
        return evaluation + numbers * (UPDATE[method] + 1)
    width = network.width
    forward = network.depth * (2 * entries * width + 2 * width**2 + 3 * width) + 2 * width * numbers
    weights = 4 if network.train_weights else 2
    backward = network.depth * (2 * entries * width + weights * width**2 + 3 * width) + 4 * width * numbers
    return evaluation + forward + backward + width * (UPDATE[network.optimizer] + 1)


def setup_flops(method: str, hessian: float, entries: float) -> float:
    """What is computed once at the start: the Hessian, ``hessian`` for it, then its bound and the propagation."""
    return hessian + 4 * entries if method in REPARAMETRIZED else 0.0


def direction_flops(numbers: int) -> float:
    """A direction of L-BFGS: two loops over its pairs, an inner product and a sum in each, and a new pair."""
    return numbers * (8.0 * HISTORY + 8.0)


def conjugate_flops(numbers: int) -> float:
    """What conjugate gradients take beside their product with the Hessian: two inner products and three sums."""
    return 10.0 * numbers
