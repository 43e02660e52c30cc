"""Requests for tuning in a search space, and errors for mistakes in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.search.base import Request
from orchestrator.space.differences import differences
from orchestrator.space.parsing import parse
from orchestrator.space.spaces import load_space
from orchestrator.space.tuning_settings import Range
from orchestrator.system.errors import UserError
from trainables.base import Until

RATE = "learning_rate: {from: 5.0e-4, to: 2.0e-2, scale: log}"


def load(*overrides: str, profile: str = "laptop") -> object:
    return load_space("add_vs_add_prod", profile, overrides)


def test_a_space_with_tuning_is_written_and_read_back_unchanged(tmp_path: Path) -> None:
    original = load_space("add_vs_add_prod", "quick", [f"tune={{settings: {{training: {{{RATE}}}}}}}"])
    assert original.tune is not None
    assert original.tune.settings["training.learning_rate"] == parse(Range, {"from": 5e-4, "to": 2e-2, "scale": "log"})
    (tmp_path / "space.yaml").write_text(original.to_yaml())
    assert load_space(str(tmp_path / "space.yaml")) == original
    narrower = load_space(str(tmp_path / "space.yaml"), None, ["tune.settings.training.learning_rate.to=0.01"])
    assert narrower.tune is not None
    assert narrower.tune.settings["training.learning_rate"].high == 0.01
    assert load_space(str(tmp_path / "space.yaml"), None, ["tune=null"]).tune is None


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            "{settings: {training: {learning_rat: {from: 1.0e-3, to: 1.0e-2, scale: log}}}}",
            "Did you mean 'training.learning_rate'",
        ),
        ("{settings: {training: {steps: {from: 100, to: 200, scale: log}}}}", "no such setting to tune"),
        ("{settings: {training: {clip: {from: 1, to: 0.1, scale: log}}}}", "must be above 0 and below 'to' (0.1)"),
        ("{settings: {training: {weight_decay: {from: 0, to: 1, scale: log}}}}", "'from' (0) must be above 0"),
        ("{settings: {training: {beta1: {from: 0.5, to: 1.5, scale: log}}}}", "beta1 is 1.5; it must be in [0, 1)"),
        ("{settings: {training: {clip: {from: 1, to: 2}}}}", "clip.scale: this key is missing"),
        ("{settings: {training: {clip: 3}}}", "must be a range such as {from: 0.1, to: 1, scale: log}; got 3"),
        (
            "{settings: {training: {learning_rate: {from: 5.0e-4, to: 2.0e-2, scale: log}, "
            "learning_rate_end: {from: 1.0e-4, to: 5.0e-3, scale: log}}}}",
            "learning_rate_end is 0.005; it must be at most learning_rate (0.0005)",
        ),
        (
            "{settings: {model: {init: {gain: {from: 0.3, to: 3, scale: log}}}}}",
            "tuning starts from the written value: write one for settings.model.init.gain",
        ),
        ("{settings: {}}", "must have a range for at least one setting"),
        (f"{{settings: {{training: {{{RATE}}}}}, trails: 3}}", "Did you mean 'trials'?"),
    ],
)
def test_mistakes_in_tuning_are_named_with_their_location(block: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        load(f"tune={block}")
    assert expected in str(caught.value)
    assert "--set tune=" in str(caught.value)


@pytest.mark.parametrize(
    ("tuned", "expected"),
    [
        ("{add: {training.steps: 3}}", "cannot be tuned"),
        ("{adds: {training.clip: 3}}", "unknown mix 'adds'. Did you mean 'add'?"),
        ("{add: {training.clip: -3}}", "clip is -3"),
    ],
)
def test_unusable_tuned_values_are_refused(tuned: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        load(f"tuned={tuned}")
    assert expected in str(caught.value)


def test_tuned_values_apply_only_to_their_mix_and_change_its_key() -> None:
    plain = load_space("add_vs_add_prod", "quick")
    values = "{training.learning_rate: 0.01, training.weight_decay: 0.3, training.warmup_steps: 9.6}"
    tuned = load_space("add_vs_add_prod", "quick", [f"tuned={{add: {values}}}"])
    family = plain.make_family()
    run, before = tuned.config(Request("add", 8, 0)), plain.config(Request("add", 8, 0))
    assert run.settings.training.learning_rate == 0.01
    # The schedule keeps its ratio of rates.
    ratio = before.settings.training.learning_rate_end / before.settings.training.learning_rate
    assert run.settings.training.learning_rate_end == pytest.approx(0.01 * ratio)
    assert (run.settings.training.weight_decay, run.settings.training.warmup_steps) == (0.3, 10)
    assert family.key(run) != family.key(before)
    assert tuned.config(Request("add+prod", 8, 0)) == plain.config(Request("add+prod", 8, 0))
    assert "tuned.add.training.weight_decay" in differences(plain, tuned)


def test_a_request_with_values_equals_a_run_of_a_space_with_these_settings() -> None:
    plain = load_space("add_vs_add_prod", "quick")
    tuned = load_space("add_vs_add_prod", "quick", ["tuned={add: {training.clip: 0.5}}"])
    wanted = Request("add", 8, 0, values=(("training.clip", 0.5),))
    assert plain.config(wanted) == tuned.config(Request("add", 8, 0))
    enough = plain.config(replace(wanted, until=0.8))
    assert enough == replace(plain.config(wanted), until=Until("add", 0.8))
