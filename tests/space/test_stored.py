"""A specification from disk is what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.space import strict_yaml
from orchestrator.space.spec import SweepSpec
from orchestrator.space.validation import parse
from tests.sweep.sweeps import spec

TUNING = {"settings": {"curve": {"slope": {"from": 2.0, "to": 20.0, "scale": "log"}}}, "seeds": 2}
RECIPES = {"usual": {}, "hasty": {"haste": 2}}


def written(asked: SweepSpec) -> Any:
    return strict_yaml.read(asked.to_yaml(), "space.yaml").data


def same(asked: SweepSpec) -> None:
    stored = parse(SweepSpec, written(asked))
    assert stored == asked
    assert stored.to_yaml() == asked.to_yaml()
    family = asked.make_family()
    for request in asked.requests()[:: max(1, len(asked.requests()) // 20)]:
        assert stored.make_family().key(stored.config(request)) == family.key(asked.config(request))


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


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sizes": 3}, "sizes: must be a list; got 3"),
        ({"seeds": "two"}, "seeds: must be a valid integer; got 'two'"),
        ({"mixes": ["add++prod"]}, "a task name is missing"),
        ({"search": {"method": "annealing"}}, "unknown search method 'annealing'"),
        ({"family": "gone.away:Family"}, "cannot be imported: ModuleNotFoundError"),
        ({"family": "torn_family:Family"}, "cannot be imported: SyntaxError"),
        ({"settings": {"hurry": 1}}, "settings.hurry: there is no such key"),
        ({"sedes": 3}, "there is no such key. Did you mean 'seeds'?"),
    ],
)
def test_what_cannot_be_used_is_refused(
    change: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torn_family.py").write_text("class Family(\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=said.replace("+", r"\+").replace("?", r"\?")):
        parse(SweepSpec, written(spec()) | change)


def test_no_mapping_is_refused() -> None:
    with pytest.raises(ValueError, match="must be"):
        parse(SweepSpec, [1, 2])
