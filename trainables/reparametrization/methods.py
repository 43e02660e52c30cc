"""The methods that race, each a loop of steps on one problem.

First-order methods (SGD with momentum, Adam) move the unknowns or a network's features by a fixed rate. Conjugate
gradients, L-BFGS and Newton's method search along a line. Shapes: N nodes, D numbers a node, P parameters, M pairs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trainables.base import RunConfig
from trainables.reparametrization.graphs import Floats, rng_of
from trainables.reparametrization.network import Network, propagation
from trainables.reparametrization.problems import Problem
from trainables.reparametrization.settings import HISTORY, REPARAMETRIZED, ReparametrizationSettings

MOMENTUM = 0.9
BETAS = (0.9, 0.999)
EPSILON = 1e-8
"""Constants of torch.optim. Only the learning rate is chosen."""
SUFFICIENT = 1e-4
"""Armijo: a step is taken if the loss falls by this share of what its slope promises."""
SHRINK = 0.5
HALVINGS = 30
"""A line search that fails so often has met the limits of float64: the method stays where it is."""
LOOSE = 0.5
"""The largest residual of Newton's system that is left, as a share of the gradient."""
MOST_PRODUCTS = 200
"""In one of Newton's directions. Conjugate gradients go downhill from their first product on, so that fewer than it
takes to solve the system cost steps and nothing else."""


@dataclass(frozen=True)
class Price:
    """A method's prices, in units of the race: once for the ``setup``, for every ``look`` at the loss and its gradient,
    for a ``step`` beyond its look, and for a ``product`` with the Hessian."""

    setup: float
    look: float
    step: float
    product: float = 0.0


@dataclass
class Standing:
    """One method in one race: what it has ``spent``, in units of the race, its ``steps``, its last ``gap`` (the loss
    above the solution's, as a share of that at the start), whether it has ``arrived``, and whether it is ``broken``:
    its loss was no longer finite. ``seconds`` is the time it took."""

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
        """True if it arrived for no more than ``budget``: a line search, or one of Newton's directions, may end beyond
        one."""
        return self.arrived and self.spent <= budget


class Method(ABC):
    """One method on one problem, from the problem's start, with its :class:`Standing`."""

    kept: ClassVar[tuple[str, ...]] = ("x", "first")
    """The attributes that a checkpoint holds, besides the standing."""

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        self.problem = problem
        self.price = price
        self.tolerance = tolerance
        self.standing = Standing(spent=price.setup)
        self.x = problem.start
        self.first = problem.evaluate(self.x)[0]

    def run(self, until: float) -> None:
        """Step until the next step would spend more than ``until`` at the least, or until the method has ended."""
        standing, least = self.standing, self.price.look + self.price.step
        # Where a method diverges, squares overflow, and it is broken.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            while not standing.ended and standing.spent + least <= until:
                self._step()

    @abstractmethod
    def _step(self) -> None:
        """One step: paid, counted and noted."""

    def _note(self, loss: float) -> None:
        """Take down the loss above the solution's."""
        standing = self.standing
        standing.gap = loss / self.first
        standing.arrived = standing.gap <= self.tolerance
        standing.broken = not math.isfinite(standing.gap)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state without the standing, by name."""
        return {name: np.asarray(getattr(self, name)) for name in self.kept}

    def load(self, arrays: Mapping[str, NDArray[Any]], standing: Standing) -> None:
        """Go on from the state and the standing of the same method."""
        self.standing = standing
        for name in self.kept:
            setattr(self, name, arrays[name][()])


class Descent(Method):
    """SGD with momentum or Adam, on the unknowns or on a network's features."""

    kept = (*Method.kept, "parameters", "moments")

    def __init__(
        self,
        problem: Problem,
        price: Price,
        tolerance: float,
        optimizer: str,
        rate: float,
        network: Network | None = None,
        parameters_P: Floats | None = None,
    ) -> None:
        super().__init__(problem, price, tolerance)
        self._optimizer, self._rate, self._network = optimizer, rate, network
        self.parameters = self.x.ravel() if parameters_P is None else parameters_P
        self.moments = np.zeros((1 if optimizer == "momentum" else 2, len(self.parameters)))
        # The difference between the start of the problem and the network's first output.
        self._offset = 0.0 if network is None else self.x - network(self.parameters)

    def _step(self) -> None:
        network, standing = self._network, self.standing
        self.x = self.parameters.reshape(self.x.shape) if network is None else network(self.parameters) + self._offset
        loss, gradient_ND = self.problem.evaluate(self.x)
        self._note(loss)
        # A method that has arrived has paid for this look, and takes no step.
        standing.spent += self.price.look + (0.0 if standing.ended else self.price.step)
        if not standing.ended:
            standing.steps += 1
            gradient_P = gradient_ND.ravel() if network is None else network.pullback(gradient_ND)
            self.parameters = self.parameters - self._move(gradient_P)

    def _move(self, gradient_P: Floats) -> Floats:
        """The optimiser's step, to be taken off the parameters, [P]."""
        if self._optimizer == "momentum":
            self.moments = MOMENTUM * self.moments + gradient_P
            moved_P: Floats = self._rate * self.moments[0]
            return moved_P
        first, second = self.moments
        first *= BETAS[0]
        first += (1 - BETAS[0]) * gradient_P
        second *= BETAS[1]
        second += (1 - BETAS[1]) * gradient_P * gradient_P
        unbias, root = (1 - beta**self.standing.steps for beta in BETAS)
        moved_P = self._rate / unbias * first / (np.sqrt(second) / math.sqrt(root) + EPSILON)
        return moved_P


