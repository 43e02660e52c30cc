"""A stack of small transformers on made-up text that a few steps teach: what the checks of training train."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainables.architecture import ModelSettings, layout
from trainables.corpus import Dataset
from trainables.sampling import WindowSampler
from trainables.stack import StackState, StackTrainer
from trainables.training import Precision, TrainingSettings
from trainables.transformer import initialise

VOCABULARY = 13
STEPS = 10_000
"""Of the schedule: more than any check takes."""


@dataclass(frozen=True)
class Sample:
    """A stack of ``runs`` models of one width, one block applied ``recurrence`` times to ``batch`` rows of ``block``
    tokens a step."""

    n_embed: int = 16
    runs: int = 2
    device: str = "cpu"
    precision: Precision = "float32"
    block: int = 18
    batch: int = 64
    recurrence: int = 4

    @property
    def tokens_a_step(self) -> int:
        """Tokens that one run reads in a step."""
        return self.block * self.batch

    def trainer(self, compile_step: bool | None = None) -> StackTrainer:
        """The stack at step 0, with seeds 0, 1, ... On a GPU, products are set to its precision."""
        if self.device == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = self.precision == "tf32"
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
            torch.backends.cuda.enable_cudnn_sdp(False)
        model = ModelSettings(block=self.block, n_recurrence=self.recurrence)
        training = TrainingSettings(steps=STEPS, batch=self.batch, learning_rate=5e-3, precision=self.precision)
        where = layout(model, self.n_embed, VOCABULARY)
        models = [initialise(model, where, torch.Generator().manual_seed(seed)) for seed in range(self.runs)]
        sampler = WindowSampler(
            [_text()] * self.runs,
            list(range(self.runs)),
            block=self.block,
            batch=self.batch,
            windows=training.windows,
            device=torch.device(self.device),
        )
        state = StackState.start(torch.stack(models).to(self.device))
        return StackTrainer(state, model, where, [training] * self.runs, sampler, compile_step=compile_step)


def losses(trainer: StackTrainer, steps: int) -> Tensor:
    """Train the first ``steps`` steps one by one: the loss of every run at each, in nats, [K, S], on the CPU."""
    curve = []
    for step in range(steps):
        trainer.state.loss_S.zero_()
        trainer.run(step, step + 1)
        curve.append(trainer.state.loss_S.cpu().clone())
    return torch.stack(curve)


def digest(trainer: StackTrainer) -> str:
    """Every bit of a stack's state, as 16 hex digits."""
    found = hashlib.sha256()
    for tensor in trainer.state.tensors().values():
        found.update(tensor.cpu().numpy().tobytes())
    return found.hexdigest()[:16]


def _text() -> Dataset:
    """Tokens that go up by 1 or 2 each time: a loss of ln 2 is the least there is."""
    tokens = np.random.default_rng(0).integers(1, 3, 20_000).cumsum() % VOCABULARY
    answer = np.ones(len(tokens), dtype=np.bool_)
    return Dataset(tokens.astype(np.uint16), answer, np.zeros(1, dtype=np.int64), {}, {}, None, {})
