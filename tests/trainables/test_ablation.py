"""Probes that change a model: without a part that it needs, it knows less."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.families import LogisticFamily, LogisticSettings
from tests.trainables.stacks import SETTINGS, config
from trainables.base import RunConfig
from trainables.probes.ablation import _projected, separating
from trainables.probes.base import load_probe
from trainables.probes.nulls import OTHERS, other_groupings
from trainables.tasks.listops import ListOps
from trainables.transformer.architecture import ModelSettings, parameter_shapes
from trainables.transformer.generation import TrainedTransformer

WIDTH, VOCABULARY = 12, 30
Learned = tuple[RunConfig, dict[str, NDArray[Any]], Path]


def drawn(model: ModelSettings, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Weights of every tensor at random, norms and biases included."""
    rng = np.random.default_rng(seed)
    shapes = parameter_shapes(model, WIDTH, VOCABULARY)
    return {name: rng.normal(size=shape, scale=0.4).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"bias": True},
        {"tied": True, "bias": True},
        {"n_head": 3, "activation": "gelu"},
        {"n_layer": 3, "n_recurrence": 2},
        {"parallel": True, "bias": True},
    ],
    ids=str,
)
def test_changes_see_every_update_in_turn(changes: dict[str, Any]) -> None:
    settings = replace(ModelSettings(block=18), **changes)
    model = TrainedTransformer(settings, WIDTH, VOCABULARY, drawn(settings))
    tokens = torch.from_numpy(np.random.default_rng(1).integers(0, VOCABULARY, size=(5, 13)))
    seen = []

    def change(sublayer: str, application: int, update: torch.Tensor) -> torch.Tensor:
        assert update.shape == (1, 5, 13, WIDTH)
        seen.append((sublayer, application))
        return update

    torch.testing.assert_close(model.logits(tokens, change), model.logits(tokens), rtol=1e-4, atol=1e-4)
    applications = settings.n_layer * settings.n_recurrence
    assert seen == [(sublayer, place) for place in range(applications) for sublayer in ("attention", "feed_forward")]


def test_separating_directions_span_the_means() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(12) % 3
    embedding = np.eye(8)[labels] + np.eye(8)[0] + rng.normal(size=(12, 8)) * 1e-6
    directions = separating(embedding, labels)
    assert directions.shape == (2, 8)
    np.testing.assert_allclose(directions @ directions.T, np.eye(2), atol=1e-9)
    table = torch.from_numpy(np.concatenate([embedding, rng.normal(size=(3, 8))]))
    moved = _projected(table, 12, directions).numpy()
    assert np.abs(moved[:12] - embedding.mean(axis=0)).max() < 1e-4
    assert (moved[12:] == table[12:].numpy()).all()


def test_a_prime_modulus_has_nothing_to_destroy(data_cache: Path) -> None:
    settings = replace(SETTINGS, task=replace(SETTINGS.task, modulus=5))
    run = replace(config("max"), settings=settings)
    family = ListOps(settings)
    shapes = parameter_shapes(settings.model, run.size, len(settings.task.vocabulary()))
    weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    found = load_probe("destruction").run(family, run, family.load(run, weights), {}, family.data(run, data_cache))
    assert found.numbers == {}


@pytest.mark.parametrize("name", ["reliance", "destruction"])
def test_another_family_is_refused_by_name(name: str) -> None:
    family = LogisticFamily(LogisticSettings())
    with pytest.raises(TypeError, match=f"{name} is for transformers; {family.name}"):
        load_probe(name).run(family, config(), None, {}, None)


def test_other_groupings_are_all_there_are_or_as_many_as_wanted() -> None:
    rng = np.random.default_rng(0)
    halves, thirds = (other_groupings(np.arange(6) % divisor, rng) for divisor in (2, 3))
    assert (len(halves), len(thirds)) == (9, 14)
    assert len(other_groupings(np.arange(20) % 2, rng)) == OTHERS
    for each in halves:
        together = each[:, None] == each
        assert together.sum() == 18  # Two groups of three.
        assert (together != (np.arange(6)[:, None] % 2 == np.arange(6) % 2)).any()
    assert len({tuple((each[:, None] == each).ravel()) for each in halves}) == 9
    assert other_groupings(np.array([0, 1]), rng) == []