class LineSearch(Method):
    """A direction, then a line search that begins with all of it and halves until the loss falls enough."""

    kept = (*Method.kept, "loss", "gradient")

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        super().__init__(problem, price, tolerance)
        self.loss, self.gradient = problem.evaluate(self.x)
        self.standing.spent += price.look

    @abstractmethod
    def _direction(self) -> Floats:
        """A direction downhill, [N, D]. Its cost beyond a step's price is paid here."""

    def _moved(self, step_ND: Floats, change_ND: Floats) -> None:
        """Learn from a move and its change of the gradient."""

    def _failed(self) -> None:
        """Learn from a search that found nothing lower."""

    def _step(self) -> None:
        direction_ND, standing = self._direction(), self.standing
        slope, length = float(np.vdot(direction_ND, self.gradient)), 1.0
        standing.spent += self.price.step
        standing.steps += 1
        for _ in range(HALVINGS):
            tried_ND = self.x + length * direction_ND
            loss, gradient_ND = self.problem.evaluate(tried_ND)
            standing.spent += self.price.look
            if loss <= self.loss + SUFFICIENT * length * slope:
                self._moved(tried_ND - self.x, gradient_ND - self.gradient)
                self.x, self.loss, self.gradient = tried_ND, loss, gradient_ND
                break
            length *= SHRINK
        else:
            self._failed()
        self._note(self.loss)


class ConjugateGradients(LineSearch):
    """Conjugate gradients with Jacobi's preconditioner (Nocedal and Wright 2006, sections 5.1 and 5.2): Polak and
    Ribiere's directions, none with a negative share of the last, and the step that is least on the line by one product
    with the Hessian. On a quadratic these are the linear method's. If curvature is not positive, the step is the
    direction itself, which the preconditioner has scaled."""

    kept = (*LineSearch.kept, "search", "last", "square")

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        super().__init__(problem, price, tolerance)
        self.search, self.last, self.square = np.zeros_like(self.x), np.zeros_like(self.x), 0.0

    def _direction(self) -> Floats:
        gradient_ND = self.gradient
        scaled_ND = gradient_ND / self.problem.diagonal(self.x)
        change = float(np.vdot(scaled_ND, gradient_ND - self.last))
        share = max(0.0, change / self.square) if self.square > 0 else 0.0
        search_ND, square = share * self.search - scaled_ND, float(np.vdot(scaled_ND, gradient_ND))
        if not (slope := float(np.vdot(search_ND, gradient_ND))) < 0:
            search_ND, slope = -scaled_ND, -square
        curvature = float(np.vdot(search_ND, self.problem.curvature(self.x)(search_ND)))
        self.standing.spent += self.price.product
        self.search, self.last, self.square = search_ND, gradient_ND, square
        return (-slope / curvature if curvature > 0 else 1.0) * search_ND

    def _failed(self) -> None:
        """The preconditioned gradient is next."""
        self.square = 0.0


