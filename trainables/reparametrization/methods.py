"""A method at work on a stack: where each run stands, and steps until it has spent what it may.

Shapes: S runs at work, N nodes, D numbers a node, P parameters of a method's own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trainables.reparametrization.cost import Price
from trainables.reparametrization.network import Network
from trainables.reparametrization.optimizers import FirstOrder
from trainables.reparametrization.problems import Problem


class Method(ABC):
    """One method on a stack of runs. A run that has arrived, or broken down, stays where it is. ``halfway_SND`` is
    where each was at its first look with a gap of no more than the root of the tolerance, for those that are
    ``halved_S``."""

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
        self.halfway_SND = self.x_SND.clone()
        self.halved_S = torch.zeros_like(self.broken_S)

    @abstractmethod
    def run(self, until: float) -> None:
        """Step every run until its next step would spend more than ``until``, or until it has arrived."""

    def tensors(self) -> dict[str, Tensor]:
        """Everything that changes, by name, the runs along the first axis."""
        return {
            "x": self.x_SND,
            "first": self.first_S,
            "spent": self.spent_S,
            "steps": self.steps_S,
            "gap": self.gap_S,
            "arrived": self.arrived_S,
            "broken": self.broken_S,
            "halfway": self.halfway_SND,
            "halved": self.halved_S,
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of :meth:`tensors`."""
        self.x_SND, self.first_S = tensors["x"], tensors["first"]
        self.spent_S, self.steps_S, self.gap_S = tensors["spent"], tensors["steps"], tensors["gap"]
        self.arrived_S, self.broken_S = tensors["arrived"], tensors["broken"]
        self.halfway_SND, self.halved_S = tensors["halfway"], tensors["halved"]

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows alone, in a smaller stack."""
        index = torch.tensor(rows, dtype=torch.int64, device=self.problem.device)
        self.problem = self.problem.take(rows)
        Method.load(self, {name: tensor[index].clone() for name, tensor in Method.tensors(self).items()})
        self._keep(rows, index)

    @abstractmethod
    def _keep(self, rows: Sequence[int], index: Tensor) -> None:
        """The same for what a kind of method has of its own."""

    def _note(self, excess_S: Tensor, seen_S: Tensor) -> None:
        """Take down the losses of the runs that looked, ``seen_S``."""
        gap_S = excess_S / self.first_S
        self.gap_S = torch.where(seen_S, gap_S, self.gap_S)
        self.arrived_S |= seen_S & (gap_S <= self.tolerance)
        self.broken_S |= seen_S & ~gap_S.isfinite()
        halved_S = seen_S & ~self.halved_S & (gap_S <= math.sqrt(self.tolerance))
        self.halfway_SND = torch.where(halved_S[:, None, None], self.x_SND, self.halfway_SND)
        self.halved_S |= halved_S

    def _going(self) -> Tensor:
        """The runs that still have something to do."""
        return ~(self.arrived_S | self.broken_S)


class Descent(Method):
    """A first-order optimiser with a learning rate, on the unknowns or, with a network, on its parameters."""

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
        self._network = network
        self._parameters_SP = self.x_SND.flatten(1).clone() if parameters_SP is None else parameters_SP
        rate_S1 = torch.tensor(rates, dtype=torch.float64, device=problem.device)[:, None]
        self._optimizer = FirstOrder(optimizer, rate_S1, self._parameters_SP)
        # What takes the network's first output to the start of the problem.
        self._offset_SND = torch.zeros_like(self.x_SND) if network is None else self.x_SND - self._output()[0]

    def run(self, until: float) -> None:
        while True:
            going_S = self._going() & (self.spent_S + (self.price.look + self._beyond_look()) <= until)
            if not going_S.any():
                return
            x_SND, pullback = self._state()
            self.x_SND = torch.where(going_S[:, None, None], x_SND, self.x_SND)
            excess_S, gradient_SND = self.problem.evaluate(self.x_SND)
            self._note(excess_S, going_S)
            # A run that has arrived has paid for this look, and takes no step.
            stepping_S = going_S & self._going()
            self.spent_S += going_S * self.price.look + stepping_S * self._beyond_look()
            self.steps_S += stepping_S
            self._move(gradient_SND, pullback, stepping_S)

    def _beyond_look(self) -> float | Tensor:
        """What a step costs beyond its look, for all runs or for each, [S]."""
        return self.price.step

    def _state(self) -> tuple[Tensor, Any]:
        """Where the parameters are, [S, N, D], and what takes a gradient there to theirs; None where they are the
        unknowns."""
        if self._network is None:
            return self._parameters_SP.view_as(self.x_SND), None
        output_SND, pullback = self._output()
        return output_SND + self._offset_SND, pullback

    def _move(self, gradient_SND: Tensor, pullback: Any, stepping_S: Tensor) -> None:
        """A step of the optimiser, for the runs that are ``stepping_S``."""
        gradient_SP = gradient_SND.flatten(1) if pullback is None else pullback(gradient_SND)
        self._parameters_SP = self._optimizer.step(self._parameters_SP, gradient_SP, stepping_S)

    def tensors(self) -> dict[str, Tensor]:
        moments = {f"moment{place}": moment for place, moment in enumerate(self._optimizer.moments)}
        own = {"parameters": self._parameters_SP, "offset": self._offset_SND, "taken": self._optimizer.steps_S}
        return super().tensors() | own | moments

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        self._parameters_SP, self._offset_SND = tensors["parameters"], tensors["offset"]
        self._optimizer.moments = [tensors[f"moment{place}"] for place in range(len(self._optimizer.moments))]
        self._optimizer.steps_S = tensors["taken"]

    def _keep(self, rows: Sequence[int], index: Tensor) -> None:
        self._parameters_SP = self._parameters_SP[index].clone()
        self._offset_SND = self._offset_SND[index].clone()
        self._optimizer.keep(index)
        if self._network is not None:
            self._network = self._network.take(rows)

    def _output(self) -> tuple[Tensor, Any]:
        assert self._network is not None
        return self._network.output_and_pullback(self._parameters_SP)
