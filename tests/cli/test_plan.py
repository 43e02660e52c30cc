"""``plan --json`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import Program
from tests.sweep.sweeps import UNITS


def test_a_plan_can_be_read_by_programs(run: Program, tmp_path: Path) -> None:
    path = tmp_path / "units.yaml"
    path.write_text(UNITS + "search: {method: grid}\n")
    [plan] = json.loads(run("plan", path, "--json").succeeded())
    assert (plan["space"], plan["variant"], plan["device"]) == ("units", "", "cpu")
    assert plan["runs"] == {"at_best": 2, "at_worst": 2, "at_most": 2}  # One mix, two sizes, one seed.
    assert [size["size"] for size in plan["sizes"]] == [8, 16]
    assert 0 < plan["seconds"]["at_best"] <= plan["seconds"]["at_worst"]
    assert plan["flops"] == sum(size["runs"] * size["flops"] for size in plan["sizes"])


def test_every_variant_has_a_plan(run: Program, tmp_path: Path) -> None:
    path = tmp_path / "units.yaml"
    path.write_text(UNITS + "search: {method: grid}\nvariants: {few: {sizes: [8]}, more: {sizes: [8, 16, 24]}}\n")
    plans = json.loads(run("plan", path, "--json").succeeded())
    assert {plan["variant"]: plan["runs"]["at_most"] for plan in plans} == {"few": 1, "more": 3}
    [chosen] = json.loads(run("plan", path, "--json", "--variant", "more").succeeded())
    assert chosen["variant"] == "more"
