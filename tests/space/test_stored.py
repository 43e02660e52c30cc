"""A specification from disk is what was written, whatever has been forbidden since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.space import strict_yaml
from orchestrator.space.files import names
from orchestrator.space.spaces import load_space, open_space, variant_names
from orchestrator.space.spec import SweepSpec
from orchestrator.space.stored import read_stored
from tests.families import LogisticSettings
from tests.sweep.sweeps import spec
from trainables.base import SettingsError

CASES = [
    (name, profile, variant)
    for name in names()
    for profile in (open_space(name).profiles or [None])
    for variant in (variant_names(name, profile)[-1:] or (None,))
]
TUNING = {"settings": {"curve": {"slope": {"from": 2.0, "to": 20.0, "scale": "log"}}}, "seeds": 2}
RECIPES = {"usual": {}, "hasty": {"haste": 2}}


def written(asked: SweepSpec) -> Any:
    return strict_yaml.read(asked.to_yaml(), "space.yaml").data


def same(asked: SweepSpec) -> None:
    stored = read_stored(written(asked))
    assert stored.lacks == ""
    assert stored.spec == asked
    assert stored.spec.to_yaml() == asked.to_yaml()
    family = asked.make_family()
    for request in asked.requests()[:: max(1, len(asked.requests()) // 20)]:
        assert stored.spec.config(request) == asked.config(request)
        assert stored.spec.make_family().key(stored.spec.config(request)) == family.key(asked.config(request))


@pytest.mark.parametrize(("name", "profile", "variant"), CASES)
def test_every_space_is_read_back_as_it_was(name: str, profile: str | None, variant: str | None) -> None:
    same(load_space(name, profile, variant=variant))


@pytest.mark.parametrize(
    "changes",
    [
        {"recipes": RECIPES},
        {"budget": "both", "seeds": 3},
        {"tune": TUNING},
        {"tune": TUNING | {"sizes": [16, 32]}, "tuned": {"add": {"settings": {"haste": 2.0}, "base_size": 20}}},
        {"search": {"method": "grid"}, "resources": {"gpu_per_stack": 1, "max_stack": 4, "threads": 2}},
        {"resources": {"gpu_per_stack": "auto"}, "settings": {"curve": {"midpoint": 20, "shape": "step"}}},
    ],
)
def test_everything_a_specification_may_hold_is_read_back(changes: dict[str, Any]) -> None:
    same(spec(**changes))


def test_a_rule_added_since_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = spec(recipes=RECIPES)
    data = written(asked) | {"sizes": [8, 13, 27], "profile": "of_once", "name": "What names once were"}
    data["search"] = {"method": "annealing", "heat": 3}

    def stricter(settings: LogisticSettings) -> None:
        raise SettingsError("no longer", key="haste")

    monkeypatch.setattr(LogisticSettings, "__post_init__", stricter)
    stored = read_stored(data).spec
    assert (stored.sizes, stored.profile, stored.search.settings) == ((8, 13, 27), "of_once", {"heat": 3})
    assert {stored.config(request).settings.haste for request in stored.requests() if request.steps_factor == 1} == {
        2,
        3,
    }


@pytest.mark.parametrize(
    ("family", "said"),
    [
        ("gone.away:Family", "cannot be imported: ModuleNotFoundError"),
        ("torn_family:Family", "cannot be imported: SyntaxError"),
        ("tests.families:UnfinishedFamily", "it lacks flops"),
        ("tests.families:Curve", "is not a subclass"),
        ("lisstops", "there is no family"),
    ],
)
def test_without_its_family_the_rest_is_known(
    family: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torn_family.py").write_text("class Family(\n")
    monkeypatch.syspath_prepend(tmp_path)
    asked = spec()
    stored = read_stored(written(asked) | {"family": family, "settings": {"of": "another"}})
    assert said in stored.lacks
    assert (stored.spec.name, stored.spec.target, stored.spec.mixes) == (asked.name, asked.target, asked.mixes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sizes": 3}, "sizes must be a list; got 3"),
        ({"seeds": "two"}, "seeds must be a whole number; got 'two'"),
        ({"settings": {"curve": 1}}, "settings.curve must map keys to values"),
        ({"settings": {"hurry": 1}}, "settings.hurry means nothing to this version"),
        ({"mixes": ["add++prod"]}, "a task name is missing"),
        ({"search": {}}, "search.method must be text"),
    ],
)
def test_what_no_sweep_can_have_held_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("+", r"\+")):
        read_stored(written(spec()) | change)


def test_no_mapping_is_refused() -> None:
    with pytest.raises(ValueError, match="must map keys to values"):
        read_stored([1, 2])
