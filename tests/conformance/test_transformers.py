"""The conformance suite on every built-in family of transformers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.conformance.transformers import TransformerConformance
from tests.trainables.conftest import data_cache
from tests.trainables.stacks import NESTED_MODEL, PERMUTATIONS, SETTINGS, TRAINING
from trainables.base import BUILT_IN, load_family
from trainables.transformer.family import TransformerFamily, TransformerSettings

__all__ = ["data_cache"]

SHORT = replace(TRAINING, steps=30, evaluate_every=15, batch=4)
FEW: dict[str, Any] = {"depth": 2, "validation_examples": 4, "test_examples": 10}
"""Few test examples, because untrained models write long texts and scoring takes a pass for every wrong token."""
CASES: dict[str, tuple[TransformerSettings, tuple[str, ...]]] = {
    "listops": (SETTINGS, ("add", "add+prod", "add+max:2")),
    "listops, nested": (
        replace(SETTINGS, task=replace(SETTINGS.task, **FEW), model=NESTED_MODEL, training=SHORT),
        ("add", "add+prod", "add+max:2"),
    ),
    "listops, as the sibling has it": (
        replace(
            SETTINGS,
            task=replace(SETTINGS.task, held_out_numbers="distinct", decoding="sampled"),
            model=replace(SETTINGS.model, parallel=True, bias=True),
        ),
        ("add", "add+prod", "add+max:2"),
    ),
    "permutations": (PERMUTATIONS, ("product", "product+sign", "image+order+product")),
    "permutations, nested": (
        replace(
            PERMUTATIONS,
            task=replace(PERMUTATIONS.task, subgroup="C3", **FEW),
            model=NESTED_MODEL,
            training=SHORT,
        ),
        ("product", "product+sign", "coset+product"),
    ),
}


def test_every_built_in_family_of_transformers_is_tested() -> None:
    transformers = {name for name in BUILT_IN if issubclass(load_family(name), TransformerFamily)}
    assert {case.split(",")[0] for case in CASES} == transformers


@pytest.mark.parametrize("case", CASES)
class TestTransformers(TransformerConformance):
    @pytest.fixture
    def settings(self, case: str) -> TransformerSettings:
        return CASES[case][0]

    @pytest.fixture
    def mixes(self, case: str) -> tuple[str, ...]:
        return CASES[case][1]
