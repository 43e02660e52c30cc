"""The reparametrized problem first, and the plain one from where a run stalls.

Shapes: S runs at work, N nodes, D numbers a node, P unknowns of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trainables.reparametrization.cost import Price
from trainables.reparametrization.methods import Descent
from trainables.reparametrization.network import Network
from trainables.reparametrization.optimizers import FirstOrder
from trainables.reparametrization.problems import Problem
from trainables.reparametrization.settings import NetworkSettings


class Switching(Descent):
    """A network's parameters until the loss has stalled (:class:`NetworkSettings` says when that is), then the unknowns
    themselves from where they are, by the same optimiser at its own rate, for the price of its own steps."""

    def __init__(
        self,
        problem: Problem,
        prices: tuple[Price, Price],
        tolerance: float,
        settings: NetworkSettings,
        rates: tuple[Sequence[float], Sequence[float]],
        network: Network,
        parameters_SP: Tensor,
    ) -> None:
        """``prices`` and ``rates`` are those before and after the switch, rates for each run."""
        super().__init__(problem, prices[0], tolerance, settings.optimizer, rates[0], network, parameters_SP)
        self._settings = settings
        self._plain_price = prices[1]
        self._unknowns_SP = self.x_SND.flatten(1).clone()
        rate_S1 = torch.tensor(rates[1], dtype=torch.float64, device=problem.device)[:, None]
        self._plain = FirstOrder(settings.optimizer, rate_S1, self._unknowns_SP)
        self._switched_S = torch.zeros_like(self.arrived_S)
        self._best_S = torch.ones_like(self.gap_S)
        self._since_S = torch.zeros_like(self.steps_S)

    def _beyond_look(self) -> Tensor:
        return torch.where(self._switched_S, self._plain_price.step, self.price.step).to(torch.float64)

    def _state(self) -> tuple[Tensor, Any]:
        unknowns_SND = self._unknowns_SP.view_as(self.x_SND)
        if self._switched_S.all():
            return unknowns_SND, None
        network_SND, pullback = super()._state()
        return torch.where(self._switched_S[:, None, None], unknowns_SND, network_SND), pullback

    def _move(self, gradient_SND: Tensor, pullback: Any, stepping_S: Tensor) -> None:
        # Steps cost differently before and after a switch: runs of a stack do not step together.
        if pullback is not None:
            before_S = stepping_S & ~self._switched_S
            self._parameters_SP = self._optimizer.step(self._parameters_SP, pullback(gradient_SND), before_S)
        after_S = stepping_S & self._switched_S
        self._unknowns_SP = self._plain.step(self._unknowns_SP, gradient_SND.flatten(1), after_S)
        self._switch(stepping_S & ~self._switched_S)

    def _switch(self, stepped_S: Tensor) -> None:
        """Let those go on with the unknowns whose loss has not fallen enough for long enough."""
        fallen_S = stepped_S & (self.gap_S <= (1 - self._settings.switch_share) * self._best_S)
        self._best_S = torch.where(fallen_S, self.gap_S, self._best_S)
        self._since_S = torch.where(fallen_S, 0, self._since_S + stepped_S)
        stalled_S = stepped_S & (self._since_S >= self._settings.switch_after)
        self._unknowns_SP = torch.where(stalled_S[:, None], self.x_SND.flatten(1), self._unknowns_SP)
        self._switched_S = self._switched_S | stalled_S

    def tensors(self) -> dict[str, Tensor]:
        moments = {f"plain_moment{place}": moment for place, moment in enumerate(self._plain.moments)}
        own = {
            "unknowns": self._unknowns_SP,
            "plain_taken": self._plain.steps_S,
            "switched": self._switched_S,
            "best": self._best_S,
            "since": self._since_S,
        }
        return super().tensors() | own | moments

    def load(self, tensors: dict[str, Tensor]) -> None:
        super().load(tensors)
        self._unknowns_SP, self._plain.steps_S = tensors["unknowns"], tensors["plain_taken"]
        self._plain.moments = [tensors[f"plain_moment{place}"] for place in range(len(self._plain.moments))]
        self._switched_S, self._best_S, self._since_S = tensors["switched"], tensors["best"], tensors["since"]

    def _keep(self, rows: Sequence[int], index: Tensor) -> None:
        super()._keep(rows, index)
        self._plain.keep(index)
        self._unknowns_SP, self._switched_S = self._unknowns_SP[index].clone(), self._switched_S[index].clone()
        self._best_S, self._since_S = self._best_S[index].clone(), self._since_S[index].clone()
