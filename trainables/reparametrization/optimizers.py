"""First-order optimisers of a stack: each run's parameters are a row of [S, P].

Constants are those of the methods' authors and of torch.optim. Beside them only the learning rate is chosen.
"""

from __future__ import annotations

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
    """An optimiser by name, with its rate [S, 1], its moments, each [S, P], and the steps that each run has taken."""

    def __init__(self, name: str, rate_S1: Tensor, like_SP: Tensor) -> None:
        self.name = name
        self.rate_S1 = rate_S1
        self.moments = [torch.zeros_like(like_SP) for _ in range(MOMENTS[name])]
        self.steps_S = torch.zeros(len(like_SP), dtype=torch.int64, device=like_SP.device)

    def step(self, parameters_SP: Tensor, gradient_SP: Tensor, stepping_S: Tensor) -> Tensor:
        """The parameters after a step of the runs that are ``stepping_S``, [S, P]. The others stay as they are, their
        moments, too."""
        self.steps_S = self.steps_S + stepping_S
        if stepping_S.all():
            return parameters_SP - self._move(gradient_SP)
        before = [moment.clone() for moment in self.moments]
        moved_SP = parameters_SP - self._move(gradient_SP)
        for moment, kept in zip(self.moments, before, strict=True):
            moment.copy_(torch.where(stepping_S[:, None], moment, kept))
        return torch.where(stepping_S[:, None], moved_SP, parameters_SP)

    def _move(self, gradient_SP: Tensor) -> Tensor:
        """What is to be taken off the parameters, [S, P]; moments go on by a step."""
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
        size_S1, root_S1 = self.rate_S1 / self._unbias(BETAS[0]), self._unbias(BETAS[1]).sqrt()
        return size_S1 * first / (second.sqrt() / root_S1 + EPSILON)

    def _unbias(self, beta: float) -> Tensor:
        """The share of a moment that is there after each run's steps, [S, 1]; 1 before the first."""
        shares = [1 - beta**steps if steps else 1.0 for steps in self.steps_S.tolist()]
        return torch.tensor(shares, dtype=torch.float64, device=self.steps_S.device)[:, None]

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows alone."""
        self.rate_S1, self.steps_S = self.rate_S1[rows], self.steps_S[rows]
        self.moments = [moment[rows].clone() for moment in self.moments]
