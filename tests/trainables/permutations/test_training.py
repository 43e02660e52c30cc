"""Models on permutations: answers of several tokens are scored whole, and a small model learns."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainables.base import Mix, Outcome, RunConfig
from trainables.tasks.permutations import Permutations, PermutationSettings, TaskSettings
from trainables.transformer.architecture import ModelSettings
from trainables.transformer.initialisation import InitSettings
from trainables.transformer.optimizer import TrainingSettings


@pytest.mark.slow
def test_a_small_model_learns_products_it_has_never_seen(data_cache: Path) -> None:
    """Half of them, where the best constant answer is right for a fifth: a short training, not a good one."""
    training = TrainingSettings(
        steps=1500,
        learning_rate=3e-3,
        learning_rate_end=3e-5,
        schedule="cosine",
        warmup_steps=50,
        weight_decay=0.1,
        beta2=0.98,
        loss="answer",
        windows="expression",
        evaluate_every=250,
        stop_when_solved=True,
    )
    task = TaskSettings(group="S3", depth=1, nesting=0.0, held_out_fraction=0.2, train_examples=20_000)
    settings = PermutationSettings(task, ModelSettings(block=20, init=InitSettings(std=0.2)), training)
    run = RunConfig(Mix.parse("product"), 24, 100, settings)
    learner = Permutations(settings).learner([run], device="cpu", cache=data_cache)
    ended: list[Outcome] = []
    while reports := learner.advance():
        ended += [report.outcome for report in reports if report.outcome is not None]
    assert ended[0].curve[-1].loss < 0.1
    assert ended[0].accuracy["product"] > ended[0].floor["product"] + 0.15
