"""Methods that search along a line: conjugate gradients, L-BFGS, and Newton's method.

Shapes: S runs at work, N nodes, D numbers a node, P unknowns of one, M pairs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from trainables.reparametrization.methods import Method, Price
from trainables.reparametrization.problems import Problem, inner
from trainables.reparametrization.settings import HISTORY

SUFFICIENT = 1e-4
"""Armijo: a step is taken if the loss falls by this share of what its slope promises."""
SHRINK = 0.5
HALVINGS = 30
"""A line search that fails so often has met the limits of float64: the run stays where it is."""
LOOSE = 0.5
"""The largest residual of Newton's system that is left, as a share of the gradient."""
MOST_PRODUCTS = 200
"""In one of Newton's directions. Conjugate gradients go downhill from their first product on, so that fewer than it
takes to solve the system cost steps and nothing else."""


class LineSearch(Method):
    """A direction, then a line search that begins with all of it and halves until the loss falls enough."""

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        super().__init__(problem, price, tolerance)
        self._excess_S, self._gradient_SND = problem.evaluate(self.x_SND)
        self.spent_S += price.look

    @abstractmethod
    def _direction(self, going_S: Tensor) -> Tensor:
        """A direction downhill for each run, [S, P]. Its cost beyond a step's price is paid here."""

    def _after(self, step_SP: Tensor, change_SP: Tensor, moved_S: Tensor, failed_S: Tensor) -> None:
        """Learn from a search: each run's move and change of gradient, [S, P]; the runs that moved, and those whose
        search failed."""

    def run(self, until: float) -> None:
        while True:
            # The least a step takes: its direction, and one look. Anything beyond is paid when it is taken.
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


class ConjugateGradients(LineSearch):
    """Conjugate gradients with Jacobi's preconditioner (Nocedal and Wright 2006, sections 5.1 and 5.2): Polak and
    Ribiere's directions, none with a negative share of the last, and the step that is least on the line by one product
    with the Hessian. On a quadratic these are the linear method's. If curvature is not positive, the step is the
    direction itself, which the preconditioner has scaled."""

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        super().__init__(problem, price, tolerance)
        self._search_SND = torch.zeros_like(self.x_SND)
        self._last_SND = torch.zeros_like(self.x_SND)
        self._square_S = torch.zeros_like(self.gap_S)

    def _direction(self, going_S: Tensor) -> Tensor:
        gradient_SND = self._gradient_SND
        scaled_SND = gradient_SND / self.problem.diagonal(self.x_SND)
        change_S = inner(scaled_SND, gradient_SND - self._last_SND)
        share_S = torch.where(self._square_S > 0, change_S / self._square_S, 0.0).clamp(min=0)
        search_SND = share_S[:, None, None] * self._search_SND - scaled_SND
        slope_S = inner(search_SND, gradient_SND)
        search_SND = torch.where((slope_S < 0)[:, None, None], search_SND, -scaled_SND)
        slope_S = torch.where(slope_S < 0, slope_S, -inner(scaled_SND, gradient_SND))
        curvature_S = inner(search_SND, self.problem.curvature(self.x_SND)(search_SND))
        self.spent_S += going_S * self.price.product
        step_S = torch.where(curvature_S > 0, -slope_S / curvature_S, 1.0)
        # Runs that wait for more to spend keep their direction.
        going_S11 = going_S[:, None, None]
        self._search_SND = torch.where(going_S11, search_SND, self._search_SND)
        self._last_SND = torch.where(going_S11, gradient_SND, self._last_SND)
        self._square_S = torch.where(going_S, inner(scaled_SND, gradient_SND), self._square_S)
        return (step_S[:, None, None] * search_SND).flatten(1)

    def _after(self, step_SP: Tensor, change_SP: Tensor, moved_S: Tensor, failed_S: Tensor) -> None:
        """A search that failed is followed by the preconditioned gradient."""
        self._square_S = torch.where(failed_S, 0.0, self._square_S)

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | {"search": self._search_SND, "last": self._last_SND, "square": self._square_S}

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        self._search_SND, self._last_SND, self._square_S = tensors["search"], tensors["last"], tensors["square"]


