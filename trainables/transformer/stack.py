"""Training of a stack: parameters, optimizer state and the step that advances all runs at once.

Shape suffixes as in model.py: S stack, P parameters of one model, K steps.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.nn import functional

from trainables.transformer.architecture import Layout, ModelSettings
from trainables.transformer.gpu_step import (
    CANONICAL_STACK,
    CapturedStep,
    can_compile,
    compiled,
    compiling,
    let_grow,
    pad_parameters,
    repeatable,
)
from trainables.transformer.model import forward
from trainables.transformer.optimizer import AdamState, adamw_step, step_sizes
from trainables.transformer.training_settings import OUTSIDE_THE_GRADIENT, Decay, TrainingSettings
from trainables.transformer.training_windows import WindowSampler

GPU_WIDTHS = 8
"""Multiple to which every inner width is padded on a GPU: 16 bytes of bf16."""
_COMPILED_FIRST: set[tuple[Hashable, ...]] = set()
"""Forms that this process has compiled for the canonical stack."""


@dataclass
class StackState:
    """Training state: float32 parameters [S, P], their moments, and the loss summed over steps [S]."""

    parameters_SP: Tensor
    adam: AdamState
    loss_S: Tensor
    loss_steps: int = 0

    @classmethod
    def start(cls, parameters_SP: Tensor) -> StackState:
        zeros = torch.zeros_like(parameters_SP)
        return cls(parameters_SP, AdamState(zeros, zeros.clone()), parameters_SP.new_zeros(len(parameters_SP)))

    def tensors(self) -> dict[str, Tensor]:
        return {
            "parameters": self.parameters_SP,
            "first": self.adam.first_SP,
            "second": self.adam.second_SP,
            "loss": self.loss_S,
        }

    @classmethod
    def of(cls, tensors: dict[str, Tensor], loss_steps: int, device: torch.device) -> StackState:
        on = {name: tensor.to(device) for name, tensor in tensors.items()}
        return cls(on["parameters"], AdamState(on["first"], on["second"]), on["loss"], loss_steps)

    def keep(self, rows: Tensor) -> None:
        """Keep only these runs of the stack (ascending indices); their numbers do not change."""
        self.parameters_SP = self.parameters_SP[rows].clone()
        self.adam = AdamState(self.adam.first_SP[rows].clone(), self.adam.second_SP[rows].clone())
        self.loss_S = self.loss_S[rows].clone()


class StackTrainer:
    """Runs optimizer steps of a stack.

    ``settings`` has an entry for each run; all entries agree in what shapes a step. ``frozen`` names the parameters
    that each run does not train.

    On a GPU, widths are padded for tensor cores, the step is captured as one CUDA graph, and its forward and backward
    passes are compiled if ``compile_step`` is True (default: gpu_step.py decides).
    """

    def __init__(
        self,
        state: StackState,
        model: ModelSettings,
        where: Layout,
        settings: Sequence[TrainingSettings],
        sampler: WindowSampler,
        *,
        frozen: Sequence[Collection[str]] = (),
        compile_step: bool | None = None,
    ) -> None:
        self.state = state
        self._model = model
        self._where = where
        self._settings = tuple(settings)
        self._sampler = sampler
        device = state.parameters_SP.device
        self._pad_to = GPU_WIDTHS if device.type == "cuda" else 1
        self._compiled = can_compile(device) if compile_step is None else compile_step
        self._losses = compiled(stack_losses) if self._compiled else stack_losses
        self._decayed_P = decayed_mask(where, settings[0].decay).to(device)
        self._trained_SP = trained_mask(where, frozen, device)
        self._step = torch.zeros((), dtype=torch.int64, device=device)
        if self._compiled and len(self._settings) > 1:
            self._compile_first()
        self._fix_addresses()

    def run(self, first: int, last: int) -> None:
        """Train steps ``first`` .. ``last - 1`` (from 0) without waiting for the device."""
        sizes_K3S = torch.from_numpy(step_sizes(self._settings, first, last)).to(self._step.device)
        self._step.fill_(first)
        with nullcontext() if self._captured is None else repeatable():
            for sizes_3S in sizes_K3S:
                self._sizes_3S.copy_(sizes_3S)
                if self._captured is None:
                    self._take_step()
                else:
                    self._captured.run(self._take_step)
        self.state.loss_steps += last - first

    def keep(self, rows: Tensor) -> None:
        self._drop_recording()
        self.state.keep(rows)
        self._sampler.keep(rows)
        self._settings = tuple(self._settings[int(row)] for row in rows)
        if self._trained_SP is not None:
            self._trained_SP = self._trained_SP[rows].clone()
        self._fix_addresses()

    def logits(self, tokens_SMT: Tensor) -> Tensor:
        with torch.no_grad():
            parameters = pad_parameters(self._model, self._where.views(self._weights()), self._pad_to)
            return forward(self._model, parameters, tokens_SMT)

    def _fix_addresses(self) -> None:
        """Allocate the tensors that outlive a step, which a recorded step needs in place."""
        self._sizes_3S = self.state.parameters_SP.new_empty(3, len(self._settings))
        self._captured = CapturedStep() if self._step.is_cuda else None

    def _drop_recording(self) -> None:
        """Free the recorded step's memory before the next recording, so that the device never needs room for both."""
        if self._captured is not None:
            self._captured = None
            torch.cuda.empty_cache()

    def _take_step(self) -> None:
        gradient_SP, loss_S = self._gradient()
        decayed = self._decayed_P
        if self._trained_SP is not None:  # Without a gradient the moments stay 0; only decay could act.
            gradient_SP.mul_(self._trained_SP)
            decayed = decayed * self._trained_SP
        state = self.state
        adamw_step(state.parameters_SP, gradient_SP, state.adam, self._settings[0], self._sizes_3S, decayed)
        state.loss_S += loss_S
        self._step += 1

    def _weights(self) -> Tensor:
        bf16 = self._settings[0].precision == "bf16"
        return self.state.parameters_SP.to(torch.bfloat16) if bf16 else self.state.parameters_SP

    def _gradient(self) -> tuple[Tensor, Tensor]:
        """Return the gradient [S, P] and mean loss [S] of every run on its windows of this step."""
        tokens_SBW, answer_SBW = self._sampler.draw(self._step)
        gradients, loss_S = self._differentiate(self._weights(), tokens_SBW, answer_SBW)
        return self._flatten(gradients), loss_S

    def _differentiate(
        self, weights_SP: Tensor, tokens_SBW: Tensor, answer_SBW: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Return the gradients of all parameters, by name, and the mean loss [S] of any stack of these models."""
        leaves = {name: view.detach().requires_grad_() for name, view in self._where.views(weights_SP).items()}
        counted_SBT = (
            answer_SBW[..., 1:] if self._settings[0].loss == "answer" else torch.ones_like(answer_SBW[..., 1:])
        )
        if self._compiled:
            let_grow(*leaves.values(), tokens_SBW, counted_SBT)
        loss_S = self._losses(self._model, leaves, tokens_SBW, counted_SBT, self._pad_to)
        # A run's loss depends only on its own parameters, so the gradient of the sum is every run's own gradient.
        gradients = torch.autograd.grad(loss_S.sum(), list(leaves.values()))
        return dict(zip(leaves, gradients, strict=True)), loss_S.detach()

    def _compile_first(self) -> None:
        """Compile the passes for the canonical stack, on zero weights, once per process.

        One process of a machine compiles; the others read the result from the cache.
        """
        form = compiled_form(self._model, self._where, self._settings[0], self._step.device)
        if form not in _COMPILED_FIRST:
            weights = self._weights()
            tokens_SBW, answer_SBW = self._sampler.draw(self._step)
            like = (CANONICAL_STACK, *tokens_SBW.shape[1:])
            with repeatable() if self._step.is_cuda else nullcontext(), compiling(form):
                self._differentiate(
                    weights.new_zeros(CANONICAL_STACK, weights.shape[1]),
                    tokens_SBW.new_zeros(like),
                    answer_SBW.new_ones(like),
                )
            _COMPILED_FIRST.add(form)

    def _flatten(self, gradients: dict[str, Tensor]) -> Tensor:
        """Return gradients in the layout of the parameters, float32 [S, P], padded with zeros."""
        pieces, end = [], 0
        stack = len(self._settings)
        for name, offset in self._where.offsets.items():
            if offset > end:
                pieces.append(self.state.parameters_SP.new_zeros(stack, offset - end))
            pieces.append(gradients[name].reshape(stack, -1).float())
            end = offset + pieces[-1].shape[1]
        pieces.append(self.state.parameters_SP.new_zeros(stack, self._where.width - end))
        return torch.cat(pieces, dim=1)


def compiled_form(
    model: ModelSettings, where: Layout, training: TrainingSettings, device: torch.device
) -> tuple[Hashable, ...]:
    """Return what decides a compiled forward and backward pass: all settings except those known not to affect it."""
    shaping = [(name, value) for name, value in asdict(training).items() if name not in OUTSIDE_THE_GRADIENT]
    return model, *where.shapes.items(), *shaping, device


def stack_losses(
    model: ModelSettings, parameters: Mapping[str, Tensor], tokens_SBW: Tensor, counted_SBT: Tensor, pad_to: int
) -> Tensor:
    """Return every run's mean loss [S] in predicting its windows of W = T + 1 tokens."""
    logits_SBTV = forward(model, pad_parameters(model, parameters, pad_to), tokens_SBW[..., :-1])
    return mean_loss(logits_SBTV, tokens_SBW[..., 1:], counted_SBT)


def mean_loss(logits_SBTV: Tensor, targets_SBT: Tensor, counted_SBT: Tensor) -> Tensor:
    """Return the cross-entropy in nats [S], averaged over each run's counted tokens; 0 if there are none."""
    stack, vocabulary = logits_SBTV.shape[0], logits_SBTV.shape[-1]
    each = functional.cross_entropy(
        logits_SBTV.reshape(-1, vocabulary).float(), targets_SBT.reshape(-1), reduction="none"
    )
    weight_SN = counted_SBT.reshape(stack, -1).to(each.dtype)
    return (each.view(stack, -1) * weight_SN).sum(dim=1) / weight_SN.sum(dim=1).clamp(min=1)


def decayed_mask(where: Layout, decay: Decay) -> Tensor:
    """Return a mask [P]: 1 for elements that weight decay applies to, 0 for other elements and padding."""
    mask = torch.zeros(1, where.width)
    for name, view in where.views(mask).items():
        view.fill_(1.0 if decay == "all" or len(where.shapes[name]) > 1 else 0.0)
    return mask[0]


def trained_mask(where: Layout, frozen: Sequence[Collection[str]], device: torch.device) -> Tensor | None:
    """Return a mask [S, P]: 0 for the frozen elements of each run, 1 for others. Return None if nothing is frozen."""
    if not any(frozen):
        return None
    trained = torch.ones(len(frozen), where.width)
    for name, view in where.views(trained).items():
        for row, names in enumerate(frozen):
            if name in names:
                view[row].fill_(0.0)
    return trained.to(device)
