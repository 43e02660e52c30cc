"""Recipes in a search space: every mix is trained under each, runs equal those of separate spaces, and mistakes are
named."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.forecast.cost_estimate import estimate_cost
from orchestrator.report.answer import answer
from orchestrator.search.base import Request
from orchestrator.space.differences import differences
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import UserError
from orchestrator.system.hardware import Hardware
from tests.sweep.sweeps import spec

HARDWARE = Hardware(cpus=2, memory_gb=16)
FAST = {"haste": 9.0, "curve": {"help": 0.0}}
RECIPES = {"slow": {"settings": {"haste": 1.0}}, "fast": {"settings": FAST}}


def refused(recipes: Any, **changes: object) -> str:
    with pytest.raises((UserError, ValueError)) as caught:
        spec(recipes=recipes, **changes)
    return str(caught.value)


def test_every_mix_occurs_once_per_recipe_and_is_compared_within_it() -> None:
    original = spec(recipes=RECIPES)
    assert [mix.name for mix in original.mixes] == ["add @ slow", "add+prod @ slow", "add @ fast", "add+prod @ fast"]
    assert [original.baseline_of(mix).name for mix in original.mixes] == ["add @ slow"] * 2 + ["add @ fast"] * 2
    assert original.plain_mixes == ("add", "add+prod")


def test_each_of_many_mixes_has_the_baseline_of_its_recipe() -> None:
    mixes = ["add", *(f"add:{weight}+prod" for weight in range(2, 500))]
    recipes = {f"r{number}": {"settings": {"haste": 1.0 + number}} for number in range(4)}
    large = spec(mixes=mixes, recipes=recipes, sizes=[8], seeds=1)
    baselines = {mix.name: large.baseline_of(mix).name for mix in large.mixes}
    assert len(baselines) == 1_996
    assert baselines["add:499+prod:1 @ r3"] == "add @ r3"
    read = answer(large, [])
    assert [mix.mix for mix in read.mixes if read.baseline_of(mix).mix != baselines[mix.mix]] == []
    assert [mix.mix for mix in read.under("r2").mixes] == [mix.plain_name for mix in large.mixes if mix.recipe == "r2"]


def test_a_run_under_a_recipe_equals_the_run_of_a_space_with_its_settings() -> None:
    under = spec(recipes=RECIPES)
    own = spec(settings=FAST)
    mine = under.config(Request("add+prod @ fast", 24, 1))
    theirs = own.config(Request("add+prod", 24, 1))
    assert mine.settings == theirs.settings
    assert under.make_family().key(mine) == own.make_family().key(theirs)


def test_a_resolved_space_with_recipes_is_read_back_unchanged() -> None:
    original = spec(recipes=RECIPES, budget="both")
    again = SweepSpec.model_validate(original.to_dict())
    assert again.mixes == original.mixes
    assert not differences(original, again)
    short = spec(recipes={"slow": {"haste": 1.0}, "fast": FAST}, budget="both")
    assert not differences(original, short), "written before"
    assert differences(original, spec(recipes={"slow": {"settings": {"haste": 1.5}}}))


@pytest.mark.parametrize(
    ("recipes", "parts"),
    [
        ({"a b": {}}, ["recipes.a b", "letters and digits"]),
        ({"slow": {"settings": {"hast": 1.0}}}, ["recipes.slow.settings.hast", "Did you mean 'haste'?"]),
        ({"slow": {"settings": {"haste": -1.0}}}, ["recipes.slow", "haste is -1.0"]),
        ({"slow": 3}, ["recipes.slow", "must have settings, such as"]),
        ({"slow": {"settings": {}, "seeds": 4}}, ["recipes.slow.seeds", "write variants"]),
        (
            {name: {"settings": {"haste": 1.0}} for name in ("one", "two")},
            ["recipes.two", "same settings as recipe 'one'"],
        ),
    ],
)
def test_mistakes_in_recipes_are_named_with_their_location(recipes: Any, parts: list[str]) -> None:
    message = refused(recipes)
    for part in parts:
        assert part in message


def test_a_recipe_must_not_change_the_task_or_the_parameter_count() -> None:
    for overlay, why in (({"model": {"tied": True}}, "number of parameters"), ({"task": {"modulus": 5}}, "the task")):
        with pytest.raises(UserError, match=why):
            load_space(
                "add_vs_add_prod",
                "smoke",
                [f"recipes={{other: {{settings: {overlay}}}}}".replace("'", "").replace("T", "t")],
            )


def test_a_recipe_that_only_spells_out_defaults_is_a_duplicate() -> None:
    overlay = "recipes={one: {settings: {}}, two: {settings: {model: {init: {kind: normal, std: 0.02}}}}}"
    with pytest.raises(UserError, match="same settings as recipe 'one'"):
        load_space("add_vs_add_prod", "smoke", [overlay])


def test_unknown_recipes_and_recipes_with_tuning_are_refused() -> None:
    assert "unknown recipe 'quick'" in refused(RECIPES, mixes=["add @ quick"])
    assert "not both" in refused(
        RECIPES, tune={"settings": {"haste": {"from": 1.0, "to": 9.0, "scale": "log"}}, "trials": 2}
    )


def test_an_arm_with_its_own_recipe_is_trained_only_under_that_recipe() -> None:
    original = spec(recipes=RECIPES, mixes=["add", {"name": "extra", "mix": "add+prod", "recipe": "fast"}])
    assert [mix.name for mix in original.mixes] == ["add @ slow", "add @ fast", "extra @ fast"]
    alone = spec(recipes=RECIPES, mixes=["add @ fast", "add+prod @ fast"])
    assert [mix.name for mix in alone.mixes] == ["add @ fast", "add+prod @ fast"]
    assert list(answer(alone, ()).recipes) == ["fast"]
    searched = spec(recipes=RECIPES, mixes=original.to_dict()["mixes"], search={"method": "grid"})
    runs = estimate_cost(searched, HARDWARE).runs
    assert runs == len(original.cells) * original.seeds
