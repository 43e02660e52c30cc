"""Absurd values are refused at once with a reason, without hanging, using gigabytes or giving wrong labels."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.system import reading_time
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.hardware import Hardware
from tests.sweep.sweeps import UNITS
from tests.training_scripts import script_spec

LAPTOP = Hardware(cpus=2, memory_gb=16)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("sizes={from: 8, to: 256, count: 1000000000}", "sizes.count: must be less than or equal to 1000"),
        ("seeds=50000", "2 mixes x 3 sizes x 50000 seeds are 300000 runs; a sweep may have at most 100000"),
        ("seed=100000000000000000000000", "must be less than or equal to 9223372036854775807"),
        ("settings.training.steps=1000000000000000000000", "it must be at least 1 and at most 1000000000"),
        ("settings.training.learning_rate=1e300", "it must be above 0 and at most 1e+30"),
        ("settings.training.learning_rate=.nan", "must be a finite number; got nan"),
        ("search.max_cost=0", "--set search.max_cost=0: search.max_cost is 0.0; it must be at least 0.001"),
        ("resources.max_stack=1000000000", "must be a whole number from 1 to 4096, or auto"),
        (f"mixes=[add, {{name: {'a' * 300}, mix: add+prod}}]", "mixes[1].name: must have at most 200 characters"),
        ('mixes=[add, {name: "a\\nb", mix: add+prod}]', "mixes[1].name: must be text on one line; got"),
        (
            "mixes=[add, {name: p, phases: [{mix: prod}, {mix: add, frozen: all}]}]",
            "mixes[1]: mix p at n_embed 4: the arm",
        ),
        (
            "mixes=[add, {name: p, phases: [{mix: prod}, {mix: add, take: all}]}]",
            "take: there is no such key. Did you mean 'takes'?",
        ),
        ("settings.model.n_head=3", "size 4 cannot be trained; it must be a multiple of n_head (3)"),
        (
            f"mixes=[add, {', '.join(f'add:{share}+prod' for share in range(2, 4001))}]",
            "there are 4,000 mixes, and a sweep may have 500",
        ),
        (
            f"recipes={{{', '.join(f'r{number}: {{}}' for number in range(6_000))}}}",
            "2 mixes under 6,000 recipes are more than 2,000 together",
        ),
        (
            f"mixes=[add, {{name: p, phases: [{', '.join(['{mix: add}'] * 1500)}]}}]",
            "mixes[1]: p: there are 1,500 phases; an arm may have at most 50",
        ),
        ("mixes=[add, add+prod x1e308]", "the budget of add+prod x1e+308 is 1e+308; it must be a number from 1e-09 to"),
        ("mixes=[add, add+prod x1e-308]", "it must be a number from 1e-09 to 1e+09"),
        (
            "mixes=[add, {name: p, phases: [{mix: prod}, {mix: add, share: 1.0e-320}]}]",
            "mixes[1]: the last phase of p has the share 9.99989e-321; it must be at least 1e-09",
        ),
        ("trials=3", "Did you mean tune.trials?"),
        ("training.step=3", "Did you mean settings.training.steps?"),
        ("n_embed=4", "Did you mean sizes?"),
        ("lr=0.1", "Did you mean settings.training.learning_rate?"),
    ],
)
def test_absurd_values_are_refused_at_once(override: str, expected: str) -> None:
    begun = time.monotonic()
    with pytest.raises(UserError) as refused:
        load_space("add_vs_add_prod", "smoke", [override], LAPTOP)
    assert expected in str(refused.value)
    assert "this should not happen" not in str(refused.value)
    assert time.monotonic() - begun < 5


def test_a_script_tunes_any_number_of_settings(tmp_path: Path) -> None:
    """Not all of the 2^40 combinations of their ends are checked."""
    names = [f"rate_{number}" for number in range(40)]
    span = {"from": 0.5, "to": 2.0, "scale": "log"}
    begun = time.monotonic()
    spec = script_spec(
        tmp_path, settings=dict.fromkeys(names, 1.0), tune={"settings": {name: dict(span) for name in names}}
    )
    assert spec.tune is not None
    assert list(spec.tune.settings) == names
    assert time.monotonic() - begun < 5


def test_checks_of_every_mix_and_size_of_somebody_else_end_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_time, "LONGEST_READING_S", -1.0)
    with reading_time.reading_limited(is_foreign=True), pytest.raises(SweepError, match="took more than -1 s"):
        script_spec(tmp_path)


@pytest.mark.parametrize("key", ["mixes", "looks", "tuned"])
def test_thousands_of_mistakes_take_no_time(key: str, tmp_path: Path) -> None:
    tasks = [f"task_{number:05}" for number in range(4_000)]
    strangers = [name.replace("a", "b") for name in tasks]
    changes: dict[str, Any] = {
        "mixes": {"mixes": ["add", *("+".join(strangers[start : start + 100]) for start in range(0, 4_000, 100))]},
        "looks": {"looks": dict.fromkeys(strangers, 1)},
        "tuned": {"tuned": {name: {"pace": 1.0} for name in strangers}},
    }
    begun = time.monotonic()
    with pytest.raises(UserError, match=r"unknown (task|mix) 'tbsk_00000'"):
        script_spec(tmp_path, script={"tasks": ["add", *tasks]}, **changes[key])
    assert time.monotonic() - begun < 10


def test_mixes_under_all_recipes_are_limited_together() -> None:
    recipes = ", ".join(f"r{number}: {{training: {{weight_decay: 0.{number + 1}}}}}" for number in range(20))
    mixes = ", ".join(f"add:{weight}+prod" for weight in range(2, 102))
    with pytest.raises(UserError, match="101 mixes under 20 recipes are more than 2,000 together"):
        load_space("add_vs_add_prod", "smoke", [f"recipes={{{recipes}}}", f"mixes=[add, {mixes}]"], LAPTOP)


def test_every_phase_counts_as_a_run() -> None:
    phases = ", ".join(["{mix: add}"] * 40)
    with pytest.raises(UserError) as refused:
        load_space("add_vs_add_prod", "smoke", ["seeds=1000", f"mixes=[add, {{name: p, phases: [{phases}]}}]"], LAPTOP)
    expected = "2 mixes with 41 phases x 3 sizes x 1000 seeds are 123000 runs; a sweep may have at most 100000"
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("override", "option"),
    [("profile=paper", "--profile"), ("profile_reason=x", "--profile"), ("variant=x", "--variant")],
)
def test_profile_and_variant_cannot_be_set_as_settings(override: str, option: str) -> None:
    with pytest.raises(UserError, match=f"--set {override}: cannot be set here: choose it with {option} NAME"):
        load_space("add_vs_add_prod", "smoke", [override], LAPTOP)


@pytest.mark.parametrize("key", ["like", "expects", "profiles", "variants"])
def test_keys_of_files_cannot_be_set(key: str) -> None:
    with pytest.raises(UserError, match=f"--set {key}=x: can be set only in a file"):
        load_space("add_vs_add_prod", "smoke", [f"{key}=x"], LAPTOP)


@pytest.mark.parametrize(
    ("written", "guess"),
    [
        ("profils: {smoke: {seeds: 1}}", "Did you mean 'profiles'?"),
        ("vary: {slow: {seeds: 1}}", "Did you mean 'variants'?"),
        ("gpus: 1", "Did you mean resources.gpu_per_stack?"),
    ],
)
def test_errors_name_keys_as_they_are_written_in_files(tmp_path: Path, written: str, guess: str) -> None:
    (tmp_path / "units.yaml").write_text(f"{UNITS}{written}\n")
    with pytest.raises(UserError, match=re.escape(guess)) as refused:
        load_space(str(tmp_path / "units.yaml"), hardware=LAPTOP)
    allowed = re.split("[,.] ", str(refused.value).partition("Allowed: ")[2])
    assert {"like", "profiles", "variants", "expects", "seeds"} <= set(allowed)
    assert not {"profile", "profile_reason", "variant"} & set(allowed)


def test_a_variant_name_that_looks_like_a_path_is_refused() -> None:
    resolved = load_space("add_vs_add_prod", "smoke", hardware=LAPTOP).to_dict() | {"variant": "../../escaped"}
    with pytest.raises(ValueError, match="a name is a lowercase letter and"):
        SweepSpec.model_validate(resolved)


def test_a_target_that_a_constant_answer_nearly_learns_is_refused() -> None:
    """A threshold near the best constant answer would not distinguish runs."""
    load_space("add_vs_add_prod", "laptop")
    message = r"the best constant answer scores 0\.17 on add, and a run counts as learned at 0\.23 or more"
    with pytest.raises(UserError, match=message):
        load_space("add_vs_add_prod", "laptop", ["search.learned=0.08"])
