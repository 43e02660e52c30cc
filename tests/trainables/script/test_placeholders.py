"""Commands, environments and configuration files are filled in without a shell and without changing a value."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from trainables.base import SettingsError
from trainables.script.placeholders import as_configuration, check, environment, fill, fill_value

VALUES: dict[str, Any] = {
    "size": 16,
    "seed": 3,
    "lr": 1e-05,
    "bias": True,
    "name": "two words; $HOME",
    "tasks": "add+prod",
    "shares": {"add": 0.5, "prod": 0.5},
}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{size}", "16"),
        ("lr={lr}", "lr=1e-05"),
        ("{name}", "two words; $HOME"),
        ("{bias}", "true"),
        ("{{size}}", "{size}"),
        ("{size}{seed}", "163"),
        ("{shares}", '{"add": 0.5, "prod": 0.5}'),
        ("plain", "plain"),
    ],
)
def test_filling(text: str, filled: str) -> None:
    assert fill(text, VALUES) == filled


@pytest.mark.parametrize("text", ["{", "}", "{size", "{}", "{0}", "{size!r}", "{lr:.2f}", "{size.real}", "{a b}"])
def test_anything_but_a_name_between_braces_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="twice"):
        check(text, tuple(VALUES), "script.command")


def test_an_unknown_placeholder_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"\{sizes\}") as refused:
        check("{sizes}", tuple(VALUES), "script.command")
    assert (refused.value.given, refused.value.allowed) == ("sizes", tuple(VALUES))


def test_every_value_is_in_the_environment() -> None:
    assert environment(VALUES) == {
        "SWEEP_SIZE": "16",
        "SWEEP_SEED": "3",
        "SWEEP_LR": "1e-05",
        "SWEEP_BIAS": "true",
        "SWEEP_NAME": "two words; $HOME",
        "SWEEP_TASKS": '{"add": 0.5, "prod": 0.5}',
    }


def test_a_configuration_is_the_same_for_readers_of_json_and_of_yaml() -> None:
    template = {"lr": {"value": "{lr}"}, "big": 1e22, "list": ["{size}", "n={size}"], "no": None, "empty": {}}
    written = fill_value(template, VALUES)
    assert written == {"lr": {"value": 1e-05}, "big": 1e22, "list": [16, "n=16"], "no": None, "empty": {}}
    text = as_configuration(written)
    assert json.loads(text) == yaml.safe_load(text) == written
