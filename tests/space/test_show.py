"""Printing a resolved space: its values, and the comments from its files."""

from __future__ import annotations

from pathlib import Path

from orchestrator.space.differences import differences
from orchestrator.space.spaces import load_space
from tests.cli.program import Program

UNSAID = {"operations", "gain", "task", "model", "training", "settings"}
"""Defaults and headings, which have no source."""


def test_each_setting_of_the_paper_is_shown_with_its_source(run: Program, tmp_path: Path) -> None:
    shown = run("show", "add_vs_add_prod", "--profile", "paper").out
    settings = shown[shown.index("settings:") : shown.index("search:")].splitlines()
    commented = dict(line.strip().partition(":")[::2] for line in settings)
    for name, rest in commented.items():
        _, _, source = rest.partition(" # ")
        inner = name in ("kind", "std")  # `init` itself has the comment.
        sourced = source.startswith(("paper", "sibling", "ours", "5,000 times"))
        assert sourced or inner or name in UNSAID, (name, rest)
    for line in ("parallel: true # sibling", "decoding: sampled # sibling", "held_out_numbers: distinct # sibling"):
        assert line in shown
    (tmp_path / "shown.yaml").write_text(shown)
    assert not differences(load_space(str(tmp_path / "shown.yaml")), load_space("add_vs_add_prod", "paper"))


def test_a_changed_value_loses_its_comment(run: Program) -> None:
    shown = run("show", "add_vs_add_prod", "--profile", "paper", "--set", "settings.training.steps=7").out
    assert "    steps: 7\n" in shown
    assert "    batch: 64 # sibling" in shown


def test_comments_after_keys_and_values_are_kept(run: Program, tmp_path: Path) -> None:
    text = """name: mine
question: "Does # this help?" # Behind a text.
family: listops
seeds: 2
target: add
mixes: [add, add+prod] # Behind a list.
sizes: # Behind a key.
  [8, 16]
# Between the lines.
settings:
  task: {modulus: 6, held_out_fraction: 0.2} # Behind a mapping.
  model:
    block: 60 #No space.
"""
    (tmp_path / "mine.yaml").write_text(text)
    shown = run("show", "mine.yaml").out
    lines = [line for line in shown.splitlines() if " # " in line]
    comments = {line.strip().partition(":")[0]: line.rpartition(" # ")[2] for line in lines}
    assert comments.pop("question").endswith("Behind a text.")
    assert comments == {
        "mixes": "Behind a list.",
        "sizes": "Behind a key.",
        "task": "Behind a mapping.",
        "block": "No space.",
    }
