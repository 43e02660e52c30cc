"""A method at work on a stack: where each run stands, and steps until it has spent what it may.

Shapes: S runs at work, N nodes, D numbers a node, P parameters of a method's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainables.reparametrization.lbfgs import HALVINGS, SHRINK, SUFFICIENT, Pairs
from trainables.reparametrization.network import Network
from trainables.reparametrization.optimizers import FirstOrder
from trainables.reparametrization.problems import Problem


@dataclass(frozen=True)
class Price:
    """What a method pays, in units of the race: once at the ``setup``, for every ``look`` at the loss and its gradient,
    and for a ``step`` beyond its look."""

    setup: float
    look: float
    step: float


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
        """Everything that changes, by name, the runs along the first axis."""
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
            step = self.price.look + self.price.step
            going_S = self._going() & (self.spent_S + step <= until)
            if not going_S.any():
                return
            if self._network is None:
                x_SND, pullback = self._parameters_SP.view_as(self.x_SND), None
            else:
                output_SND, pullback = self._output()
                x_SND = output_SND + self._offset_SND
            self.x_SND = torch.where(going_S[:, None, None], x_SND, self.x_SND)
            excess_S, gradient_SND = self.problem.evaluate(self.x_SND)
            self._note(excess_S, going_S)
            # A run that has arrived has paid for this look, and takes no step.
            stepping_S = going_S & self._going()
            self.spent_S += going_S * self.price.look + stepping_S * self.price.step
            self.steps_S += stepping_S
            gradient_SP = gradient_SND.flatten(1) if pullback is None else pullback(gradient_SND)
            moved_SP = self._parameters_SP - self._optimizer.move(gradient_SP)
            self._parameters_SP = torch.where(stepping_S[:, None], moved_SP, self._parameters_SP)

    def tensors(self) -> dict[str, Tensor]:
        moments = {f"moment{place}": moment for place, moment in enumerate(self._optimizer.moments)}
        counts = torch.full((len(self.x_SND),), self._optimizer.steps, dtype=torch.int64)
        own = {"parameters": self._parameters_SP, "offset": self._offset_SND, "taken": counts}
        return super().tensors() | own | moments

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        self._parameters_SP, self._offset_SND = tensors["parameters"], tensors["offset"]
        self._optimizer.moments = [tensors[f"moment{place}"] for place in range(len(self._optimizer.moments))]
        self._optimizer.steps = int(tensors["taken"][0])

    def _keep(self, rows: Sequence[int], index: Tensor) -> None:
        self._parameters_SP = self._parameters_SP[index].clone()
        self._offset_SND = self._offset_SND[index].clone()
        self._optimizer.keep(index)
        if self._network is not None:
            self._network = self._network.take(rows)

    def _output(self) -> tuple[Tensor, Any]:
        assert self._network is not None
        return self._network.output_and_pullback(self._parameters_SP)


class Lbfgs(Method):
    """L-BFGS with a line search that halves until the loss falls enough."""

    def __init__(self, problem: Problem, price: Price, tolerance: float) -> None:
        super().__init__(problem, price, tolerance)
        excess_S, self._gradient_SND = problem.evaluate(self.x_SND)
        self._excess_S = excess_S
        self.spent_S += price.look
        self._pairs = Pairs(len(self.x_SND), self.x_SND[0].numel(), problem.device)

    def run(self, until: float) -> None:
        while True:
            # The least a step takes: its direction, and one look. Each look more is paid when it is taken.
            going_S = self._going() & (self.spent_S + self.price.look + self.price.step <= until)
            if not going_S.any():
                return
            self._step(going_S)

    def _step(self, going_S: Tensor) -> None:
        gradient_SP = self._gradient_SND.flatten(1)
        direction_SP = self._pairs.direction(gradient_SP)
        slope_S = (direction_SP * gradient_SP).sum(dim=1)
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
        moved_S = going_S & ~searching_S
        self._pairs.add(
            (best_SND - self.x_SND).flatten(1), (best_gradient_SND - self._gradient_SND).flatten(1), moved_S
        )
        self._pairs.forget(searching_S)
        self.x_SND, self._excess_S, self._gradient_SND = best_SND, best_S, best_gradient_SND
        self.steps_S += going_S
        self._note(best_S, going_S)

    def tensors(self) -> dict[str, Tensor]:
        pairs = self._pairs
        return super().tensors() | {
            "excess": self._excess_S,
            "gradient": self._gradient_SND,
            "pair_steps": pairs.steps_SMP,
            "pair_changes": pairs.changes_SMP,
            "pair_inverse": pairs.inverse_SM,
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        self._excess_S, self._gradient_SND = tensors["excess"], tensors["gradient"]
        pairs = self._pairs
        pairs.steps_SMP, pairs.changes_SMP = tensors["pair_steps"], tensors["pair_changes"]
        pairs.inverse_SM = tensors["pair_inverse"]

    def _keep(self, rows: Sequence[int], index: Tensor) -> None:
        self._excess_S, self._gradient_SND = self._excess_S[index].clone(), self._gradient_SND[index].clone()
        self._pairs.keep(index)
