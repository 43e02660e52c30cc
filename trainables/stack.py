"""A stack in training: parameters, optimizer state and the step that advances them all at once.

Shape suffixes as in transformer.py: S stack, P parameters of one model, K steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from trainables.optimizer import AdamState, adamw_step, step_sizes
from trainables.sampling import WindowSampler
from trainables.training import TrainingSettings
from trainables.transformer import Layout, ModelSettings, forward


@dataclass
class StackState:
    """What changes in training: float32 parameters [S, P], their moments, and the loss summed over steps [S]."""

    parameters_SP: Tensor
    adam: AdamState
    loss_S: Tensor
    loss_steps: int = 0

    @classmethod
    def start(cls, parameters_SP: Tensor) -> StackState:
        """The state before the first step."""
        zeros = torch.zeros_like(parameters_SP)
        return cls(parameters_SP, AdamState(zeros, zeros.clone()), parameters_SP.new_zeros(len(parameters_SP)))

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint, by name."""
        return {
            "parameters": self.parameters_SP,
            "first": self.adam.first_SP,
            "second": self.adam.second_SP,
            "loss": self.loss_S,
        }

    @classmethod
    def of(cls, tensors: dict[str, Tensor], loss_steps: int, device: torch.device) -> StackState:
        """The inverse of :meth:`tensors`."""
        on = {name: tensor.to(device) for name, tensor in tensors.items()}
        return cls(on["parameters"], AdamState(on["first"], on["second"]), on["loss"], loss_steps)

    def keep(self, rows: Tensor) -> None:
        """Drop every run of the stack but ``rows`` (ascending indices); the others' numbers are untouched."""
        self.parameters_SP = self.parameters_SP[rows].clone()
        self.adam = AdamState(self.adam.first_SP[rows].clone(), self.adam.second_SP[rows].clone())
        self.loss_S = self.loss_S[rows].clone()


class StackTrainer:
    """Runs optimizer steps of a stack. ``settings`` are the runs' own; all that shapes a step is shared."""

    def __init__(
        self,
        state: StackState,
        model: ModelSettings,
        where: Layout,
        settings: Sequence[TrainingSettings],
        sampler: WindowSampler,
    ) -> None:
        self.state = state
        self._model = model
        self._where = where
        self._settings = tuple(settings)
        self._sampler = sampler
        self._decayed_P = _decayed(where).to(state.parameters_SP.device)

    def run(self, first: int, last: int) -> None:
        """Train steps ``first`` .. ``last - 1`` (0-based) without waiting for the device."""
        device = self.state.parameters_SP.device
        sizes = step_sizes(self._settings, first, last, device)
        steps_K = torch.arange(first, last, device=device)
        for k in range(last - first):
            gradient_SP, loss_S = self._gradient(steps_K[k])
            adamw_step(
                self.state.parameters_SP,
                gradient_SP,
                self.state.adam,
                self._settings[0],
                sizes.rate_KS[k],
                sizes.decay_KS[k],
                sizes.root_K[k],
                self._decayed_P,
            )
            self.state.loss_S += loss_S
            self.state.loss_steps += 1

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows of the stack alone."""
        self.state.keep(rows)
        self._sampler.keep(rows)
        self._settings = tuple(self._settings[int(row)] for row in rows)

    def logits(self, tokens_SMT: Tensor) -> Tensor:
        """What the stack makes of these tokens, without gradients."""
        with torch.no_grad():
            return forward(self._model, self._where.views(self._weights()), tokens_SMT)

    def _weights(self) -> Tensor:
        """The parameters in the precision of the matrix products."""
        bf16 = self._settings[0].precision == "bf16"
        return self.state.parameters_SP.to(torch.bfloat16) if bf16 else self.state.parameters_SP

    def _gradient(self, step: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient [S, P] and the mean loss [S] of every run on its windows of this step."""
        tokens_SBW, answer_SBW = self._sampler.draw(step)
        views = self._where.views(self._weights())
        leaves = {name: view.detach().requires_grad_() for name, view in views.items()}
        logits_SBTV = forward(self._model, leaves, tokens_SBW[..., :-1])
        counted = answer_SBW[..., 1:] if self._settings[0].loss == "answer" else torch.ones_like(answer_SBW[..., 1:])
        loss_S = mean_loss(logits_SBTV, tokens_SBW[..., 1:], counted)
        # A run's loss depends on its own parameters alone, so the gradient of the sum holds every run's own gradient.
        gradients = torch.autograd.grad(loss_S.sum(), list(leaves.values()))
        return self._flatten(dict(zip(leaves, gradients, strict=True))), loss_S.detach()

    def _flatten(self, gradients: dict[str, Tensor]) -> Tensor:
        """Gradients laid out like the parameters, float32 [S, P] with zeros as padding."""
        pieces, end = [], 0
        stack = len(self._settings)
        for name, offset in self._where.offsets.items():
            if offset > end:
                pieces.append(self.state.parameters_SP.new_zeros(stack, offset - end))
            pieces.append(gradients[name].reshape(stack, -1).float())
            end = offset + pieces[-1].shape[1]
        pieces.append(self.state.parameters_SP.new_zeros(stack, self._where.width - end))
        return torch.cat(pieces, dim=1)


def mean_loss(logits_SBTV: Tensor, targets_SBT: Tensor, counted_SBT: Tensor) -> Tensor:
    """Cross-entropy in nats, averaged over each run's counted tokens [S]; 0 for a run with none."""
    stack, vocabulary = logits_SBTV.shape[0], logits_SBTV.shape[-1]
    each = functional.cross_entropy(logits_SBTV.reshape(-1, vocabulary).float(), targets_SBT.reshape(-1), reduction="none")
    weight_SN = counted_SBT.reshape(stack, -1).to(each.dtype)
    return (each.view(stack, -1) * weight_SN).sum(dim=1) / weight_SN.sum(dim=1).clamp(min=1)


def _decayed(where: Layout) -> Tensor:
    """1 for the elements weight decay applies to (matrices), 0 for gains and padding; [P]."""
    mask = torch.zeros(1, where.width)
    for name, view in where.views(mask).items():
        view.fill_(0.0 if name.endswith("norm") else 1.0)
    return mask[0]
