"""L-BFGS for a stack: every run with its own pairs and direction (Nocedal and Wright 2006, section 7.2).

Shapes: S runs, P unknowns of one, M pairs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.reparametrization.cost import HISTORY


class Pairs:
    """The last :data:`HISTORY` steps and changes of the gradient, [S, M, P] each, the newest last; an empty place has
    ``inverse`` 0."""

    def __init__(self, stack: int, unknowns: int, device: torch.device) -> None:
        self.steps_SMP = torch.zeros(stack, HISTORY, unknowns, dtype=torch.float64, device=device)
        self.changes_SMP = torch.zeros_like(self.steps_SMP)
        self.inverse_SM = torch.zeros(stack, HISTORY, dtype=torch.float64, device=device)

    def add(self, step_SP: Tensor, change_SP: Tensor, where_S: Tensor) -> None:
        """A new pair for the runs where ``where_S``; one without curvature is left out, so that directions go down."""
        curvature_S = (step_SP * change_SP).sum(dim=1)
        enough_S = curvature_S > 1e-12 * step_SP.norm(dim=1) * change_SP.norm(dim=1)
        rows = (where_S & enough_S).nonzero().flatten()
        for kept, new in ((self.steps_SMP, step_SP), (self.changes_SMP, change_SP)):
            kept[rows] = torch.cat([kept[rows, 1:], new[rows, None]], dim=1)
        self.inverse_SM[rows] = torch.cat([self.inverse_SM[rows, 1:], 1 / curvature_S[rows, None]], dim=1)

    def forget(self, where_S: Tensor) -> None:
        """Empty all places of these runs."""
        self.inverse_SM[where_S] = 0.0

    def direction(self, gradient_SP: Tensor) -> Tensor:
        """Minus the inverse Hessian these pairs imply times the gradient, [S, P]; without pairs a step of length 1 down
        the gradient."""
        q_SP = gradient_SP.clone()
        alphas = []
        for place in reversed(range(HISTORY)):
            alpha_S1 = (self.inverse_SM[:, place] * (self.steps_SMP[:, place] * q_SP).sum(dim=1))[:, None]
            q_SP -= alpha_S1 * self.changes_SMP[:, place]
            alphas.append(alpha_S1)
        newest_S = self.inverse_SM[:, -1]
        square_S = self.changes_SMP[:, -1].square().sum(dim=1)
        length_S = gradient_SP.norm(dim=1)
        scale_S = torch.where(newest_S > 0, 1 / (newest_S * square_S), 1 / length_S)
        q_SP *= scale_S[:, None]
        for place, alpha_S1 in zip(range(HISTORY), reversed(alphas), strict=True):
            beta_S1 = (self.inverse_SM[:, place] * (self.changes_SMP[:, place] * q_SP).sum(dim=1))[:, None]
            q_SP += (alpha_S1 - beta_S1) * self.steps_SMP[:, place]
        return -q_SP

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows alone."""
        self.steps_SMP, self.changes_SMP = self.steps_SMP[rows].clone(), self.changes_SMP[rows].clone()
        self.inverse_SM = self.inverse_SM[rows].clone()
