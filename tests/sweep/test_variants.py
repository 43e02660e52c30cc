"""A search space with several variants on the command line: run, resumed, compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.home.directories import Home
from tests.cli.program import command

SPACE = """
name: growing
question: How does the transition grow with the midpoint?
family: tests.families:LogisticFamily
target: add
mixes: [add, add+prod]
sizes: [4, 8, 12, 16, 24, 32, 48, 64, 96]
seeds: 2
search: {method: bisection}
along: settings.curve.midpoint
variants:
  at_12: {settings: {curve: {midpoint: 12}}}
  at_24: {settings: {curve: {midpoint: 24}}}
  at_48: {settings: {curve: {midpoint: 48}}}
"""


@pytest.fixture
def place(workplace: Path) -> Path:
    (workplace / "growing.yaml").write_text(SPACE)
    return workplace


def test_each_variant_is_a_separate_sweep_and_the_answers_are_compared(place: Path) -> None:
    command("run", "growing.yaml", "--engine=local", "--variant", "at_12").succeeded()
    assert [item.rsplit("-", 3)[0] for item in Home(place / "results").sweep_ids()] == ["growing-at_12"]

    # Answered variants are skipped; the others are run.
    rest = command("run", "growing.yaml", "--engine=local", "--resume", "").succeeded()
    ids = Home(place / "results").sweep_ids()
    assert sorted(item.rsplit("-", 3)[0] for item in ids) == ["growing-at_12", "growing-at_24", "growing-at_48"]
    assert f"at_12: answered by {ids[-1]}" in rest
    assert "add: units at the transition grows as midpoint^" in rest
    figure = place / "results" / "sweeps" / ids[0] / "variants.png"
    assert f"figure  {figure}" in rest.replace("\n", "")
    assert figure.stat().st_size > 10_000

    # A home that was copied from another user may have a link there.
    (place / "precious").write_text("kept")
    figure.unlink()
    figure.symlink_to(place / "precious")
    command("run", "growing.yaml", "--engine=local", "--resume", "").succeeded()
    assert ((place / "precious").read_text(), figure.is_symlink()) == ("kept", False)

    output = command("compare", "growing").succeeded()
    law = next(line for line in output.splitlines() if line.startswith("add: units"))
    assert law in rest
    exponent = float(law.split("midpoint^")[1].split()[0])
    assert exponent == pytest.approx(1, abs=0.25)
    assert "over 3 values" in law


def test_resuming_by_id_requires_a_single_variant(place: Path) -> None:
    for option in ("--resume", "--extend"):
        message = command(
            "run", "growing.yaml", "--engine=local", option, "growing-at_12-20260101-000000-abcd"
        ).refused()
        assert "also pass --variant (at_12, at_24, at_48)" in message
    assert not (place / "results" / "sweeps").exists()
