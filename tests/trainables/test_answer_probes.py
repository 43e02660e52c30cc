"""Probes of answers, tested on models and mistakes with known structure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainables.stacks import SETTINGS, config
from tests.trainables.test_loaded import EASY, last_report
from trainables.base import RunConfig
from trainables.families.listops import ListOps
from trainables.probes.base import Probed, load_probe
from trainables.probes.mistakes import FEWEST_MISTAKES, kept
from trainables.probes.transformer_probe import LastSteps, last_steps

PARITY, THIRDS = np.arange(6) % 2, np.arange(6) % 3
GROUPINGS = {"mod2": PARITY, "mod3": THIRDS}
NESTED = replace(SETTINGS, task=replace(SETTINGS.task, depth=2, nesting=0.5), model=replace(SETTINGS.model, block=128))


def probed(name: str, run: RunConfig, model: Any, cache: Path) -> Probed:
    family = ListOps(run.settings)
    return load_probe(name).run(family, run, model, {}, family.data(run, cache))


def steps_of(run: RunConfig, cache: Path) -> LastSteps:
    return last_steps(run, ListOps(run.settings).data(run, cache))["max"]


@pytest.mark.parametrize("settings", [SETTINGS, NESTED], ids=["flat", "nested"])
def test_last_steps_have_the_arguments_of_their_answers(settings: Any, data_cache: Path) -> None:
    run = replace(config("max"), settings=replace(settings, task=replace(settings.task, max_arguments=3)))
    steps = steps_of(run, data_cache)
    texts = steps.tokens.numpy()
    assert len(np.unique(texts, axis=0)) == len(texts)
    assert (texts[np.arange(len(texts)), steps.equals + 1] == steps.answers).all()
    assert [row[at].max() for row, at in zip(texts, steps.places, strict=True)] == steps.answers.tolist()


def test_mistakes_that_respect_parity_are_recognized() -> None:
    rng = np.random.default_rng(0)
    right = rng.integers(0, 6, 600)
    given = (right % 2 + 2 * rng.integers(0, 3, 600)) % 6  # The right parity and any remainder modulo 3.
    numbers = kept(given, right, GROUPINGS)
    assert numbers["mod2"] == 1
    assert numbers["mod2.chance"] == pytest.approx(0.4, abs=0.05)  # Two of the five other numbers.
    assert numbers["mod2.p"] == 0.1  # No other split of six into halves fits as well.
    assert numbers["mod3"] == 0  # With the right parity, the right remainder would give the right answer.
    assert numbers["mod3.p"] > 0.5  # Far below chance.


@pytest.mark.parametrize("constant", [True, False])
def test_guesses_respect_groups_only_by_chance(constant: bool) -> None:
    rng = np.random.default_rng(1)
    right = rng.integers(0, 6, 3000)
    given = np.full(3000, 4) if constant else rng.integers(0, 6, 3000)
    numbers = kept(given, right, GROUPINGS)
    for name in GROUPINGS:
        assert numbers[name] == pytest.approx(numbers[f"{name}.chance"], abs=0.03)


def test_few_mistakes_are_not_evidence() -> None:
    right = np.zeros(200, dtype=np.int64)
    given = np.where(np.arange(200) < FEWEST_MISTAKES - 1, 1, 0)
    assert kept(given, right, GROUPINGS) == {}


def test_answers_are_counted_exactly_as_the_model_gives_them(data_cache: Path) -> None:
    family = ListOps(EASY.settings)
    model = family.load(EASY, last_report(EASY, data_cache).weights)
    result = probed("mistakes", EASY, model, data_cache)
    steps = steps_of(EASY, data_cache)
    given = model.logits(steps.tokens)[torch.arange(len(steps.equals)), steps.equals][:, :6].argmax(-1).numpy()
    assert result.numbers["max.right"] == pytest.approx((given == steps.answers).mean())
