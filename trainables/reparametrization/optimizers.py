"""First-order optimisers of a stack: each run's parameters are a row of [S, P].

Constants are those of the methods' authors and of torch.optim. Beside them only the learning rate is chosen.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

MOMENTUM = 0.9
DECAY = 0.99
"""Of RMSProp's mean square."""
BETAS = (0.9, 0.999)
EPSILON = 1e-8

MOMENTS = {"momentum": 1, "rmsprop": 1, "adam": 2}
"""Numbers that each optimiser keeps for a parameter."""


class FirstOrder:
    """An optimiser by name, with its rate [S, 1] and its moments, each [S, P]."""

    def __init__(self, name: str, rate_S1: Tensor, like_SP: Tensor) -> None:
        self.name = name
        self.rate_S1 = rate_S1
        self.moments = [torch.zeros_like(like_SP) for _ in range(MOMENTS[name])]
        self.steps = 0

    def move(self, gradient_SP: Tensor) -> Tensor:
        """What is to be taken off the parameters, [S, P]; moments go on by a step."""
        self.steps += 1
        if self.name == "momentum":
            (velocity,) = self.moments
            return self.rate_S1 * velocity.mul_(MOMENTUM).add_(gradient_SP)
        if self.name == "rmsprop":
            (square,) = self.moments
            square.mul_(DECAY).addcmul_(gradient_SP, gradient_SP, value=1 - DECAY)
            return self.rate_S1 * gradient_SP / (square.sqrt() + EPSILON)
        first, second = self.moments
        first.mul_(BETAS[0]).add_(gradient_SP, alpha=1 - BETAS[0])
        second.mul_(BETAS[1]).addcmul_(gradient_SP, gradient_SP, value=1 - BETAS[1])
        size = self.rate_S1 / (1 - BETAS[0] ** self.steps)
        return size * first / (second.sqrt() / math.sqrt(1 - BETAS[1] ** self.steps) + EPSILON)

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows alone."""
        self.rate_S1 = self.rate_S1[rows]
        self.moments = [moment[rows].clone() for moment in self.moments]
