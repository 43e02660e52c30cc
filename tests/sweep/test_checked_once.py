"""A specification is checked where its text enters; later code trusts it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import orchestrator as o
from orchestrator.engine.campaign import Campaign
from orchestrator.engine.local_engine import LocalEngine
from orchestrator.space.parsing import Mistake
from orchestrator.space.spaces import load_space, names, variant_names
from orchestrator.space.spec import SweepSpec
from orchestrator.space.stack_sizes import choose_stacks
from orchestrator.system.errors import UserError
from orchestrator.system.hardware import Hardware
from tests.cli.program import Program
from tests.families import LogisticFamily, LogisticSettings
from tests.sweep.sweeps import UNITS

pytestmark = pytest.mark.usefixtures("undrawn")

Checks = list[str]
STEP = "the first step"


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Checks:
    """The name of every specification when it is checked in full, and :data:`STEP` when training begins."""
    seen: Checks = []
    check: Callable[[SweepSpec], list[Mistake]] = SweepSpec._mistakes

    def counting(spec: SweepSpec) -> list[Mistake]:
        seen.append(spec.name)
        return check(spec)

    def starting(engine: LocalEngine, campaign: Campaign) -> None:
        seen.append(STEP)
        execute(engine, campaign)

    execute = LocalEngine.execute
    monkeypatch.setattr(SweepSpec, "_mistakes", counting)
    monkeypatch.setattr(LocalEngine, "execute", starting)
    return seen


def written(name: str) -> Path:
    path = Path(f"{name}.yaml")
    path.write_text(UNITS)
    return path


@pytest.mark.parametrize("options", [(), ("--fresh",), ("--set", "resources.max_stack=1", "--set", "seeds=2")])
def test_a_command_checks_a_file_once(run: Program, checks: Checks, options: tuple[str, ...]) -> None:
    run("run", written("units"), "--engine", "local", "--quiet", *options).succeeded()
    assert checks[: checks.index(STEP)] == ["units"]


def test_python_checks_a_file_once_and_a_specification_once_more(workplace: Path, checks: Checks) -> None:
    o.run(written("units"), engine="local", quiet=True)
    assert checks[: checks.index(STEP)] == ["units"]
    checks.clear()
    o.run(load_space(str(written("others"))), engine="local", quiet=True)
    assert checks[: checks.index(STEP)] == ["others", "others"]


@dataclass(frozen=True)
class LooseSettings(LogisticSettings):
    """Defaults of other types than their fields, which Python allows."""

    width: float = 4
    pair: tuple[int, ...] = field(default_factory=lambda: [1, 2])  # type: ignore[arg-type,return-value]


class LooseFamily(LogisticFamily):
    """A family whose defaults are read from the stored sweep with other types."""

    name = "loose"
    Settings = LooseSettings


@dataclass(frozen=True)
class WrongSettings(LogisticSettings):
    """A default that its own field does not accept."""

    width: int = 0.5  # type: ignore[assignment]


class WrongFamily(LogisticFamily):
    """A family whose sweeps could not be read back."""

    name = "wrong"
    Settings = WrongSettings


def changed(**values: Any) -> SweepSpec:
    return SweepSpec.model_validate(
        {"name": "s", "question": "?", "target": "add", "mixes": ["add"], "sizes": [8], "seeds": 1} | values
    )


def test_defaults_have_the_types_that_the_stored_sweep_will_have() -> None:
    spec = changed(family=f"{__name__}:LooseFamily")
    assert (type(spec.settings.width), spec.settings.pair) == (float, (1, 2))
    assert spec.model_copy(update={}).settings == spec.settings


def test_a_default_that_could_not_be_read_back_is_refused_where_it_enters(workplace: Path) -> None:
    text = UNITS.replace("tests.families:LogisticFamily", f"{__name__}:WrongFamily")
    Path("wrong.yaml").write_text(text)
    with pytest.raises(UserError, match=r"wrong\.yaml.*settings\.width: must be a whole number; got 0\.5"):
        load_space("wrong.yaml")


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("hardware", [Hardware(2, 8.0), Hardware(16, 64.0, 1, "H100", 80.0)])
def test_values_chosen_for_a_machine_are_those_of_a_checked_copy(name: str, hardware: Hardware) -> None:
    for variant in variant_names(name, "smoke") or (None,):
        spec = choose_stacks(load_space(name, "smoke", variant=variant), hardware)
        copy = spec.model_copy(update={})
        assert copy == spec
        assert copy.to_yaml() == spec.to_yaml()
