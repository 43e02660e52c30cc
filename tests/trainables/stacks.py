"""Small real stacks for tests of models and learners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainables.base import Mix, Outcome, Report, RunConfig
from trainables.families.listops import ListOps, ListOpsSettings
from trainables.families.permutations import Permutations, PermutationSettings
from trainables.families.transformer import TransformerFamily, TransformerSettings
from trainables.tasks.listops import TaskSettings
from trainables.tasks.permutations import TaskSettings as PermutationTask
from trainables.transformer.architecture import ModelSettings
from trainables.transformer.learner import TransformerLearner
from trainables.transformer.training_settings import TrainingSettings

TASK = TaskSettings(modulus=6, depth=1, held_out_fraction=0.2, train_examples=1500)
TRAINING = TrainingSettings(
    steps=60,
    batch=16,
    learning_rate=5e-3,
    learning_rate_end=1e-4,
    schedule="cosine",
    warmup_steps=5,
    loss="answer",
    windows="expression",
    evaluate_every=10,
)
SETTINGS = ListOpsSettings(TASK, ModelSettings(block=18), TRAINING)
PERMUTATIONS = PermutationSettings(
    PermutationTask(group="S3", depth=1, held_out_fraction=0.2, train_examples=1500), ModelSettings(block=18), TRAINING
)
NESTED_MODEL = ModelSettings(block=60)
"""A model for expressions of depth 2 with three arguments."""
FAMILIES: tuple[type[TransformerFamily], ...] = (ListOps, Permutations)


def config(mix: str = "add", size: int = 12, seed: int = 0, **training: Any) -> RunConfig:
    """Return a run of the small setting; keywords change training settings."""
    settings = replace(SETTINGS, training=replace(TRAINING, **training))
    return RunConfig(Mix.parse(mix), size, seed, settings)


def family_of(settings: TransformerSettings) -> TransformerFamily:
    """Return the family with these settings."""
    return next(family for family in FAMILIES if family.Settings is type(settings))(settings)


def make_learner(runs: Sequence[RunConfig], cache: Path) -> TransformerLearner:
    """Return a learner for these runs on the CPU."""
    learner = family_of(runs[0].settings).learner(runs, device="cpu", cache=cache)
    assert isinstance(learner, TransformerLearner)
    return learner


def last_reports(learner: TransformerLearner) -> dict[int, Report]:
    """Return the last report of each run of a stack, by its place."""
    ended: dict[int, Report] = {}
    while reports := learner.advance():
        ended |= {report.index: report for report in reports if report.outcome is not None}
    return ended


def outcomes(learner: TransformerLearner) -> dict[int, Outcome]:
    """Return the outcomes of a stack's runs, by their places."""
    return {place: report.outcome for place, report in last_reports(learner).items() if report.outcome is not None}


def losses(learner: TransformerLearner) -> dict[int, list[float]]:
    """Return training losses of a stack's runs between evaluations, by their places."""
    return {place: [point.loss for point in outcome.curve] for place, outcome in outcomes(learner).items()}
