"""The methods of the races, each a loop of steps on one problem.

First-order methods (SGD with momentum, Adam) move the unknowns or a network's features at a fixed rate. Conjugate
gradients, L-BFGS and Newton's method search along a line. Shapes: N nodes, D numbers per node, P parameters, M pairs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainables.base import RunConfig
from trainables.reparametrization.graphs import Floats, rng_of
from trainables.reparametrization.network import Network, propagation
from trainables.reparametrization.problems import Curvature, Problem
from trainables.reparametrization.settings import HISTORY, REPARAMETRIZED, ReparametrizationSettings

# Constants of torch.optim. Only the learning rate can be set.
MOMENTUM = 0.9
"""Momentum of SGD."""
BETAS = (0.9, 0.999)
"""Decay of Adam's averages of gradients and of their squares."""
EPSILON = 1e-8
"""Smallest divisor of Adam."""
SUFFICIENT = 1e-4
"""Armijo's rule: a step shrinks until the loss falls by at least this share of the fall that its slope predicts."""
SHRINK = 0.5
"""Factor by which a step shrinks."""
HALVINGS = 30
"""Maximum number of times that a step shrinks. A search that fails so often has reached the limits of float64, and the
method does not move."""
LOOSE = 0.5
"""Largest residual of Newton's system, as a share of the gradient."""
MOST_PRODUCTS = 200
"""Maximum number of products per direction. Even one product gives a direction of descent, so too few products only
cost steps."""


class Price(NamedTuple):
    """Prices of a method, in units of the race.

    Attributes:
        setup: Price before the first step.
        evaluation: Price of a loss and its gradient.
        step: Price of a step, without its evaluation.
        product: Price of a product with the Hessian.
    """

    setup: float
    evaluation: float
    step: float
    product: float = 0.0


@dataclass
class Standing:
    """State of one method in one race.

    Attributes:
        spent: Cost so far, in units of the race.
        steps: Number of steps so far.
        gap: Distance of the loss from the solution's loss, as a share of the distance at the start. Not finite for a
            broken method.
        arrived: True if the method has reached the tolerance.
        broken: True if the loss is not finite.
        seconds: Computing time so far.
    """

    spent: float = 0.0
    steps: int = 0
    gap: float = 1.0
    arrived: bool = False
    broken: bool = False
    seconds: float = 0.0

    @property
    def ended(self) -> bool:
        """True if the method takes no more steps."""
        return self.arrived or self.broken

    def arrives_within(self, budget: float) -> bool:
        """Return True if the method arrived within ``budget``. A line search or Newton's direction may exceed it."""
        return self.arrived and self.spent <= budget


class Method(ABC):
    """One method on one problem, from the problem's start."""

    kept: ClassVar[tuple[str, ...]] = ("x", "first")
    """Attributes that a checkpoint stores in addition to the standing."""

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        self.problem = problem
        self.price = price
        self.tolerance = tolerance
        self.standing = Standing(spent=price.setup)
        self.x = problem.start
        self.first = problem.evaluate(self.x)[0]

    def run(self, until: float) -> None:
        """Take steps until the method has ended or its next step would exceed ``until``."""
        least = self.price.evaluation + self.price.step
        # The squares of a diverging method overflow, and it counts as broken.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            while not self.standing.ended and self.standing.spent + least <= until:
                self._step()

    @abstractmethod
    def _step(self) -> None:
        """Take one step and update the standing."""

    def _note(self, loss: float) -> None:
        standing = self.standing
        gap = float(loss / self.first)
        standing.gap = gap
        standing.arrived = gap <= self.tolerance
        standing.broken = not math.isfinite(gap)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a checkpoint."""
        return {name: np.asarray(getattr(self, name)) for name in self.kept}

    def load(self, arrays: Mapping[str, NDArray[Any]], standing: Standing) -> None:
        """Continue from the arrays and the standing of a checkpoint."""
        self.standing = standing
        for name in self.kept:
            setattr(self, name, arrays[name][()])


class Descent(Method):
    """SGD with momentum or Adam, on the unknowns or on a network's features."""

    kept = (*Method.kept, "parameters", "moments")

    def __init__(
        self, problem: Problem, price: Price, tolerance: float, optimizer: str, rate: float, network: Network | None
    ) -> None:
        super().__init__(problem, price, tolerance)
        self._optimizer = optimizer
        self._rate = rate
        self._network = network
        self.parameters = self.x.ravel() if network is None else network.features_P
        self.moments = np.zeros((1 if optimizer == "momentum" else 2, len(self.parameters)))
        # With this offset a network's first output is the start that all methods share.
        self._offset = 0.0 if network is None else self.x - network(self.parameters)

    def _step(self) -> None:
        network = self._network
        standing = self.standing
        self.x = self.parameters.reshape(self.x.shape) if network is None else network(self.parameters) + self._offset
        loss, gradient_ND = self.problem.evaluate(self.x)
        self._note(loss)
        # A method that has arrived pays only for this evaluation.
        standing.spent += self.price.evaluation + (0.0 if standing.ended else self.price.step)
        if standing.ended:
            return
        standing.steps += 1
        gradient_P = gradient_ND.ravel() if network is None else network.pullback(gradient_ND)
        if self._optimizer == "momentum":
            self.moments = MOMENTUM * self.moments + gradient_P
            self.parameters = self.parameters - self._rate * self.moments[0]
            return
        first, second = self.moments
        first *= BETAS[0]
        first += (1 - BETAS[0]) * gradient_P
        second *= BETAS[1]
        second += (1 - BETAS[1]) * gradient_P * gradient_P
        unbias, root = (1 - beta**standing.steps for beta in BETAS)
        move_P = self._rate / unbias * first / (np.sqrt(second) / math.sqrt(root) + EPSILON)
        self.parameters = self.parameters - move_P


