"""Variants of a search space: each is a separate sweep, overrides the profile, and is selected by name."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from orchestrator.cli.run import MOST_PLANS
from orchestrator.space.spaces import load_space, variant_names
from orchestrator.system.errors import UserError
from orchestrator.system.hardware import Hardware
from tests.cli.program import Program
from tests.space.test_like import FAR

LAPTOP = Hardware(cpus=2, memory_gb=16)
VARIANTS = """
along: settings.curve.midpoint
variants:
  low: {settings: {curve: {midpoint: 10}}}
  high: {seeds: 4, settings: {curve: {midpoint: 30}}}
"""


@pytest.fixture
def space(tmp_path: Path) -> str:
    path = tmp_path / "several.yaml"
    path.write_text(FAR + VARIANTS)
    return str(path)


def test_a_variant_overrides_the_profile_and_the_command_line_overrides_both(space: str) -> None:
    assert variant_names(space, "laptop", LAPTOP) == ("low", "high")
    low, high = (load_space(space, "laptop", (), LAPTOP, name) for name in ("low", "high"))
    assert (low.settings.curve.midpoint, high.settings.curve.midpoint) == (10, 30)
    assert low.settings.curve.slope == high.settings.curve.slope == 10  # From the profile.
    assert (low.seeds, high.seeds) == (3, 4)
    assert (low.variant, high.variant, low.place_along, high.place_along) == ("low", "high", 10, 30)
    over = load_space(space, "laptop", ["settings.curve.midpoint=17"], LAPTOP, "low")
    assert over.place_along == 17


def test_a_resolved_variant_is_a_single_sweep_that_resolves_to_itself(space: str, tmp_path: Path) -> None:
    resolved = load_space(space, "laptop", (), LAPTOP, "high")
    again = tmp_path / "again.yaml"
    again.write_text(resolved.to_yaml())
    assert load_space(str(again)) == resolved
    assert variant_names(str(again)) == ()
    assert load_space(str(again), variant="high") == resolved  # It is this variant.


def test_a_profile_can_have_its_own_variants(space: str, tmp_path: Path) -> None:
    near = tmp_path / "near.yaml"
    near.write_text("like: several.yaml\nprofiles: {smoke: {variants: {most: {seeds: 2}}}}")
    assert variant_names(str(near), "laptop", LAPTOP) == ("low", "high")
    assert variant_names(str(near), "smoke", LAPTOP) == ("most",)  # They replace the inherited variants.
    assert load_space(str(near), "smoke", (), LAPTOP, "most").seeds == 2


def test_one_of_several_variants_must_be_named(space: str) -> None:
    with pytest.raises(UserError, match=r"several variants.*--variant \(low, high\)"):
        load_space(space, "laptop", (), LAPTOP)
    with pytest.raises(UserError, match=r"variant 'lo'.*'low'"):
        load_space(space, "laptop", (), LAPTOP, "lo")
    with pytest.raises(UserError, match="has no variants"):
        load_space("add_vs_add_prod", "smoke", variant="low")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("variants: []", "line 28, variants: must map the names"),
        ("variants: {Low: {seeds: 2}}", "line 28, variants.Low: a name is a lowercase letter"),
        ("variants: {low: 3}", "line 28, variants.low: must map keys to values"),
        ("variants: {low: {name: other}}", "line 28, variants.low.name: must be the same for all variants"),
        ("variants: {low: {settings: {noise: loud}}}", "line 28 (variant low), settings.noise"),
    ],
)
def test_malformed_variants_are_refused_with_their_line(tmp_path: Path, written: str, message: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(FAR.rstrip() + "\n" + written)
    line = len(FAR.rstrip().splitlines()) + 1
    with pytest.raises(UserError) as caught:
        load_space(str(path), "laptop", (), LAPTOP, "low")
    assert message.replace("line 28", f"line {line}") in str(caught.value)


@pytest.mark.parametrize("more", [0, 1, 5000])
def test_a_plan_simulates_the_first_variants_and_counts_the_others(more: int, run: Program, tmp_path: Path) -> None:
    names = [f"v{number}" for number in range(MOST_PLANS + more)]
    many = "\n".join(f"  {name}: {{seed: {number}}}" for number, name in enumerate(names))
    (tmp_path / "many.yaml").write_text(f"{FAR}variants:\n{many}\n")
    begun = time.process_time()
    text = run("plan", "many.yaml", "--profile", "smoke").succeeded()
    planned = re.findall(r"^many, (v\d+):", text, re.MULTILINE)
    assert planned == names[:MOST_PLANS]
    assert time.process_time() - begun < 60
    last = text.splitlines()[-1]
    assert last.startswith(f"{more} more variant") is (more > 0)
    assert last.endswith(f"such as v{MOST_PLANS}") is (more > 0)


def test_a_plan_of_one_variant_among_many_and_of_one_that_is_expected(run: Program, tmp_path: Path) -> None:
    many = "\n".join(f"  v{number}: {{seed: {number}}}" for number in range(MOST_PLANS + 1))
    expects = f"expects: [{{claim: it helps, source: us, mix: add+prod, variant: v{MOST_PLANS}, finds: fewer}}]"
    (tmp_path / "many.yaml").write_text(f"{FAR}{expects}\nvariants:\n{many}\n")
    text = run("plan", "many.yaml", "--profile", "smoke", "--variant", f"v{MOST_PLANS}").succeeded()
    assert f"many, v{MOST_PLANS}:" in text
    assert "more variant" not in text
    assert "1 more variant not planned" in run("plan", "many.yaml", "--profile", "smoke").succeeded()
