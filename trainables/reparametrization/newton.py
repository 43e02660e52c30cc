"""A direction of Newton's method without the Hessian's inverse or the Hessian itself: by conjugate gradients that end
early (Nocedal and Wright 2006, algorithm 7.1).

Shapes: S runs, P unknowns of one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

LOOSE = 0.5
"""The largest residual, as a share of the gradient, that a direction is left with."""
MOST_PRODUCTS = 200
"""In one direction. Conjugate gradients go downhill from their first product on, so that fewer than it takes to solve
the system cost steps and nothing else."""


def newton_direction(
    product: Callable[[Tensor], Tensor], gradient_SP: Tensor, first_S: Tensor, going_S: Tensor
) -> tuple[Tensor, Tensor]:
    """Directions d [S, P] with ``H d`` near minus the gradient, and how many products each run's took, [S].

    ``product`` is the Hessian's, [S, P]; ``first_S`` is the length of each run's first gradient. The residual left is
    the gradient's length times the root of what is left of its first length, and at most :data:`LOOSE` of it, with
    which Newton's steps converge faster than linearly. Where curvature is not positive the direction stays what it is;
    as the first, it is down the gradient. Runs that are not ``going_S`` pay nothing and have a direction of zeros.
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
