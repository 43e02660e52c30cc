"""Methods that search along a line: L-BFGS and Newton's with conjugate gradients.

Shapes: S runs at work, N nodes, D numbers a node, P unknowns of one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from trainables.reparametrization.cost import Price
from trainables.reparametrization.lbfgs import Pairs
from trainables.reparametrization.methods import Method
from trainables.reparametrization.newton import newton_direction
from trainables.reparametrization.problems import Problem

SUFFICIENT = 1e-4
"""Armijo: a step is taken where the loss falls by this share of what its slope promises."""
SHRINK = 0.5
HALVINGS = 30
"""A line search that fails so often has met the limits of float64: the run stays where it is."""


class LineSearch(Method):
    """A direction, then a line search that begins with all of it and halves until the loss falls enough."""

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        super().__init__(problem, price, tolerance)
        self._excess_S, self._gradient_SND = problem.evaluate(self.x_SND)
        self.spent_S += price.look

    @abstractmethod
    def _direction(self, going_S: Tensor) -> Tensor:
        """Where each run goes from where it is, [S, P], downhill; what that takes beyond a step's price is paid."""

    @abstractmethod
    def _after(self, step_SP: Tensor, change_SP: Tensor, moved_S: Tensor, failed_S: Tensor) -> None:
        """What is learned from a search: how far each run moved and how its gradient changed, [S, P]; the runs that
        did, and those whose search failed."""

    def run(self, until: float) -> None:
        while True:
            # The least a step takes: its direction, and one look. What is more than that is paid when it is taken.
            going_S = self._going() & (self.spent_S + self.price.look + self.price.step <= until)
            if not going_S.any():
                return
            self._step(going_S)

    def _step(self, going_S: Tensor) -> None:
        direction_SP = self._direction(going_S)
        slope_S = (direction_SP * self._gradient_SND.flatten(1)).sum(dim=1)
        length_S = torch.ones_like(slope_S)
        searching_S = going_S.clone()
        best_SND, best_S, best_gradient_SND = self.x_SND, self._excess_S, self._gradient_SND
        self.spent_S += going_S * self.price.step
        for _ in range(HALVINGS):
            step_SND = (length_S[:, None] * direction_SP).view_as(self.x_SND)
            tried_SND = self.x_SND + step_SND
            excess_S, gradient_SND = self.problem.evaluate(tried_SND)
            self.spent_S += searching_S * self.price.look
            good_S = searching_S & (excess_S <= self._excess_S + SUFFICIENT * length_S * slope_S)
            best_SND = torch.where(good_S[:, None, None], tried_SND, best_SND)
            best_gradient_SND = torch.where(good_S[:, None, None], gradient_SND, best_gradient_SND)
            best_S = torch.where(good_S, excess_S, best_S)
            searching_S = searching_S & ~good_S
            if not searching_S.any():
                break
            length_S = torch.where(searching_S, SHRINK * length_S, length_S)
        step_SP, change_SP = (best_SND - self.x_SND).flatten(1), (best_gradient_SND - self._gradient_SND).flatten(1)
        self._after(step_SP, change_SP, going_S & ~searching_S, searching_S)
        self.x_SND, self._excess_S, self._gradient_SND = best_SND, best_S, best_gradient_SND
        self.steps_S += going_S
        self._note(best_S, going_S)

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | {"excess": self._excess_S, "gradient": self._gradient_SND}

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        self._excess_S, self._gradient_SND = tensors["excess"], tensors["gradient"]

    def _keep(self, rows: Sequence[int], index: Tensor) -> None:
        self._excess_S, self._gradient_SND = self._excess_S[index].clone(), self._gradient_SND[index].clone()


class Lbfgs(LineSearch):
    """L-BFGS; a run whose line search fails forgets its pairs and goes on downhill."""

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        super().__init__(problem, price, tolerance)
        self._pairs = Pairs(len(self.x_SND), self.x_SND[0].numel(), problem.device)

    def _direction(self, going_S: Tensor) -> Tensor:
        return self._pairs.direction(self._gradient_SND.flatten(1))

    def _after(self, step_SP: Tensor, change_SP: Tensor, moved_S: Tensor, failed_S: Tensor) -> None:
        self._pairs.add(step_SP, change_SP, moved_S)
        self._pairs.forget(failed_S)

    def tensors(self) -> dict[str, Tensor]:
        pairs = self._pairs
        own = {"pair_steps": pairs.steps_SMP, "pair_changes": pairs.changes_SMP, "pair_inverse": pairs.inverse_SM}
        return super().tensors() | own

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        pairs = self._pairs
        pairs.steps_SMP, pairs.changes_SMP = tensors["pair_steps"], tensors["pair_changes"]
        pairs.inverse_SM = tensors["pair_inverse"]

    def _keep(self, rows: Sequence[int], index: Tensor) -> None:
        super()._keep(rows, index)
        self._pairs.keep(index)


class Newton(LineSearch):
    """Newton's method, its directions by conjugate gradients from products with the Hessian where a run is. Each
    product is paid. A step's products end before the step does: one may end beyond what may be spent."""

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        super().__init__(problem, price, tolerance)
        self._first_norm_S = self._gradient_SND.flatten(1).norm(dim=1)

    def _direction(self, going_S: Tensor) -> Tensor:
        curvature = self.problem.curvature(self.x_SND)

        def product(direction_SP: Tensor) -> Tensor:
            return curvature(direction_SP.view_as(self.x_SND)).flatten(1)

        direction_SP, products_S = newton_direction(product, self._gradient_SND.flatten(1), self._first_norm_S, going_S)
        self.spent_S += products_S * self.price.product
        return direction_SP

    def _after(self, step_SP: Tensor, change_SP: Tensor, moved_S: Tensor, failed_S: Tensor) -> None:
        """Nothing: every direction is made anew."""

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | {"first_norm": self._first_norm_S}

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        self._first_norm_S = tensors["first_norm"]

    def _keep(self, rows: Sequence[int], index: Tensor) -> None:
        super()._keep(rows, index)
        self._first_norm_S = self._first_norm_S[index].clone()
