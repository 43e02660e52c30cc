"""Initial weights and their learning rates: per tensor, across widths, and in a stack."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from orchestrator.space.spaces import load_space
from tests.trainables.stacks import SETTINGS, config, make_learner
from tests.trainables.trainers import VOCABULARY
from trainables.base import Arm, SettingsError
from trainables.families.listops import ListOps
from trainables.transformer.architecture import ModelSettings, layout_of
from trainables.transformer.initialization import InitSettings, scale_warning
from trainables.transformer.model import initialize

WIDTH = 64


def spread(init: InitSettings) -> dict[str, float]:
    """Return the standard deviation of each parameter of a model of :data:`WIDTH` whose block is applied four times."""
    settings = ModelSettings(block=64, init=init)
    layout = layout_of(settings, WIDTH, VOCABULARY)
    views = layout.views(initialize(settings, layout, torch.Generator().manual_seed(3)).unsqueeze(0))
    return {name: view.std().item() for name, view in views.items()}


def test_scaled_weights_follow_fan_in_and_the_number_of_branches() -> None:
    deviations = spread(InitSettings("scaled", gain=2.0))
    assert deviations["token"] == pytest.approx(2 / math.sqrt(WIDTH), rel=0.06)
    assert deviations["0.qkv"] == pytest.approx(2 / math.sqrt(WIDTH), rel=0.03)
    assert deviations["head"] == pytest.approx(2 / math.sqrt(WIDTH), rel=0.06)
    assert deviations["0.attention_out"] == pytest.approx(2 / math.sqrt(WIDTH * 8), rel=0.03)
    assert deviations["0.feed_forward_out"] == pytest.approx(2 / math.sqrt(4 * WIDTH * 8), rel=0.03)


def test_runs_of_one_stack_have_initial_weights_of_their_own_spread(data_cache: Path) -> None:
    wide = replace(SETTINGS, model=replace(SETTINGS.model, init=InitSettings(std=0.5)))
    runs = [config(), replace(config(), settings=wide)]
    assert len({ListOps(SETTINGS).shape(run) for run in runs}) == 1
    stack = make_learner(runs, data_cache)
    for place, run in enumerate(runs):
        mine = make_learner([run], data_cache)._weights(0)
        assert all(np.array_equal(weight, mine[name]) for name, weight in stack._weights(place).items())


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"kind": "scaled", "std": 0.1}, "model.init.std"),
        ({"gain": 1.0}, "model.init.gain"),
        ({"std": 0.0}, "model.init.std"),
    ],
)
def test_settings_without_effect_are_refused_by_name(given: dict[str, Any], key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        InitSettings(**given)
    assert caught.value.key == key


def test_weights_on_the_wrong_scale_for_the_widths_cause_a_warning() -> None:
    small, large = (scale_warning(InitSettings(std=std), (8, 16, 256)) for std in (0.05, 0.2))
    assert "small: at 2 of 3 sizes, their standard deviation, 0.05, is less than 1/3 of 1/sqrt(n_embed)." in small
    assert "large: at 1 of 3 sizes, their standard deviation, 0.2, is more than 3 times 1/sqrt(n_embed)." in large
    assert scale_warning(InitSettings(std=0.2), (8, 16, 64)) == ""
    assert scale_warning(InitSettings("scaled"), (8, 4096)) == ""


# Keys of runs at n_embed 16, seed 3, in the smoke profile of that time, when initialization was a single number.
THEN = [f"settings.training.{setting}" for setting in ("steps=300", "evaluate_every=50", "warmup_steps=20")]
KEYS = {
    ("add_vs_add_prod", "smoke", "add"): "8903440ee278654b",
    ("add_vs_add_prod", "smoke", "add+prod"): "1490cb66594f46af",
    ("add_vs_add_nadd", "smoke", "add+nadd"): "2e7ddbb0b8fab6f9",
}


@pytest.mark.parametrize(("space", "profile", "mix"), KEYS)
def test_keys_of_older_runs_have_not_changed(space: str, profile: str, mix: str) -> None:
    family = load_space(space, profile, THEN).make_family()
    assert family.key(family.config(Arm.parse(mix), 16, 3)) == KEYS[space, profile, mix]
