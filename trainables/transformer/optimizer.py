"""The state of a stack and AdamW on it.

Each row of the flat parameter matrix [S, P] is one run, which is clipped, scheduled and decayed independently
(Loshchilov and Hutter 2019, algorithm 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.transformer.training_settings import TrainingSettings

EPSILON = 1e-8


@dataclass
class StackState:
    """Training state, float32: parameters [S, P], the moments of their gradients, and the loss summed over steps
    [S]."""

    parameters_SP: Tensor
    first_SP: Tensor
    second_SP: Tensor
    loss_S: Tensor
    loss_steps: int = 0

    @classmethod
    def start(cls, parameters_SP: Tensor) -> StackState:
        first_SP, second_SP = torch.zeros_like(parameters_SP), torch.zeros_like(parameters_SP)
        return cls(parameters_SP, first_SP, second_SP, parameters_SP.new_zeros(len(parameters_SP)))

    @classmethod
    def of(
        cls, tensors: Mapping[str, Tensor], rows: Sequence[int], loss_steps: int, device: torch.device
    ) -> StackState:
        """Return a copy of these rows of the :meth:`tensors` of a stack."""
        names = ("parameters", "first", "second", "loss")
        parameters_SP, first_SP, second_SP, loss_S = (tensors[name][list(rows)].to(device) for name in names)
        return cls(parameters_SP, first_SP, second_SP, loss_S, loss_steps)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by their names in checkpoints."""
        moments = {"first": self.first_SP, "second": self.second_SP}
        return {"parameters": self.parameters_SP, **moments, "loss": self.loss_S}


def step_sizes(settings: Sequence[TrainingSettings], first: int, last: int) -> NDArray[np.float32]:
    """Return the factors of steps ``first`` .. ``last - 1`` of a stack's runs: float32 [K, 3, S].

    The three rows of a step are the learning rate with the first moment's bias correction, the weight decay factor
    (learning rate x weight decay) and the square root of the second moment's bias correction. Runs share the betas.
    """
    rates_KS = np.stack([one.learning_rates(first, last) for one in settings], axis=1)
    count_K1 = np.arange(first, last)[:, None] + 1.0
    beta1, beta2 = settings[0].beta1, settings[0].beta2
    decay_S = np.array([one.weight_decay for one in settings])
    root_KS = np.broadcast_to(np.sqrt(1 - beta2**count_K1), rates_KS.shape)
    table = np.stack((rates_KS / (1 - beta1**count_K1), rates_KS * decay_S, root_KS), axis=1)
    return np.asarray(table, np.float32)


def adamw_step(
    state: StackState, gradient_SP: Tensor, settings: TrainingSettings, sizes_3S: Tensor, decayed: Tensor
) -> None:
    """Take one step in place; ``gradient_SP`` is overwritten.

    ``sizes_3S`` is the step's entry in :func:`step_sizes`. ``decayed``, [P] or [S, P], is 1 for elements that weight
    decay applies to and 0 for others.
    """
    rate_S1, decay_S1, root_S1 = sizes_3S.unsqueeze(-1).unbind(0)
    norm_S = gradient_SP.norm(dim=1)
    gradient_SP.mul_((settings.clip / (norm_S + 1e-6)).clamp_(max=1.0).unsqueeze(1))
    state.first_SP.lerp_(gradient_SP, 1 - settings.beta1)
    state.second_SP.mul_(settings.beta2).addcmul_(gradient_SP, gradient_SP, value=1 - settings.beta2)
    denominator_SP = state.second_SP.sqrt().div_(root_S1).add_(EPSILON)
    step_SP = state.first_SP / denominator_SP * rate_S1
    state.parameters_SP.mul_(1 - decay_S1 * decayed)
    state.parameters_SP.sub_(step_SP)
