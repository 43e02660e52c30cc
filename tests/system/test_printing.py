"""Text of another user on a terminal: shown, not obeyed."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.home.directories import Home
from orchestrator.report.answer_table import labeled, plain_table
from orchestrator.system.printing import Console, clean
from tests.catalog.fabricated import outcome_of, runs_of, write_sweep
from tests.cli.program import Program
from tests.sweep.sweeps import spec

LINK = "[link=\x1bc\x9d52;c;ZXZpbA==\x9c]cost[/link]"
"""Rich would write everything in the link to the terminal: an end of the link, and commands to the terminal."""


def plain(shown: str) -> str:
    """Return text without its colors."""
    return re.sub(r"\x1b\[[\d;]*m", "", shown)


@pytest.mark.parametrize("name", [LINK, "[/cost]", "[bold]cost"])
def test_a_measure_of_somebody_else_is_shown_as_it_is(
    name: str, run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is a label of ``logs``, and the head of a column of its learning curve."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # As on a terminal.
    config = runs_of(spec())[0]
    outcome = outcome_of(config)
    curve = tuple(replace(point, measures={name: 1.0}) for point in outcome.curve)
    outcome = replace(outcome, measures=outcome.measures | {name: 1.0}, curve=curve)
    home = Home(tmp_path / "home")
    sweep = write_sweep(home, runs=[config], outcomes={0: outcome})
    shown = plain(run("logs", sweep.spec.make_family().key(config), "--home", home.root).succeeded())
    assert clean(name)[:9] in shown
    assert not set(shown).intersection("\x07\x1b\x9d")


@pytest.mark.parametrize("name", [LINK, "[/width]", "[red]width"])
def test_no_table_obeys_a_label_or_a_header(name: str) -> None:
    """The axis of a script, for example, is any text."""
    for table in (labeled({name: "1"}), plain_table("mix", name), name):
        console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=200)
        console.print(table)
        assert isinstance(console.file, io.StringIO)
        shown = plain(console.file.getvalue())
        assert clean(name)[:9] in shown
        assert not set(shown).intersection("\x07\x1b\x9d")
