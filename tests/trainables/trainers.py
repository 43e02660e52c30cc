"""Stack trainers on made-up text, for tests of the step."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch

from trainables.transformer.architecture import ModelSettings, layout_of
from trainables.transformer.datasets import Dataset
from trainables.transformer.model import initialize
from trainables.transformer.native.trainer import NativeTrainer
from trainables.transformer.optimizer import StackState
from trainables.transformer.stack import StackTrainer, Trainer
from trainables.transformer.training_settings import TrainingSettings

VOCABULARY = 13
MODEL = ModelSettings(block=12, n_recurrence=2)
TRAINING = TrainingSettings(steps=200, batch=8, learning_rate=5e-3, schedule="cosine", learning_rate_end=1e-4)


def text(seed: int = 0) -> Dataset:
    """Return tokens that increase by 1 or 2: a few steps teach a model this rule, down to a loss of ln 2."""
    tokens = np.random.default_rng(seed).integers(1, 3, 3000).cumsum() % VOCABULARY
    answer = np.arange(len(tokens)) % 3 == 2
    return Dataset(tokens.astype(np.uint16), answer, np.arange(0, len(tokens), 3), {}, {}, None, {})


TEXT = text()


def parts(
    seeds: Sequence[int],
    settings: Sequence[TrainingSettings] | None = None,
    *,
    device: str = "cpu",
    n_embed: int = 16,
    model: ModelSettings = MODEL,
    state: StackState | None = None,
) -> dict[str, Any]:
    """Return the arguments of a trainer of a stack of runs that differ in their seeds and, if given, in their settings;
    it starts at step 0 unless ``state`` is given."""
    layout = layout_of(model, n_embed, VOCABULARY)
    models = [initialize(model, layout, torch.Generator().manual_seed(seed)) for seed in seeds]
    state = StackState.start(torch.stack(models).to(device)) if state is None else state
    texts = {"texts": [TEXT] * len(seeds), "keys": list(seeds)}
    return {"state": state, "model": model, "layout": layout, "settings": settings or [TRAINING] * len(seeds), **texts}


def make_trainer(
    seeds: Sequence[int],
    *,
    compile_step: bool | None = None,
    frozen: Sequence[Collection[str]] = (),
    **given: Any,
) -> StackTrainer:
    """Return torch's trainer of these :func:`parts`."""
    return StackTrainer(**parts(seeds, **given), frozen=frozen, compile_step=compile_step)


def native_trainer(seeds: Sequence[int], *, frozen: Sequence[Collection[str]] = (), **given: Any) -> NativeTrainer:
    """Return the native trainer of these :func:`parts`."""
    return NativeTrainer(**parts(seeds, **given), frozen=frozen)


def rows_of(trainer: Trainer, *rows: int) -> StackState:
    """Return a copy of the state of some runs, of all by default."""
    state = trainer.state
    return StackState.of(state.tensors(), rows or range(len(state.loss_S)), state.loss_steps, state.loss_S.device)


def losses(trainer: Trainer, steps: int, first: int = 0) -> torch.Tensor:
    """Train step by step. Return the loss of every run at every step [K, S] on the CPU."""
    curve = []
    for step in range(first, first + steps):
        trainer.state.loss_S.zero_()
        trainer.run(step, step + 1)
        curve.append(trainer.state.loss_S.cpu().clone())
    return torch.stack(curve)
