"""A model loaded from its weights equals the trained model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.families import LogisticFamily, LogisticSettings
from tests.trainables.stacks import SETTINGS, config, last_reports, make_learner
from trainables.base import Arm, Report, RunConfig
from trainables.tasks.listops import ListOps
from trainables.transformer.generation import TrainedTransformer

EASY = config("max", 24, 100, steps=300, evaluate_every=100, batch=32)


def last_report(run: RunConfig, cache: Path) -> Report:
    return last_reports(make_learner([run], cache))[0]


def test_weights_of_another_model_and_too_long_texts_are_refused(data_cache: Path) -> None:
    weights = make_learner([config(size=12)], data_cache)._weights(0)
    family = ListOps(SETTINGS)
    with pytest.raises(ValueError, match=r"'0\.attention_norm' has shape \(12,\), not \(16,\), and \d+ more differ"):
        family.load(config(size=16), weights)
    with pytest.raises(ValueError, match=r"'head' has shape None, not \(12, 18\)"):
        family.load(config(size=12), {name: weight for name, weight in weights.items() if name != "head"})
    model = family.load(config(size=12), weights)
    assert isinstance(model, TrainedTransformer)
    with pytest.raises(ValueError, match="19 tokens do not fit the model's block of 18"):
        model.logits(torch.zeros(1, 19, dtype=torch.int64))


def test_a_family_without_loading_raises_an_error() -> None:
    family = LogisticFamily(LogisticSettings())
    run = family.config(Arm.parse("add"), 8, 0)
    with pytest.raises(NotImplementedError, match="the family 'logistic' does not load models"):
        family.load(run, {"weights": np.zeros(1)})
    with pytest.raises(NotImplementedError, match="the family 'logistic' does not expose data"):
        family.data(run, Path())
