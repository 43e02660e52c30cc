"""AdamW over a stack, on one flat matrix of parameters [S, P]: each row is one run and is clipped, scheduled and
decayed by itself (Loshchilov and Hutter 2019, algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainables.training import TrainingSettings

EPSILON = 1e-8


@dataclass
class AdamState:
    """First and second moments of the gradient, float32 [S, P] each."""

    first_SP: Tensor
    second_SP: Tensor


@dataclass(frozen=True)
class StepSizes:
    """What depends on the step alone, computed on the host for many steps at once.

    ``rate_KS`` is the learning rate with the first moment's bias correction, ``decay_KS`` the weight decay factor
    (learning rate x weight decay), ``root_K`` the square root of the second moment's bias correction.
    """

    rate_KS: Tensor
    decay_KS: Tensor
    root_K: Tensor


def step_sizes(settings: Sequence[TrainingSettings], first: int, last: int, device: torch.device) -> StepSizes:
    """Step sizes of steps ``first`` .. ``last - 1`` for the runs of a stack; the betas are shared by the stack."""
    rates_KS = np.stack([one.learning_rates(first, last) for one in settings], axis=1)
    count_K = np.arange(first, last) + 1.0
    beta1, beta2 = settings[0].beta1, settings[0].beta2
    decay_S = np.array([one.weight_decay for one in settings])

    def move(array: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Tensor:
        return torch.from_numpy(array.astype(np.float32)).to(device)

    return StepSizes(
        rate_KS=move(rates_KS / (1 - beta1**count_K)[:, None]),
        decay_KS=move(rates_KS * decay_S),
        root_K=move(np.sqrt(1 - beta2**count_K)),
    )


def adamw_step(
    parameters_SP: Tensor,
    gradient_SP: Tensor,
    state: AdamState,
    settings: TrainingSettings,
    rate_S: Tensor,
    decay_S: Tensor,
    root: Tensor,
    decayed_P: Tensor,
) -> None:
    """One step in place. ``decayed_P`` is 1 where weight decay applies and 0 elsewhere; ``gradient_SP`` is used up."""
    norm_S = gradient_SP.norm(dim=1)
    gradient_SP.mul_((settings.clip / (norm_S + 1e-6)).clamp_(max=1.0).unsqueeze(1))
    state.first_SP.lerp_(gradient_SP, 1 - settings.beta1)
    state.second_SP.mul_(settings.beta2).addcmul_(gradient_SP, gradient_SP, value=1 - settings.beta2)
    denominator_SP = state.second_SP.sqrt().div_(root).add_(EPSILON)
    parameters_SP.mul_(1 - decay_S.unsqueeze(1) * decayed_P)
    parameters_SP.sub_(state.first_SP / denominator_SP * rate_S.unsqueeze(1))
