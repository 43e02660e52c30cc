"""A model loaded from its weights equals the trained model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.families import LogisticFamily, LogisticSettings
from tests.trainables.stacks import SETTINGS, config, last_reports, make_learner
from trainables.base import Arm, Report, RunConfig
from trainables.families.listops import ListOps

EASY = config("max", 24, 100, steps=300, evaluate_every=100, batch=32)


def last_report(run: RunConfig, cache: Path) -> Report:
    return last_reports(make_learner([run], cache))[0]


def test_weights_of_another_model_are_refused(data_cache: Path) -> None:
    weights = make_learner([config(size=12)], data_cache)._weights(0)
    family = ListOps(SETTINGS)
    headless = {name: weight for name, weight in weights.items() if name != "head"}
    for size, theirs in ((16, weights), (12, headless)):
        with pytest.raises(ValueError, match="the weights belong to a model of another shape"):
            family.load(config(size=size), theirs)


def test_a_family_without_loading_raises_an_error() -> None:
    family = LogisticFamily(LogisticSettings())
    run = family.config(Arm.parse("add"), 8, 0)
    with pytest.raises(NotImplementedError, match="the family 'logistic' does not load models"):
        family.load(run, {"weights": np.zeros(1)})
    with pytest.raises(NotImplementedError, match="the family 'logistic' does not expose data"):
        family.data(run, Path())
