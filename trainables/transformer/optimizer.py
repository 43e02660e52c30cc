"""The state of a stack and AdamW on it.

Each row of the flat parameter matrix [S, P] is one run. Runs are clipped, scheduled and decayed independently
(Loshchilov and Hutter 2019, algorithm 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.transformer.architecture import Layout
from trainables.transformer.training_settings import TrainingSettings

EPSILON = 1e-8
"""Added to the root of the second moment, as in torch's AdamW: a parameter without gradients does not move."""


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
        """Return the state before the first step."""
        first_SP = torch.zeros_like(parameters_SP)
        second_SP = torch.zeros_like(parameters_SP)
        return cls(parameters_SP, first_SP, second_SP, parameters_SP.new_zeros(len(parameters_SP)))

    @classmethod
    def of(
        cls, tensors: Mapping[str, Tensor], rows: Sequence[int], loss_steps: int, device: torch.device
    ) -> StackState:
        """Return a copy of these rows of the :meth:`tensors` of a stack."""
        names = ("parameters", "first", "second", "loss")
        parameters_SP, first_SP, second_SP, loss_S = (tensors[name][list(rows)].to(device) for name in names)
        return cls(parameters_SP, first_SP, second_SP, loss_S, loss_steps)

    def check(self, runs: int, width: int) -> None:
        """Raise ``ValueError`` unless this is the state of a number of runs with ``width`` parameters each.

        The native step writes to addresses, so a tensor of another size or type would damage memory. A checkpoint can
        come from someone else.
        """
        expected = {"loss": (runs,)}
        for name, tensor in self.tensors().items():
            shape = expected.get(name, (runs, width))
            if tensor.dtype != torch.float32 or tuple(tensor.shape) != shape or not tensor.is_contiguous():
                raise ValueError(f"{name} is {tensor.dtype} {list(tensor.shape)}, but must be float32 {list(shape)}")
        if type(self.loss_steps) is not int or self.loss_steps < 0:
            raise ValueError(f"loss_steps is {self.loss_steps!r:.40}, but must be a number of steps")

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by their names in checkpoints."""
        moments = {"first": self.first_SP, "second": self.second_SP}
        return {"parameters": self.parameters_SP, **moments, "loss": self.loss_S}


def step_factors(settings: Sequence[TrainingSettings], first: int, last: int) -> NDArray[np.float32]:
    """Return the factors of steps ``first`` .. ``last - 1`` of a stack's runs: float32 [K, 3, S].

    A step has three rows. The first is the learning rate with the first moment's bias correction. The second is the
    weight decay factor (learning rate x weight decay). The third is the square root of the second moment's bias
    correction. Runs share the betas.
    """
    rates_KS = np.stack([run.learning_rates(first, last) for run in settings], axis=1)
    count_K1 = np.arange(first, last)[:, None] + 1.0
    beta1 = settings[0].beta1
    beta2 = settings[0].beta2
    decay_S = np.array([run.weight_decay for run in settings])
    # Computed in float64 on the host, where it costs nothing: in float32, 1 - beta2**step of the first steps is rough.
    root_KS = np.broadcast_to(np.sqrt(1 - beta2**count_K1), rates_KS.shape)
    table = np.stack((rates_KS / (1 - beta1**count_K1), rates_KS * decay_S, root_KS), axis=1)
    return np.asarray(table, np.float32)


def adamw_step(
    settings: TrainingSettings,
    layout: Layout,
    gradients: Sequence[Tensor],
    state: tuple[Tensor, Tensor, Tensor],
    factors_3S: Tensor,
    decayed_P: Tensor,
    trained_SP: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the parameters and moments [S, P] of a stack after one step.

    Nothing is changed in place: torch's compiler fails on that, at least on a CPU.

    Args:
        settings: Settings of the stack. Runs share betas and clip.
        layout: Layout of the parameters.
        gradients: The gradients of all parameters, in the order of ``layout``.
        state: Parameters and moments before the step.
        factors_3S: The step's entry in :func:`step_factors`.
        decayed_P: 1 for elements to which weight decay applies, and 0 for others.
        trained_SP: 0 for elements that are frozen and 1 for others, or None if none are frozen.
    """
    parameters_SP, first_SP, second_SP = state
    gradient_SP = _flat(layout, gradients)
    decayed = decayed_P
    if trained_SP is not None:  # Without a gradient the moments stay 0, so only decay could move frozen elements.
        gradient_SP = gradient_SP * trained_SP
        decayed = decayed_P * trained_SP
    rate_S1, decay_S1, root_S1 = factors_3S.unsqueeze(-1).unbind(0)
    norm_S = gradient_SP.norm(dim=1)  # Each run is clipped by its own norm, as if it trained alone.
    gradient_SP = gradient_SP * (settings.clip / (norm_S + 1e-6)).clamp(max=1.0).unsqueeze(1)
    first_SP = first_SP.lerp(gradient_SP, 1 - settings.beta1)
    second_SP = (second_SP * settings.beta2).addcmul(gradient_SP, gradient_SP, value=1 - settings.beta2)
    denominator_SP = second_SP.sqrt().div(root_S1).add(EPSILON)
    step_SP = first_SP / denominator_SP * rate_S1
    return parameters_SP * (1 - decay_S1 * decayed) - step_SP, first_SP, second_SP


def _flat(layout: Layout, gradients: Sequence[Tensor]) -> Tensor:
    """Return gradients in the layout of the parameters, float32 [S, P], padded with zeros."""
    pieces = []
    # The layout may leave gaps between parameters, which no gradient fills.
    ends = [*list(layout.offsets.values())[1:], layout.width]
    for gradient, offset, end in zip(gradients, layout.offsets.values(), ends, strict=True):
        piece = gradient.flatten(1).float()
        pieces += [piece, piece.new_zeros(len(piece), end - offset - piece.shape[1])]
    return torch.cat(pieces, dim=1)
