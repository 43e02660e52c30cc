"""A specification made in Python is checked by the same rules as a file, before anything starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import orchestrator as o
from orchestrator.history.sweeps import create_sweep
from orchestrator.home.directories import Home
from orchestrator.jobs.resources import Resources
from orchestrator.space.spaces import load_space
from orchestrator.system.errors import UserError
from tests.families import LogisticSettings
from tests.sweep.sweeps import spec


@pytest.mark.parametrize(
    ("update", "why"),
    [
        ({"sizes": (8, 4)}, r"sizes must be ascending and distinct, got \[8, 4\]"),
        ({"seeds": 2.5}, r"seeds: must be a whole number; got 2\.5"),
        ({"seed": -1}, "seed: must be greater than or equal to 0"),
        ({"seedz": 4}, "seedz: there is no such key. Did you mean 'seed'"),
        ({"question": None}, "question: must be a valid string"),
        ({"settings": LogisticSettings(steps="4")}, "settings.steps: must be a whole number"),  # type: ignore[arg-type]
        ({"resources": Resources.model_construct(retries=-1)}, "retries: must be greater than or equal to 0"),
    ],
)
def test_a_copy_that_could_not_be_read_back_is_refused(update: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        spec().model_copy(update=update)


@pytest.mark.parametrize(
    ("update", "plain"),
    [
        ({"seeds": np.int64(3)}, {"seeds": 3}),
        ({"sizes": np.array([8, 16])}, {"sizes": [8, 16]}),
        ({"sizes": [np.int32(8), np.int64(16)]}, {"sizes": [8, 16]}),
        ({"sizes": range(8, 10, 2)}, {"sizes": [8]}),
        ({"mixes": ["add", "add+max"]}, {"mixes": ["add", "add+max"]}),
        ({"settings": {"steps": np.int64(4)}}, {"settings": {"steps": 4}}),
        ({"resources": {"retries": 0}}, {"resources": {"retries": 0}}),
    ],
)
def test_python_and_numpy_values_are_converted(update: dict[str, Any], plain: dict[str, Any]) -> None:
    copy = spec().model_copy(update=update)
    assert copy == spec(**plain)
    assert copy == copy.checked()


def test_values_derived_from_old_settings_are_recomputed_in_a_copy() -> None:
    recipes = load_space("add_vs_add_prod_recipes", "smoke")
    settings, before = recipes.settings, dict(recipes.recipe_settings)
    steps = 2 * settings.training.steps
    copy = recipes.model_copy(update={"settings": replace(settings, training=replace(settings.training, steps=steps))})
    assert {recipe.training.steps for recipe in copy.recipe_settings.values()} == {steps}
    assert copy.recipe_settings == copy.checked().recipe_settings
    assert recipes.recipe_settings == before


def test_a_specification_that_bypassed_its_checks_is_refused(tmp_path: Path) -> None:
    never = type(spec()).model_construct(**(dict(spec()) | {"sizes": (8, 4)}))
    with pytest.raises(UserError, match="ascending"):
        o.run(never, home=tmp_path, engine="local")
    strange = type(spec()).model_construct(**(dict(spec()) | {"seeds": object()}))
    with pytest.raises(UserError, match="a value that cannot be written to a file"):
        o.run(strange, home=tmp_path, engine="local")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match="ascending"):
        create_sweep(never, Home(tmp_path))
