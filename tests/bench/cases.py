"""What the throughput benchmark trains: the paper's model and batch, or the laptop profile's, on made-up text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from trainables.architecture import ModelSettings, flops_per_token, layout
from trainables.corpus import Dataset
from trainables.sampling import WindowSampler
from trainables.stack import StackState, StackTrainer
from trainables.training import Precision, TrainingSettings
from trainables.transformer import initialise

STEPS = 1_000_000
"""Of the schedule: more than any benchmark takes."""


@dataclass(frozen=True)
class Shape:
    """What is the same at every width. The model is one block applied four times."""

    block: int
    batch: int
    vocabulary: int

    @property
    def tokens_a_step(self) -> int:
        return self.block * self.batch


SHAPES = {"paper": Shape(block=128, batch=64, vocabulary=32), "laptop": Shape(block=18, batch=64, vocabulary=18)}


@dataclass(frozen=True)
class Case:
    """One width at one shape and precision on one device."""

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
        """Random tokens: what is learned does not matter here, what is computed does."""
        tokens = np.random.default_rng(0).integers(0, self.shape.vocabulary, 1_000_000).astype(np.uint16)
        return Dataset(tokens, np.ones(len(tokens), dtype=np.bool_), np.zeros(1, dtype=np.int64), {}, {}, None, {})

    def stack(self, size: int, compile_step: bool | None = None) -> StackTrainer:
        """A stack of ``size`` runs with seeds 0, 1, ..., at step 0."""
        text = self.text()
        where = layout(self.model, self.width, self.shape.vocabulary)
        models = [initialise(self.model, where, torch.Generator().manual_seed(seed)) for seed in range(size)]
        sampler = WindowSampler(
            [text] * size,
            list(range(size)),
            block=self.shape.block,
            batch=self.shape.batch,
            windows=self.training.windows,
            device=torch.device(self.device),
        )
        state = StackState.start(torch.stack(models).to(self.device))
        return StackTrainer(state, self.model, where, [self.training] * size, sampler, compile_step=compile_step)
