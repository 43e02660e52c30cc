"""Probes that change a model: without a part that it needs, its accuracy falls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.families import LogisticFamily, LogisticSettings
from tests.trainables.stacks import config
from trainables.base import RunConfig
from trainables.probes.base import load_probe
from trainables.probes.nulls import OTHERS, other_groupings
from trainables.transformer.architecture import ModelSettings, parameter_shapes
from trainables.transformer.generation import TrainedTransformer

WIDTH, VOCABULARY = 12, 30
Learned = tuple[RunConfig, dict[str, NDArray[Any]], Path]


def drawn(model: ModelSettings, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Return random weights for every tensor, including norms and biases."""
    rng = np.random.default_rng(seed)
    shapes = parameter_shapes(model, WIDTH, VOCABULARY)
    return {name: rng.normal(size=shape, scale=0.4).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    "changes",
    [{}, {"tied": True, "bias": True}, {"n_layer": 3, "n_recurrence": 2}, {"parallel": True, "bias": True}],
    ids=str,
)
def test_every_update_is_observed_in_order(changes: dict[str, Any]) -> None:
    settings = replace(ModelSettings(block=18), **changes)
    model = TrainedTransformer(settings, WIDTH, VOCABULARY, drawn(settings))
    tokens = torch.from_numpy(np.random.default_rng(1).integers(0, VOCABULARY, size=(5, 13)))
    seen = []

    def observe(sublayer: str, application: int, update: torch.Tensor) -> None:
        assert update.shape == (1, 5, 13, WIDTH)
        seen.append((sublayer, application))

    torch.testing.assert_close(model.logits(tokens, observe), model.logits(tokens), rtol=1e-4, atol=1e-4)
    applications = settings.n_layer * settings.n_recurrence
    assert seen == [(sublayer, place) for place in range(applications) for sublayer in ("attention", "feed_forward")]


@pytest.mark.parametrize("name", ["reliance", "destruction"])
def test_families_without_transformers_are_refused_by_name(name: str) -> None:
    family = LogisticFamily(LogisticSettings())
    with pytest.raises(TypeError, match=f"{name} supports only transformers, not the family {family.name}"):
        load_probe(name).run(family, config(), None, {}, None)


def test_other_groupings_are_complete_or_a_sample_of_the_requested_size() -> None:
    rng = np.random.default_rng(0)
    halves, thirds = (other_groupings(np.arange(6) % divisor, rng) for divisor in (2, 3))
    assert (len(halves), len(thirds)) == (9, 14)
    assert len(other_groupings(np.arange(20) % 2, rng)) == OTHERS
    for grouping in halves:
        together = grouping[:, None] == grouping
        assert together.sum() == 18  # Two groups of three.
        assert (together != (np.arange(6)[:, None] % 2 == np.arange(6) % 2)).any()
    assert len({tuple((grouping[:, None] == grouping).ravel()) for grouping in halves}) == 9
    assert other_groupings(np.array([0, 1]), rng) == []
