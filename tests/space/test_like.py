"""Spaces that inherit from others with `like`: precedence key by key, and which parts are inherited."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.search.pairs import PairsSettings
from orchestrator.space.spaces import load_space, open_space, variant_names
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import UserError
from orchestrator.system.hardware import Hardware

LAPTOP = Hardware(cpus=2, memory_gb=16)

FAR = """
question: Does it work?
family: tests.families:LogisticFamily
target: add
mixes: [add, add+prod]
sizes: [8, 16]
seeds: 3
settings:
  noise: 0.0
search: {method: pairs}
profiles:
  laptop:
    sizes: [8, 12, 16]
    search: {max_cost: 540, max_runs: 7}
    settings:
      curve: {midpoint: 12, slope: 10}
      noise: 0.25
  smoke:
    seeds: 1
"""

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_space(name: str, text: str) -> str:
        path = tmp_path / f"{name}.yaml"
        path.write_text(textwrap.dedent(text))
        return str(path)

    write_space("far", FAR)
    return write_space


def load(path: str, *overrides: str, profile: str = "laptop") -> SweepSpec:
    return load_space(path, profile, overrides, LAPTOP)


def refused(path: str, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load(path, *overrides)
    return str(caught.value).replace(f"{Path(path).parent}/", "")


def test_the_files_own_top_level_wins_in_every_profile_it_inherits(write: Write) -> None:
    near = write(
        "near",
        """
        like: far.yaml
        sizes: [4, 6]
        seeds: 5
        search: {max_cost: 60}
        settings: {noise: 0.5, curve: {midpoint: 20}}
        """,
    )
    laptop, smoke = load(near), load(near, profile="smoke")
    for spec in (laptop, smoke):
        assert (spec.sizes, spec.seeds, spec.settings.noise) == ((4, 6), 5, 0.5)
        assert spec.settings.curve.midpoint == 20
        assert spec.search.settings["max_cost"] == 60
    # Other values are inherited from the profile, or else from the top level.
    assert (laptop.settings.curve.slope, laptop.search.settings["max_runs"]) == (10, 7)
    assert laptop.mixes == load(write("same", "like: far.yaml")).mixes


def test_a_profile_of_the_files_own_wins_over_its_top_level(write: Write) -> None:
    near = write("near", "like: far.yaml\nseeds: 5\nsizes: [4, 6]\nprofiles: {smoke: {seeds: 2}, tiny: {sizes: [4]}}")
    assert (load(near).seeds, load(near, profile="smoke").seeds) == (5, 2)
    assert (load(near, profile="tiny").sizes, load(near, profile="tiny").seeds) == ((4,), 5)
    assert list(open_space(near).profiles) == ["laptop", "smoke", "tiny"]
    assert load(near, "seeds=9", profile="smoke").seeds == 9


LEVELS = list(itertools.product(("far", "middle", "near"), ("top", "profile")))
"""From lowest to highest precedence."""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(levels=st.sets(st.sampled_from(LEVELS), min_size=1), override=st.booleans())
def test_in_a_chain_the_nearest_value_wins(tmp_path: Path, levels: set[tuple[str, str]], override: bool) -> None:
    seeds = {level: place + 10 for place, level in enumerate(LEVELS)}
    below: str | None = None
    for name in ("far", "middle", "near"):
        text = FAR.replace("seeds: 3\n", "").replace("    seeds: 1\n", "    seed: 1\n") if below is None else ""
        text += f"like: {below}\n" if below else ""
        text += f"seeds: {seeds[name, 'top']}\n" if (name, "top") in levels else ""
        if (name, "profile") in levels:
            own = f"  laptop:\n    seeds: {seeds[name, 'profile']}\n"
            text = text.replace("  laptop:\n", own) if "  laptop:\n" in text else f"{text}profiles:\n{own}"
        (tmp_path / f"{name}.yaml").write_text(text)
        below = f"{name}.yaml"
    spec = load(str(tmp_path / "near.yaml"), *(["seeds=99"] if override else []))
    assert spec.seeds == (99 if override else max(seeds[level] for level in levels))


def test_another_method_drops_inherited_settings_of_the_old_one(write: Write) -> None:
    grid = load(write("grid", "like: far.yaml\nsearch: {method: grid}"))
    assert grid.search.model_dump() == {"method": "grid", "stack": "auto", "error": 0.05, "learned": 0.8}
    again = write("again", "like: grid.yaml\nsearch: {method: pairs, max_runs: 30}")
    # The grid in between dropped the laptop profile's settings for pairs.
    assert load(again).search.settings == asdict(PairsSettings(max_runs=30))


def test_a_files_own_setting_for_another_method_is_refused_with_its_line(write: Write) -> None:
    near = write("near", "like: far.yaml\nsearch: {method: grid}\nprofiles:\n  laptop:\n    search: {max_cost: 3}\n")
    message = refused(near)
    assert message.startswith("near.yaml, line 5 (profile laptop), search.max_cost: there is no such key")


def test_recipes_variants_and_tuned_values_replace_the_inherited_ones(write: Write) -> None:
    recipes = "recipes: {one: {haste: 1.0}, two: {haste: 2.0}}"
    far = "like: far.yaml\n" + recipes + "\nvariants: {low: {seeds: 1}, high: {seeds: 2}}\n"
    write("several", far + "tuned: {add @ one: {haste: 4.0}}")
    near = write("near", "like: several.yaml\nrecipes: {own: {}}\nvariants: {only: {seeds: 4}}\ntuned: {}")
    assert variant_names(near, "laptop", LAPTOP) == ("only",)
    spec = load_space(near, "laptop", (), LAPTOP, "only")
    assert (list(spec.recipes), spec.tuned, spec.seeds) == (["own"], {}, 4)


def test_a_file_cannot_choose_one_of_its_inherited_profiles(write: Write) -> None:
    near = write("near", "like: far.yaml\nprofile: laptop")
    message = "near.yaml, line 2, profile: remove it: write values under profiles:, and choose with --profile NAME"
    assert refused(near) == message


def test_a_cycle_of_spaces_is_refused_however_its_paths_are_written(write: Write, tmp_path: Path) -> None:
    write("one", f"like: ../{tmp_path.name}/two.yaml")
    two = write("two", f"like: ../{tmp_path.name}/one.yaml")
    assert "the `like` of two.yaml leads back to the same file: two.yaml -> " in refused(two)