class Lbfgs(LineSearch):
    """L-BFGS (Nocedal and Wright 2006, section 7.2). It keeps the last :data:`HISTORY` moves and changes of the
    gradient, as ``pairs`` [M, 2, P], the newest last. After a line search that fails it forgets its pairs and goes on
    downhill."""

    kept = (*LineSearch.kept, "pairs")

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        super().__init__(problem, price, tolerance)
        self.pairs = np.empty((0, 2, self.x.size))

    def _direction(self) -> Floats:
        """Minus the inverse Hessian these pairs imply times the gradient; without pairs a step of length 1 down the
        gradient."""
        q_P = self.gradient.ravel().copy()
        scale, alphas = 1 / float(np.linalg.norm(q_P)), []
        for step_P, change_P in self.pairs[::-1]:
            alphas.append(float(step_P @ q_P) / float(step_P @ change_P))
            q_P -= alphas[-1] * change_P
        if len(self.pairs):
            step_P, change_P = self.pairs[-1]
            scale = float(step_P @ change_P) / float(change_P @ change_P)
        q_P *= scale
        for (step_P, change_P), alpha in zip(self.pairs, reversed(alphas), strict=True):
            q_P += (alpha - float(change_P @ q_P) / float(step_P @ change_P)) * step_P
        return -q_P.reshape(self.x.shape)

    def _moved(self, step_ND: Floats, change_ND: Floats) -> None:
        """A pair without curvature is left out, so that directions go down."""
        if np.vdot(step_ND, change_ND) > 1e-12 * np.linalg.norm(step_ND) * np.linalg.norm(change_ND):
            new = np.stack([step_ND.ravel(), change_ND.ravel()])[None]
            self.pairs = np.concatenate([self.pairs, new])[-HISTORY:]

    def _failed(self) -> None:
        self.pairs = self.pairs[:0]


class Newton(LineSearch):
    """Newton's method, its directions by conjugate gradients from products with the Hessian. Each product is paid. A
    step's products end before the step does: one may end beyond what may be spent."""

    kept = (*LineSearch.kept, "first_norm")

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        super().__init__(problem, price, tolerance)
        self.first_norm = float(np.linalg.norm(self.gradient))

    def _direction(self) -> Floats:
        direction_ND, products = newton_direction(self.problem.curvature(self.x), self.gradient, self.first_norm)
        self.standing.spent += products * self.price.product
        return direction_ND


def newton_direction(product: Callable[[Floats], Floats], gradient_ND: Floats, first: float) -> tuple[Floats, int]:
    """A direction d [N, D] with ``H d`` near minus the gradient, and the products it took (Nocedal and Wright 2006,
    algorithm 7.1).

    ``product`` is the Hessian's; ``first`` is the length of the first gradient. The residual left is the gradient's
    length times the root of its share of the first, and at most :data:`LOOSE` of it, so that Newton's steps converge
    faster than linearly. If curvature is not positive the direction stays; as the first, it is down the gradient.
    """
    length = float(np.linalg.norm(gradient_ND))
    enough = min(math.sqrt(length / first), LOOSE) * length
    direction_ND, residual_ND, search_ND = np.zeros_like(gradient_ND), gradient_ND, -gradient_ND
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


def method_of(name: str, problem: Problem, run: RunConfig, price: Price) -> Method:
    """The method ``name`` at the start of a run's problem. A network begins with features from N(0, 1), whatever its
    rule."""
    settings: ReparametrizationSettings = run.settings
    tolerance = settings.race.tolerance
    if name in SEARCHING:
        return SEARCHING[name](problem, price, tolerance)
    rate = settings.rates.of(name)
    if name not in REPARAMETRIZED:
        return Descent(problem, price, tolerance, name, rate)
    nodes, numbers = problem.start.shape
    matrix = propagation(name, problem, settings.network, rng_of("shuffle", nodes, run.seed))
    features_P = rng_of("network", nodes, run.seed).standard_normal(nodes * settings.network.width)
    network = Network(settings.network, matrix, numbers)
    return Descent(problem, price, tolerance, "adam", rate, network, features_P)
