"""What an answer needs of a family's parameter counts is checked before training."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

import orchestrator as o
from orchestrator.catalog.summary_cache import forget
from orchestrator.home.directories import Home
from orchestrator.space.spaces import load_space, names, variant_names
from orchestrator.system.hardware import Hardware
from tests.cli.program import Program
from tests.sweep.sweeps import UNITS
from tests.trainables import simple_families
from tests.trainables.simple_families import Curve

pytestmark = pytest.mark.usefixtures("undrawn")

COUNTS: dict[str, tuple[Callable[[float], float], str]] = {
    "raises for fractions": (
        lambda size: len(range(size)),  # type: ignore[call-overload]
        "at size 10.96: TypeError: 'float' object",
    ),
    "raises by itself": (lambda size: 1 / (size == int(size)), "ZeroDivisionError: division by zero. A transition may"),
    "constant": (lambda size: 100.0, "counts 100 parameters at hidden units 16 and 100 at 8"),
    "falls": (lambda size: 1000 / size, "counts 91.2409 parameters at hidden units 10.96 and 125 at 8"),
    "falls between sizes": (lambda size: size if size == int(size) else 1, "and 8 at 8. Mixes are compared"),
    "not finite": (lambda size: size if size < 16 else math.nan, "the count is nan"),
}


@pytest.mark.parametrize("kind", COUNTS)
def test_counts_that_no_answer_can_use_are_refused(
    kind: str, run: Program, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, why = COUNTS[kind]
    monkeypatch.setattr(Curve, "parameter_count", lambda self, size: count(size))
    (workplace / "units.yaml").write_text(
        UNITS.replace("tests.families:LogisticFamily", f"{simple_families.__name__}:Curve")
    )
    for words in (("plan", "units.yaml"), ("run", "units.yaml", "--engine=local")):
        message = run(*words).refused()
        assert "tests.trainables.simple_families:Curve" in message
        assert why.replace("at size", "at hidden units") in message
    assert not (workplace / "results").exists()


@pytest.mark.parametrize("name", names())
def test_every_shipped_space_counts_as_an_answer_needs(name: str) -> None:
    machine = Hardware(1, 1)
    for variant in variant_names(name, "smoke", machine) or (None,):
        load_space(name, "smoke", hardware=machine, variant=variant).check_startable()


def test_steps_between_sizes_are_accepted(monkeypatch: pytest.MonkeyPatch, workplace: Path) -> None:
    monkeypatch.setattr(Curve, "parameter_count", lambda self, size: 4.0 * int(size))
    (workplace / "units.yaml").write_text(
        UNITS.replace("tests.families:LogisticFamily", f"{simple_families.__name__}:Curve")
    )
    load_space("units.yaml").check_startable()


@pytest.mark.parametrize("method", ["parameter_count", "warnings"])
def test_a_family_that_raises_in_an_answer_spoils_only_its_own_sweep(
    method: str, run: Program, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workplace / "fine.yaml").write_text(UNITS)
    (workplace / "units.yaml").write_text(
        UNITS.replace("tests.families:LogisticFamily", f"{simple_families.__name__}:Curve")
    )
    run("run", "fine.yaml", "--engine=local").succeeded()
    run("run", "units.yaml", "--engine=local").succeeded()
    key = o.load("units").runs["key"].iloc[0]
    home = Home(workplace / "results")
    for sweep_id in home.sweep_ids():  # A file that changes makes a kept summary invalid; a class cannot.
        forget(home.sweep(sweep_id))

    def raises(*_: object) -> float:
        raise ArithmeticError("no idea")

    monkeypatch.setattr(Curve, method, raises)
    listed = run("sweeps").succeeded()
    assert "simple_families:Curve" in listed
    assert "ArithmeticError: no idea" in listed
    assert "\nfine-" in f"\n{listed}"
    assert list(o.sweeps()["state"]) == ["unreadable", "finished"]
    message = run("status", "units").err
    assert "ArithmeticError: no idea" in message
    assert "should not happen" not in message
    if method == "warnings":  # Otherwise even the settings cannot be read.
        assert "hidden units" in run("logs", key).succeeded()