class LineSearch(Method):
    """A method that chooses a direction and then halves its step until the loss falls enough."""

    kept = (*Method.kept, "loss", "gradient")

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        super().__init__(problem, price, tolerance)
        self.loss, self.gradient = problem.evaluate(self.x)
        self.standing.spent += price.evaluation

    @abstractmethod
    def _direction(self) -> Floats:
        """Return a descent direction [N, D] and pay for its products."""

    def _moved(self, step_ND: Floats, change_ND: Floats) -> None:
        """Record a step and the resulting change of the gradient."""

    def _failed(self) -> None:
        """Prepare for the next step after a failed search."""

    def _step(self) -> None:
        direction_ND = self._direction()
        standing = self.standing
        slope = float(np.vdot(direction_ND, self.gradient))
        standing.spent += self.price.step
        standing.steps += 1
        for length in (SHRINK**halvings for halvings in range(HALVINGS)):
            tried_ND = self.x + length * direction_ND
            loss, gradient_ND = self.problem.evaluate(tried_ND)
            standing.spent += self.price.evaluation
            if loss <= self.loss + SUFFICIENT * length * slope:
                self._moved(tried_ND - self.x, gradient_ND - self.gradient)
                self.x = tried_ND
                self.loss = loss
                self.gradient = gradient_ND
                break
        else:
            self._failed()
        self._note(self.loss)


class ConjugateGradients(LineSearch):
    """Conjugate gradients with Jacobi's preconditioner (Nocedal and Wright 2006, sections 5.1 and 5.2), Polak and
    Ribiere's directions, and a step from one product with the Hessian.

    On a quadratic this is the linear method. Without positive curvature, the step is the direction itself.
    """

    kept = (*LineSearch.kept, "search", "last", "square")
    search: Floats | float = 0.0
    last: Floats | float = 0.0
    square = 0.0

    def _direction(self) -> Floats:
        gradient_ND = self.gradient
        scaled_ND = gradient_ND / self.problem.diagonal(self.x)
        change = float(np.vdot(scaled_ND, gradient_ND - self.last))
        share = max(0.0, change / self.square) if self.square > 0 else 0.0
        search_ND = share * self.search - scaled_ND
        square = float(np.vdot(scaled_ND, gradient_ND))
        if not (slope := float(np.vdot(search_ND, gradient_ND))) < 0:
            search_ND = -scaled_ND
            slope = -square
        curvature = float(np.vdot(search_ND, self.problem.curvature(self.x)(search_ND)))
        self.standing.spent += self.price.product
        self.search = search_ND
        self.last = gradient_ND
        self.square = square
        return (-slope / curvature if curvature > 0 else 1.0) * search_ND

    def _failed(self) -> None:
        self.square = 0.0  # The next direction is the preconditioned gradient.