class Lbfgs(LineSearch):
    """L-BFGS (Nocedal and Wright 2006, section 7.2). It keeps the last :data:`HISTORY` steps and changes of the
    gradient, [S, M, P] each, the newest last; an empty place has ``inverse`` 0. A run whose line search fails forgets
    its pairs and goes on downhill."""

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        super().__init__(problem, price, tolerance)
        stack, unknowns = self.x_SND.flatten(1).shape
        self._steps_SMP = torch.zeros(stack, HISTORY, unknowns, dtype=torch.float64, device=problem.device)
        self._changes_SMP = torch.zeros_like(self._steps_SMP)
        self._inverse_SM = torch.zeros(stack, HISTORY, dtype=torch.float64, device=problem.device)

    def _direction(self, going_S: Tensor) -> Tensor:
        """Minus the inverse Hessian these pairs imply times the gradient; without pairs a step of length 1 down the
        gradient."""
        q_SP = self._gradient_SND.flatten(1).clone()
        length_S = q_SP.norm(dim=1)
        alphas = []
        for place in reversed(range(HISTORY)):
            alpha_S1 = (self._inverse_SM[:, place] * (self._steps_SMP[:, place] * q_SP).sum(dim=1))[:, None]
            q_SP -= alpha_S1 * self._changes_SMP[:, place]
            alphas.append(alpha_S1)
        newest_S = self._inverse_SM[:, -1]
        square_S = self._changes_SMP[:, -1].square().sum(dim=1)
        q_SP *= torch.where(newest_S > 0, 1 / (newest_S * square_S), 1 / length_S)[:, None]
        for place, alpha_S1 in zip(range(HISTORY), reversed(alphas), strict=True):
            beta_S1 = (self._inverse_SM[:, place] * (self._changes_SMP[:, place] * q_SP).sum(dim=1))[:, None]
            q_SP += (alpha_S1 - beta_S1) * self._steps_SMP[:, place]
        return -q_SP

    def _after(self, step_SP: Tensor, change_SP: Tensor, moved_S: Tensor, failed_S: Tensor) -> None:
        """A pair without curvature is left out, so that directions go down."""
        curvature_S = (step_SP * change_SP).sum(dim=1)
        enough_S = curvature_S > 1e-12 * step_SP.norm(dim=1) * change_SP.norm(dim=1)
        rows = (moved_S & enough_S).nonzero().flatten()
        for kept, new in ((self._steps_SMP, step_SP), (self._changes_SMP, change_SP)):
            kept[rows] = torch.cat([kept[rows, 1:], new[rows, None]], dim=1)
        self._inverse_SM[rows] = torch.cat([self._inverse_SM[rows, 1:], 1 / curvature_S[rows, None]], dim=1)
        self._inverse_SM[failed_S] = 0.0

    def tensors(self) -> dict[str, Tensor]:
        own = {"pair_steps": self._steps_SMP, "pair_changes": self._changes_SMP, "pair_inverse": self._inverse_SM}
        return super().tensors() | own

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        self._steps_SMP, self._changes_SMP = tensors["pair_steps"], tensors["pair_changes"]
        self._inverse_SM = tensors["pair_inverse"]


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

        gradient_SP = self._gradient_SND.flatten(1)
        direction_SP, products_S = newton_direction(product, gradient_SP, self._first_norm_S, going_S)
        self.spent_S += products_S * self.price.product
        return direction_SP

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | {"first_norm": self._first_norm_S}

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        self._first_norm_S = tensors["first_norm"]


def newton_direction(
    product: Callable[[Tensor], Tensor], gradient_SP: Tensor, first_S: Tensor, going_S: Tensor
) -> tuple[Tensor, Tensor]:
    """Directions d [S, P] with ``H d`` near minus the gradient, and the products each run took, [S] (Nocedal and Wright
    2006, algorithm 7.1).

    ``product`` is the Hessian's, [S, P]; ``first_S`` is the length of each run's first gradient. The residual left is
    the gradient's length times the root of its share of the first, and at most :data:`LOOSE` of it, so that Newton's
    steps converge faster than linearly. If curvature is not positive the direction stays; as the first, it is down the
    gradient. Runs that are not ``going_S`` pay nothing and have a direction of zeros.
    """
    length_S = gradient_SP.norm(dim=1)
    share_S = (length_S / first_S).sqrt().clamp(max=LOOSE)
    direction_SP = torch.zeros_like(gradient_SP)
    residual_SP, search_SP = gradient_SP.clone(), -gradient_SP
    square_S = length_S.square()
    products_S = torch.zeros_like(square_S)
    active_S = going_S & (length_S > 0)
    for count in range(MOST_PRODUCTS):
        if not active_S.any():
            break
        bent_SP = product(search_SP)
        products_S += active_S
        curvature_S = (search_SP * bent_SP).sum(dim=1)
        up_S = active_S & (curvature_S > 0)
        if count == 0:
            direction_SP = torch.where((active_S & ~up_S)[:, None], search_SP, direction_SP)
        step_S1 = torch.where(up_S, square_S / curvature_S, 0.0)[:, None]
        direction_SP = torch.where(up_S[:, None], direction_SP + step_S1 * search_SP, direction_SP)
        residual_SP = torch.where(up_S[:, None], residual_SP + step_S1 * bent_SP, residual_SP)
        left_S = residual_SP.square().sum(dim=1)
        active_S = up_S & (left_S.sqrt() > share_S * length_S)
        search_SP = torch.where(active_S[:, None], -residual_SP + (left_S / square_S)[:, None] * search_SP, search_SP)
        square_S = left_S
    return direction_SP, products_S
