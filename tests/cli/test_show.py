"""``show``: the very sweep, as YAML that can be run, with the origin of each value beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.space import strict_yaml
from orchestrator.space.spaces import load_space, open_space
from tests.cli.program import Program, program

FAR = """\
question: Does it work?
family: tests.families:LogisticFamily
target: add
mixes: [add, add+prod]
seeds: 3
settings:
  curve: {midpoint: 20}
search: {method: bayes}
profiles:
  laptop:
    sizes: {from: 8, to: 16, count: 3, multiple_of: 2}
    search:
      max_cost: 540
    tuned:
      add+prod: {settings: {haste: 2.0}, base_size: 8}
  smoke:
    sizes: [8]
"""

NEAR = """\
like: far.yaml
seeds: 5
mixes: [add, add+max]
sizes:
  count: 4
profiles:
  laptop:
    settings:
      noise: 0.5
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    (tmp_path / "far.yaml").write_text(FAR)
    (tmp_path / "near.yaml").write_text(NEAR)
    monkeypatch.chdir(tmp_path)
    return program(capsys)


def origins(shown: str) -> dict[str, str]:
    """What stands beside each value, by its dotted path."""
    lines = shown.split("\n")
    beside = {}
    for key, number in strict_yaml.last_lines(shown).items():
        found = re.search(r"  # (.*)$", lines[number - 1])
        assert found, f"nothing is said of {key}"
        beside[".".join(map(str, key))] = found[1]
    return beside


def test_each_value_stands_beside_the_place_it_is_written_at(run: Program) -> None:
    shown = run("show", "near.yaml", "--profile", "laptop", "--set", "settings.curve.slope=9", "--stack", "2")
    assert shown.code == 0, shown.err
    said = origins(shown.out)
    assert (
        said.items()
        >= {
            "name": "near.yaml",
            "question": "far.yaml, line 1",
            "mixes": "near.yaml, line 3",
            "seed": "default",
            "seeds": "near.yaml, line 2",
            # A range made of parts from two files.
            "sizes": "far.yaml, line 11 (profile laptop); near.yaml, line 5",
            "settings.curve.midpoint": "far.yaml, line 7",
            "settings.curve.slope": "--set settings.curve.slope=9",
            "settings.curve.help": "default",
            "settings.noise": "near.yaml, line 9 (profile laptop)",
            "search.method": "far.yaml, line 8",
            "search.max_cost": "far.yaml, line 13 (profile laptop)",
            "search.min_runs": "default",
            "tuned": "far.yaml, line 14 (profile laptop)",
            "resources.max_stack": "--stack 2",
            "resources.gpu_per_stack": "default",
            "profile": "--profile laptop",
        }.items()
    )
    left_out = "# left out, as this space has no such mix: tuned.add+prod, far.yaml, line 15 (profile laptop)"
    assert shown.out.splitlines()[-1] == left_out


def test_a_profile_that_nobody_asked_for_is_said_to_be_chosen(run: Program) -> None:
    said = origins(run("show", "near.yaml").out)
    assert said["profile"] == said["profile_reason"] == "chosen for the hardware found"


def test_settings_of_a_method_that_is_gone_are_defaults(run: Program, tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text("like: near.yaml\nsearch: {method: grid}\n")
    bayes = ("--set", "search.max_runs=20", "--set", "search.method=bayes")
    said = origins(run("show", "grid.yaml", "--profile", "laptop", *bayes).out)
    assert (said["search.method"], said["search.max_runs"]) == ("--set search.method=bayes", "--set search.max_runs=20")
    assert said["search.max_cost"] == "default"


def test_recipes_written_out_are_from_the_lists_they_vary(run: Program) -> None:
    shown = run("show", "near.yaml", "--set", "recipes={slow: {haste: 1.0}, vary: {noise: [0.1, 0.2]}}")
    said = origins(shown.out)
    assert {key: text for key, text in said.items() if key.startswith("recipes.")} == dict.fromkeys(
        ("recipes.slow.haste", "recipes.noise=0.1.noise", "recipes.noise=0.2.noise"),
        "--set recipes={slow: {haste: 1.0}, vary: {noise: [0.1, 0.2]}}",
    )


def test_a_range_to_tune_in_is_found_under_its_dotted_name(run: Program) -> None:
    settings = "tune.settings={training.clip: {from: 1, to: 2}}"
    shown = run("show", "add_vs_add_prod", "--profile", "laptop", "--set", "tune.sizes=[6, 8]", "--set", settings)
    said = origins(shown.out)
    assert said["tune.settings.training.clip.from"] == f"--set {settings}"
    assert (said["tune.sizes"], said["tune.trials"]) == ("--set tune.sizes=[6, 8]", "default")


@pytest.mark.parametrize("profile", open_space("add_vs_add_prod_recipes").profiles)
def test_what_is_shown_can_be_run_again(run: Program, tmp_path: Path, profile: str) -> None:
    shown = run("show", "add_vs_add_prod_recipes", "--profile", profile, "--gpu-fraction", "0.5")
    (tmp_path / "again.yaml").write_text(shown.out)
    overrides = ["resources.gpu_per_stack=0.5"]
    assert load_space("again.yaml") == load_space("add_vs_add_prod_recipes", profile, overrides)
    assert set(origins(run("show", "again.yaml").out).values()) == {
        f"again.yaml, line {number}" for number in _first_lines(shown.out)
    }


def _first_lines(shown: str) -> set[int]:
    """The lines on which the keys of values stand."""
    document = strict_yaml.read(shown, "again.yaml")
    return {document.lines[key] for key in strict_yaml.last_lines(shown)}


@pytest.mark.parametrize(
    "question",
    [
        "Why? # is this a comment: or not",
        "'quoted' and \"quoted\"",
        "two\nlines",
        "- [a, {b: c}]",
        "caf\u00e9 \u2028 separated",
        "long enough to be folded over several lines, " * 8,
        "long 'and' \"quoted\": # and folded\n" * 8,
    ],
)
def test_text_of_any_kind_survives_the_comments(run: Program, tmp_path: Path, question: str) -> None:
    (tmp_path / "asked.yaml").write_text(strict_yaml.write({"like": "near.yaml", "question": question}), "utf-8")
    shown = run("show", "asked.yaml")
    assert strict_yaml.read(shown.out, "shown").data["question"] == question
    assert origins(shown.out)["question"] == "asked.yaml, line 2"


def test_an_option_over_several_lines_stays_a_comment(run: Program) -> None:
    shown = run("show", "near.yaml", "--set", "mixes=[add,\n  add+max]")
    assert origins(shown.out)["mixes"] == "--set mixes=[add,   add+max]"
    assert strict_yaml.read(shown.out, "shown").data["mixes"] == ["add", "add+max"]


def test_a_mistake_in_a_short_option_is_named_as_it_was_typed(run: Program) -> None:
    ended = run("show", "near.yaml", "--stack", "many")
    assert ended.code == 2
    assert "--stack many: must be a whole number from 1 to 4096, or auto; got 'many'" in ended.err


def test_the_question_of_another_space_about_mixes_of_its_own_is_warned_of(run: Program) -> None:
    said = "warning: near.yaml compares mixes of its own and asks the question of far.yaml: write `question:`"
    assert run("show", "near.yaml").err.strip() == said
    assert run("show", "near.yaml", "--set", "question=Does MAX help?").err == ""
    assert run("show", "far.yaml").err == ""
