"""Training of a stack: the step that advances all runs at once.

Shape suffixes as in model.py: S stack, P parameters of one model, K steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from trainables.transformer.architecture import Layout, ModelSettings
from trainables.transformer.datasets import Dataset
from trainables.transformer.generation import TOKENS_A_PASS, ForwardWithPast, write_by_drafts, write_by_steps
from trainables.transformer.gpu_step import (
    CANONICAL_STACK,
    CapturedStep,
    can_compile,
    choose_kernels,
    compiled,
    compiling,
    let_grow,
    pad_parameters,
    repeatable,
)
from trainables.transformer.model import forward
from trainables.transformer.optimizer import StackState, adamw_step, step_factors
from trainables.transformer.training_settings import TrainingSettings
from trainables.transformer.training_windows import WindowSampler

GPU_WIDTHS = 8
"""Multiple to which every inner width is padded on a GPU: 16 bytes of bf16."""
_COMPILED_FIRST: set[Hashable] = set()
"""Forms that this process has compiled for the canonical stack."""


@dataclass(eq=False)
class Trainer(ABC):
    """Runs optimizer steps of a stack.

    Attributes:
        state: Training state of the stack.
        model: Architecture of the models.
        layout: Layout of a model's parameters.
        settings: Settings of each run. All runs agree in the settings that shape a step.
        texts: Data of each run.
        keys: Seed of each run's windows (:class:`WindowSampler`).
        frozen: For each run, the names of the parameters that it does not train. Empty if all runs train everything.
    """

    state: StackState
    model: ModelSettings
    layout: Layout
    settings: Sequence[TrainingSettings]
    texts: Sequence[Dataset]
    keys: Sequence[int]
    frozen: Sequence[Collection[str]] = ()

    _pad_to = 1

    def __post_init__(self) -> None:
        self.state.check(len(self.settings), self.layout.width)
        # decayed_1P is 1 where weight decay applies, trained_SP is 1 where a run's parameters are not frozen.
        decayed_1P = torch.zeros(1, self.layout.width)
        trained_SP = torch.ones(len(self.settings), self.layout.width)
        # By default only matrices decay. Decay would pull the gains of norms, which start at 1, towards 0.
        for name, view in self.layout.views(decayed_1P).items():
            view.fill_(self.settings[0].decay == "all" or len(self.layout.shapes[name]) > 1)
        for name, view in self.layout.views(trained_SP).items():
            view[[row for row, names in enumerate(self.frozen) if name in names]] = 0.0
        device = self.state.parameters_SP.device
        self._decayed_P = decayed_1P[0].to(device)
        self._trained_SP = trained_SP.to(device) if any(self.frozen) else None

    @abstractmethod
    def run(self, first: int, last: int) -> None:
        """Train steps ``first`` .. ``last - 1`` (from 0)."""

    def models(self) -> ForwardWithPast:
        """Return the models of the stack with their present weights."""
        parameters = pad_parameters(self.model, self.layout.views(self._weights()), self._pad_to)
        return lambda tokens_SMT, past=None: forward(self.model, parameters, tokens_SMT, past=past)

    def _weights(self) -> Tensor:
        """Return the parameters in the precision of the forward pass. The state has float32, because many steps of
        AdamW are too small to change a number in bf16."""
        bf16 = self.settings[0].precision == "bf16"
        return self.state.parameters_SP.to(torch.bfloat16) if bf16 else self.state.parameters_SP

    def write(self, tokens_SMW: Tensor, begin_SM: Tensor, end: int, keys: Sequence[int] | None = None) -> None:
        """Write every model's texts in place (:func:`~trainables.transformer.generation.write_by_drafts`)."""
        # Two ways of writing differ in rounding, which decides between tokens that are nearly as likely. So a CPU keeps
        # the old way, and its results.
        write = write_by_steps if tokens_SMW.is_cuda else write_by_drafts
        # Without a backward pass, as many tokens as in a training step usually fit.
        most_tokens = max(TOKENS_A_PASS, len(self.settings) * self.settings[0].batch * self.model.block)
        fewest_tokens = tokens_SMW.shape[0] * tokens_SMW.shape[2]  # One text of each run.
        while True:
            try:
                with torch.no_grad():
                    write(self.models(), tokens_SMW, begin_SM, end, keys, most_tokens)
                return
            except torch.OutOfMemoryError:  # The memory of a training step stays reserved, so less may be left here.
                if most_tokens <= fewest_tokens:
                    raise
            torch.cuda.empty_cache()  # The texts written so far are kept.
            most_tokens = max(most_tokens // 2, fewest_tokens)


@dataclass(eq=False)
class StackTrainer(Trainer):
    """Trains the whole stack by torch, as one batched model.

    On a GPU, widths are padded for tensor cores, and the step is captured as one CUDA graph. If ``compile_step`` is
    True, its forward and backward passes are compiled. By default gpu_step.py decides.
    """

    compile_step: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        device = self.state.parameters_SP.device
        if device.type == "cuda":
            choose_kernels(self.settings[0].precision)
        self._sampler = WindowSampler(self.texts, self.keys, self.model.block, self.settings[0], device)
        self._pad_to = GPU_WIDTHS if device.type == "cuda" else 1
        self._compiled = can_compile(device) if self.compile_step is None else self.compile_step
        self._losses = compiled(stack_losses) if self._compiled else stack_losses
        self._update = compiled(adamw_step) if self._compiled else adamw_step
        # A recorded step reads its inputs from the same addresses at every replay. Its number and its factors are
        # therefore written into these tensors.
        self._step = torch.zeros((), dtype=torch.int64, device=device)
        self._factors_3S = self.state.parameters_SP.new_empty(3, len(self.settings))
        self._captured = CapturedStep() if device.type == "cuda" else None
        if self._compiled and len(self.settings) > 1:
            self._compile_first()

    def run(self, first: int, last: int) -> None:
        """Train steps ``first`` .. ``last - 1`` (from 0) without waiting for the device."""
        factors_K3S = torch.from_numpy(step_factors(self.settings, first, last)).to(self._step.device)
        self._step.fill_(first)
        with repeatable() if self._compiled or self._captured is not None else nullcontext():
            for factors_3S in factors_K3S:
                self._factors_3S.copy_(factors_3S)
                if self._captured is None:
                    self._take_step()
                else:
                    self._captured.run(self._take_step)
        self.state.loss_steps += last - first

    def _take_step(self) -> None:
        tokens_SBW, answer_SBW = self._sampler.draw(self._step)
        gradients, loss_S = self._differentiate(self._weights(), tokens_SBW, answer_SBW)
        self._move(gradients, self.state, self._factors_3S, self._trained_SP)
        self.state.loss_S += loss_S
        self._step += 1

    def _differentiate(
        self, weights_SP: Tensor, tokens_SBW: Tensor, answer_SBW: Tensor
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Return the gradients of all parameters, in order, and the mean loss [S] of any stack of these models."""
        leaves = {name: view.detach().requires_grad_() for name, view in self.layout.views(weights_SP).items()}
        answer_SBT = answer_SBW[..., 1:]
        counted_SBT = answer_SBT if self.settings[0].loss == "answer" else torch.ones_like(answer_SBT)
        if self._compiled:  # Also below: one compiled version serves stacks of all sizes.
            let_grow(*leaves.values(), tokens_SBW, counted_SBT)
        loss_S = self._losses(self.model, leaves, tokens_SBW, counted_SBT, self._pad_to)
        # A run's loss depends only on its own parameters, so the gradient of the sum is every run's own gradient.
        gradients = torch.autograd.grad(loss_S.sum(), list(leaves.values()))
        return gradients, loss_S.detach()

    def _move(
        self, gradients: Sequence[Tensor], state: StackState, factors_3S: Tensor, trained_SP: Tensor | None
    ) -> None:
        """Move the parameters of any stack of these models along their gradients."""
        moved = (state.parameters_SP, state.first_SP, state.second_SP)
        if self._compiled:
            let_grow(*gradients, *moved, *([] if trained_SP is None else [trained_SP]))
            let_grow(factors_3S, axis=1)
        after = self._update(self.settings[0], self.layout, gradients, moved, factors_3S, self._decayed_P, trained_SP)
        for before_SP, after_SP in zip(moved, after, strict=True):  # In place: views and recorded steps refer to them.
            before_SP.copy_(after_SP)

    def _compile_first(self) -> None:
        """Compile the passes for the canonical stack, on zero weights, once per process.

        The compiler chooses kernels for the first sizes that it gets. If these were the sizes of whichever stack came
        first, the bits of a run would depend on the runs before it (:data:`CANONICAL_STACK`).
        """
        weights = self._weights()
        training = self.settings[0]
        # All settings that the compiled functions read. Another value of one needs another version.
        shaping = (training.batch, training.loss, training.precision, training.beta1, training.beta2, training.clip)
        form = (self.model, *self.layout.shapes.items(), *shaping, self._trained_SP is None, weights.device)
        if form not in _COMPILED_FIRST:
            windows = (CANONICAL_STACK, training.batch, self.model.block + 1)
            tokens_SBW = torch.zeros(windows, dtype=torch.int64, device=weights.device)
            with repeatable(), compiling(form):
                no_weights = weights.new_zeros(CANONICAL_STACK, weights.shape[1])
                with suppress(torch.OutOfMemoryError):  # The passes are compiled before they run out of memory.
                    gradients, _ = self._differentiate(
                        no_weights, tokens_SBW, torch.ones_like(tokens_SBW, dtype=torch.bool)
                    )
                    trained_SP = None if self._trained_SP is None else torch.ones_like(no_weights, dtype=torch.float32)
                    factors_3S = self._factors_3S.new_ones(3, CANONICAL_STACK)
                    self._move(gradients, StackState.start(no_weights.float()), factors_3S, trained_SP)
            _COMPILED_FIRST.add(form)


def stack_losses(
    model: ModelSettings, parameters: Mapping[str, Tensor], tokens_SBW: Tensor, counted_SBT: Tensor, pad_to: int
) -> Tensor:
    """Return every run's loss [S] in predicting its windows of W = T + 1 tokens.

    The loss is the cross-entropy in nats, averaged over the run's counted tokens, or 0 if there are none.
    """
    logits_SBTV = forward(model, pad_parameters(model, parameters, pad_to), tokens_SBW[..., :-1])
    stack, vocabulary = logits_SBTV.shape[0], logits_SBTV.shape[-1]
    # Not averaged by torch, which would average over the runs of the stack, too.
    loss = functional.cross_entropy(
        logits_SBTV.reshape(-1, vocabulary).float(), tokens_SBW[..., 1:].reshape(-1), reduction="none"
    )
    weight_SN = counted_SBT.reshape(stack, -1).to(loss.dtype)
    return (loss.view(stack, -1) * weight_SN).sum(dim=1) / weight_SN.sum(dim=1).clamp(min=1)
