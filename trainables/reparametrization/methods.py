"""A method at work on a stack: where each run is, and steps until it has spent its budget. First-order methods.

Shapes: S runs at work, N nodes, D numbers a node, P parameters of a method's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.reparametrization.network import Network
from trainables.reparametrization.problems import Problem

MOMENTUM = 0.9
BETAS = (0.9, 0.999)
EPSILON = 1e-8
"""Constants of torch.optim. Only the learning rate is chosen."""
MOMENTS = {"momentum": 1, "adam": 2}
"""Numbers that each optimiser keeps for a parameter."""


@dataclass(frozen=True)
class Price:
    """A method's prices, in units of the race: once for the ``setup``, for every ``look`` at the loss and its gradient,
    for a ``step`` beyond its look, and for a ``product`` with the Hessian."""

    setup: float
    look: float
    step: float
    product: float = 0.0


class Method(ABC):
    """One method on a stack of runs. A run that has arrived, or broken down, stays where it is."""

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        self.problem = problem
        self.price = price
        self.tolerance = tolerance
        self.x_SND = problem.start()
        self.first_S = problem.evaluate(self.x_SND)[0]
        device = problem.device
        stack = len(self.x_SND)
        self.spent_S = torch.full((stack,), price.setup, dtype=torch.float64, device=device)
        self.steps_S = torch.zeros(stack, dtype=torch.int64, device=device)
        self.gap_S = torch.ones(stack, dtype=torch.float64, device=device)
        self.arrived_S = torch.zeros(stack, dtype=torch.bool, device=device)
        self.broken_S = torch.zeros(stack, dtype=torch.bool, device=device)

    @abstractmethod
    def run(self, until: float) -> None:
        """Step every run until its next step would spend more than ``until``, or until it has arrived."""

    def tensors(self) -> dict[str, Tensor]:
        """The whole state, by name, the runs along the first axis."""
        return {
            "x": self.x_SND,
            "first": self.first_S,
            "spent": self.spent_S,
            "steps": self.steps_S,
            "gap": self.gap_S,
            "arrived": self.arrived_S,
            "broken": self.broken_S,
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of :meth:`tensors`."""
        self.x_SND, self.first_S = tensors["x"], tensors["first"]
        self.spent_S, self.steps_S, self.gap_S = tensors["spent"], tensors["steps"], tensors["gap"]
        self.arrived_S, self.broken_S = tensors["arrived"], tensors["broken"]

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows alone, in a smaller stack."""
        index = torch.tensor(rows, dtype=torch.int64, device=self.problem.device)
        self.problem = self.problem.take(rows)
        self.load({name: tensor[index].clone() for name, tensor in self.tensors().items()})

    def _note(self, excess_S: Tensor, seen_S: Tensor) -> None:
        """Take down the losses of the runs that looked, ``seen_S``."""
        gap_S = excess_S / self.first_S
        self.gap_S = torch.where(seen_S, gap_S, self.gap_S)
        self.arrived_S |= seen_S & (gap_S <= self.tolerance)
        self.broken_S |= seen_S & ~gap_S.isfinite()

    def _going(self) -> Tensor:
        """The runs that have neither arrived nor broken down."""
        return ~(self.arrived_S | self.broken_S)


class Descent(Method):
    """SGD with momentum or Adam, with a learning rate a run, on the unknowns or on a network's parameters."""

    def __init__(
        self,
        problem: Problem,
        price: Price,
        tolerance: float,
        optimizer: str,
        rates: Sequence[float],
        network: Network | None = None,
        parameters_SP: Tensor | None = None,
    ) -> None:
        super().__init__(problem, price, tolerance)
        self._optimizer = optimizer
        self._network = network
        self._parameters_SP = self.x_SND.flatten(1).clone() if parameters_SP is None else parameters_SP
        self._rate_S1 = torch.tensor(rates, dtype=torch.float64, device=problem.device)[:, None]
        self._moments = [torch.zeros_like(self._parameters_SP) for _ in range(MOMENTS[optimizer])]
        # The difference between the start of the problem and the network's first output.
        self._offset_SND = torch.zeros_like(self.x_SND)
        if network is not None:
            self._offset_SND = self.x_SND - network(self._parameters_SP)

    def run(self, until: float) -> None:
        while True:
            going_S = self._going() & (self.spent_S + (self.price.look + self.price.step) <= until)
            if not going_S.any():
                return
            if self._network is None:
                x_SND, pullback = self._parameters_SP.view_as(self.x_SND), None
            else:
                output_SND, pullback = self._network.output_and_pullback(self._parameters_SP)
                x_SND = output_SND + self._offset_SND
            self.x_SND = torch.where(going_S[:, None, None], x_SND, self.x_SND)
            excess_S, gradient_SND = self.problem.evaluate(self.x_SND)
            self._note(excess_S, going_S)
            # A run that has arrived has paid for this look, and takes no step.
            stepping_S = going_S & self._going()
            self.spent_S += going_S * self.price.look + stepping_S * self.price.step
            self.steps_S += stepping_S
            gradient_SP = gradient_SND.flatten(1) if pullback is None else pullback(gradient_SND)
            moved_SP = self._parameters_SP - self._move(gradient_SP)
            self._parameters_SP = torch.where(stepping_S[:, None], moved_SP, self._parameters_SP)

    def _move(self, gradient_SP: Tensor) -> Tensor:
        """The optimiser's step, to be taken off the parameters, [S, P]."""
        if self._optimizer == "momentum":
            (velocity,) = self._moments
            return self._rate_S1 * velocity.mul_(MOMENTUM).add_(gradient_SP)
        first, second = self._moments
        first.mul_(BETAS[0]).add_(gradient_SP, alpha=1 - BETAS[0])
        second.mul_(BETAS[1]).addcmul_(gradient_SP, gradient_SP, value=1 - BETAS[1])
        size_S1, root_S1 = self._rate_S1 / self._unbias(BETAS[0]), self._unbias(BETAS[1]).sqrt()
        return size_S1 * first / (second.sqrt() / root_S1 + EPSILON)

    def _unbias(self, beta: float) -> Tensor:
        """``1 - beta^steps``, [S, 1]; of a run that has taken no step as after its first."""
        shares = [1 - beta ** max(steps, 1) for steps in self.steps_S.tolist()]
        return torch.tensor(shares, dtype=torch.float64, device=self.problem.device)[:, None]

    def tensors(self) -> dict[str, Tensor]:
        moments = {f"moment{place}": moment for place, moment in enumerate(self._moments)}
        own = {"parameters": self._parameters_SP, "offset": self._offset_SND, "rate": self._rate_S1}
        return super().tensors() | own | moments

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        self._parameters_SP, self._offset_SND = tensors["parameters"], tensors["offset"]
        self._rate_S1 = tensors["rate"]
        self._moments = [tensors[f"moment{place}"] for place in range(len(self._moments))]

    def keep(self, rows: Sequence[int]) -> None:
        super().keep(rows)
        if self._network is not None:
            self._network = self._network.take(rows)
