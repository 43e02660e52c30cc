"""The baseline for a stack: the same model as a careful user writes it, with each run in a separate process.

The mathematics are the same as for a stack of one (a test compares the loss curves): an ``nn.Module`` with fused
attention, fused AdamW, data on the device and no waiting for it between steps. The ``compiled`` form runs through
``torch.compile``, and on a GPU its whole step is captured as a CUDA graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from trainables.transformer.architecture import ModelSettings, flops_per_token, layout_of
from trainables.transformer.datasets import Dataset
from trainables.transformer.gpu_step import CapturedStep
from trainables.transformer.model import initialize
from trainables.transformer.native.trainer import NativeTrainer
from trainables.transformer.optimizer import StackState
from trainables.transformer.stack import StackTrainer
from trainables.transformer.training_settings import Precision, TrainingSettings

STEPS = 1_000_000
"""Steps of the schedule, more than any benchmark takes."""


@dataclass(frozen=True)
class Shape:
    """Settings that are the same at every width. The model is one block applied four times."""

    block: int
    batch: int
    vocabulary: int

    @property
    def tokens_a_step(self) -> int:
        return self.block * self.batch


SHAPES = {
    "paper": Shape(block=128, batch=64, vocabulary=32),
    "nested": Shape(block=60, batch=33, vocabulary=18),
    "flat": Shape(block=20, batch=64, vocabulary=18),
}
"""The paper profile, nested expressions (laptop_fair and laptop), and flat sums of two expressions."""


@dataclass(frozen=True)
class Case:
    """A width, shape and precision on a device."""

    shape: Shape
    width: int
    precision: Precision
    device: str

    @property
    def model(self) -> ModelSettings:
        return ModelSettings(block=self.shape.block)

    @property
    def training(self) -> TrainingSettings:
        return TrainingSettings(steps=STEPS, batch=self.shape.batch, precision=self.precision)

    @property
    def flops_a_step(self) -> float:
        return self.shape.tokens_a_step * flops_per_token(self.model, self.width, self.shape.vocabulary)

    def text(self) -> Dataset:
        """Return random tokens: only the computation matters here, not what is learned."""
        tokens = np.random.default_rng(0).integers(0, self.shape.vocabulary, 1_000_000).astype(np.uint16)
        return Dataset(tokens, np.ones(len(tokens), dtype=np.bool_), np.zeros(1, dtype=np.int64), {}, {}, None, {})

    def stack(self, size: int, compile_step: bool | None = None) -> StackTrainer:
        """Return a stack of ``size`` runs with seeds 0, 1, ..., at step 0."""
        return StackTrainer(**self._parts(size), compile_step=compile_step)

    def native(self) -> NativeTrainer:
        """Return one run of the native step, at step 0."""
        return NativeTrainer(**self._parts(1))

    def _parts(self, size: int) -> dict[str, Any]:
        layout = layout_of(self.model, self.width, self.shape.vocabulary)
        models = [initialize(self.model, layout, torch.Generator().manual_seed(seed)) for seed in range(size)]
        state = StackState.start(torch.stack(models).to(self.device))
        texts = {"texts": [self.text()] * size, "keys": list(range(size))}
        return {"state": state, "model": self.model, "layout": layout, "settings": [self.training] * size, **texts}


class Block(nn.Module):
    """Pre-norm attention and feed-forward with one head, no biases."""

    def __init__(self, width: int, feed_forward: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.attention_out = nn.Linear(width, width, bias=False)
        self.feed_forward_norm = nn.LayerNorm(width, bias=False)
        self.feed_forward_in = nn.Linear(width, feed_forward * width, bias=False)
        self.feed_forward_out = nn.Linear(feed_forward * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, T, C]."""
        q, k, v = self.qkv(self.attention_norm(x)).unsqueeze(1).chunk(3, dim=-1)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(1)
        x = x + self.attention_out(mixed)
        hidden = functional.relu(self.feed_forward_in(self.feed_forward_norm(x)))
        return x + self.feed_forward_out(hidden)  # type: ignore[no-any-return]