class Lbfgs(LineSearch):
    """L-BFGS (Nocedal and Wright 2006, section 7.2). ``pairs`` [M, 2, P] are the last :data:`HISTORY` moves and changes
    of the gradient, the newest last."""

    kept = (*LineSearch.kept, "pairs")
    pairs: Floats = np.empty((0, 2, 0))

    def _direction(self) -> Floats:
        """Return minus the pairs' inverse Hessian times the gradient. Without pairs, return a step of length 1."""
        q_P = self.gradient.ravel().copy()
        alphas = []
        scale = 1 / float(np.linalg.norm(q_P))
        for step_P, change_P in self.pairs[::-1]:
            alphas.append(float(step_P @ q_P) / float(step_P @ change_P))
            q_P -= alphas[-1] * change_P
        for step_P, change_P in self.pairs[-1:]:
            scale = float(step_P @ change_P) / float(change_P @ change_P)
        q_P *= scale
        for (step_P, change_P), alpha in zip(self.pairs, reversed(alphas), strict=True):
            q_P += (alpha - float(change_P @ q_P) / float(step_P @ change_P)) * step_P
        return -q_P.reshape(self.x.shape)

    def _moved(self, step_ND: Floats, change_ND: Floats) -> None:
        # Skip pairs without curvature, so that directions descend.
        if np.vdot(step_ND, change_ND) > 1e-12 * np.linalg.norm(step_ND) * np.linalg.norm(change_ND):
            pairs = self.pairs.reshape(-1, 2, step_ND.size)
            self.pairs = np.concatenate([pairs, [[step_ND.ravel(), change_ND.ravel()]]])[-HISTORY:]

    def _failed(self) -> None:
        self.pairs = self.pairs[:0]


class Newton(LineSearch):
    """Newton's method. Directions come from conjugate gradients, which pay for each product with the Hessian."""

    kept = (*LineSearch.kept, "first_norm")
    first_norm = 0.0

    def _direction(self) -> Floats:
        self.first_norm = self.first_norm or float(np.linalg.norm(self.gradient))
        direction_ND, products = newton_direction(self.problem.curvature(self.x), self.gradient, self.first_norm)
        self.standing.spent += products * self.price.product
        return direction_ND


def newton_direction(product: Curvature, gradient_ND: Floats, first: float) -> tuple[Floats, int]:
    """Return a direction d [N, D] with ``H d`` near minus the gradient, and the number of products with H.

    This is algorithm 7.1 of Nocedal and Wright 2006. Without positive curvature, the direction is the negative
    gradient. ``first`` is the length of the first gradient. The allowed residual, as a share of the gradient, shrinks
    with the gradient. Newton's steps therefore converge faster than linearly.
    """
    length = float(np.linalg.norm(gradient_ND))
    enough = min(math.sqrt(length / first), LOOSE) * length
    direction_ND = np.zeros_like(gradient_ND)
    residual_ND = gradient_ND
    search_ND = -gradient_ND
    square = length**2
    for count in range(1, MOST_PRODUCTS + 1):
        bent_ND = product(search_ND)
        curvature = float(np.vdot(search_ND, bent_ND))
        if not curvature > 0:
            return (search_ND if count == 1 else direction_ND), count
        direction_ND = direction_ND + square / curvature * search_ND
        residual_ND = residual_ND + square / curvature * bent_ND
        left = float(np.vdot(residual_ND, residual_ND))
        if math.sqrt(left) <= enough:
            return direction_ND, count
        search_ND = left / square * search_ND - residual_ND
        square = left
    return direction_ND, MOST_PRODUCTS


SEARCHING: dict[str, type[LineSearch]] = {"cg": ConjugateGradients, "lbfgs": Lbfgs, "newton": Newton}
"""Methods that search along a line, by name."""


def method_of(name: str, problem: Problem, run: RunConfig, price: Price) -> Method:
    """Return the method with this name, at the start of a run's problem."""
    settings: ReparametrizationSettings = run.settings
    tolerance = settings.race.tolerance
    network = None
    if name in SEARCHING:
        return SEARCHING[name](problem, price, tolerance)
    if name in REPARAMETRIZED:
        nodes, numbers = problem.start.shape
        matrix = propagation(name, problem, settings.network, rng_of("shuffle", nodes, run.seed))
        network = Network(settings.network, matrix, numbers, rng_of("network", nodes, run.seed))
    optimizer = "adam" if network else name
    return Descent(problem, price, tolerance, optimizer, float(getattr(settings.rates, name)), network)