class PlainModel(nn.Module):
    """One block applied ``n_recurrence`` times."""

    def __init__(self, settings: ModelSettings, width: int, vocabulary: int) -> None:
        super().__init__()
        self.recurrence = settings.n_recurrence
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(settings.block, width)
        self.block = Block(width, settings.feed_forward)
        self.final_norm = nn.LayerNorm(width, bias=False)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=settings.init.scale)

    def forward(self, windows_BW: Tensor) -> Tensor:
        """Return the mean loss in predicting each window's tokens from the tokens before them."""
        tokens, targets = windows_BW[:, :-1], windows_BW[:, 1:]
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for _ in range(self.recurrence):
            x = self.block(x)
        logits = self.head(self.final_norm(x))
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class PlainRun:
    def __init__(self, model: PlainModel, settings: TrainingSettings, tokens: Tensor, *, compiled: bool) -> None:
        device = tokens.device
        self._settings, self._tokens = settings, tokens
        self._captured = CapturedStep() if compiled and device.type == "cuda" else None
        self._bf16 = settings.precision == "bf16"
        if device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = settings.precision == "tf32"
        self._parameters = list(model.parameters())
        self._loss = torch.compile(model, dynamic=False) if compiled else model
        self._rate = torch.zeros((), device=device)
        matrices = [parameter for parameter in self._parameters if parameter.dim() == 2]
        self._optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": settings.weight_decay},
                {"params": [parameter for parameter in self._parameters if parameter.dim() < 2], "weight_decay": 0.0},
            ],
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            fused=True,
            capturable=self._captured is not None,
        )
        if self._captured is not None:
            # Set this last, because reading the number in the optimizer's constructor waits for the GPU.
            for group in self._optimizer.param_groups:
                group["lr"] = self._rate
        block = model.position.num_embeddings
        self._span = torch.arange(block + 1, device=device)
        self._steps = 0

    def train(self, steps: int) -> None:
        """Take ``steps`` steps on windows drawn at random."""
        for rate in self._settings.learning_rates(self._steps, self._steps + steps):
            self._set_rate(float(rate))
            if self._captured is None:
                self._own_step()
            else:
                self._captured.run(self._own_step)
        self._steps += steps

    def step(self, windows_BW: Tensor) -> Tensor:
        """Take a step on these windows at the schedule's rate, and return the loss before it."""
        self._set_rate(float(self._settings.learning_rates(self._steps, self._steps + 1)[0]))
        self._steps += 1
        return self._update(windows_BW)

    def _set_rate(self, rate: float) -> None:
        if self._captured is not None:
            self._rate.fill_(rate)
            return
        for group in self._optimizer.param_groups:
            group["lr"] = rate

    def _own_step(self) -> None:
        starts = torch.randint(
            len(self._tokens) - len(self._span), (self._settings.batch, 1), device=self._tokens.device
        )
        self._update(self._tokens[starts + self._span].long())

    def _update(self, windows_BW: Tensor) -> Tensor:
        self._optimizer.zero_grad(set_to_none=True)
        # Autocast's cache of converted weights would outlive the step that a graph records.
        with torch.autocast(windows_BW.device.type, torch.bfloat16, self._bf16, cache_enabled=self._captured is None):
            loss: Tensor = self._loss(windows_BW)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._parameters, self._settings.clip)
        self._optimizer.step()
        return loss.detach()


def make_run(case: Case, *, compiled: bool) -> PlainRun:
    torch.manual_seed(0)
    model = PlainModel(case.model, case.width, case.shape.vocabulary).to(case.device)
    tokens = torch.from_numpy(case.text().tokens.astype("int32")).to(case.device)
    return PlainRun(model, case.training, tokens, compiled=compiled)
