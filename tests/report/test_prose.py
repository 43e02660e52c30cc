"""Lines that break between words: never within a number, and the text stays what it was."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, Group, RenderableType
from rich.table import Table

from orchestrator.report.prose import Prose, whole_numbers

TEXT = "  With add+prod it is learned from n_embed 18.8 on, 2 700 [1 230 000, 14 200] parameters, of 16 runs at 128"
NUMBERS = ("2 700", "[1 230 000,", "14 200]")


def shown(view: RenderableType, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(view)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("hanging", [False, True])
@pytest.mark.parametrize("width", range(16, 110))
def test_numbers_stay_whole_at_every_width(width: int, hanging: bool) -> None:
    lines = shown(Group(Prose(TEXT, hanging=hanging)), width)
    assert max(map(len, lines)) <= width
    assert " ".join(" ".join(lines).split()) == " ".join(TEXT.split())
    for number in NUMBERS:
        assert any(number in line for line in lines)
    assert all(line.startswith("    ") == hanging for line in lines[1:])
    assert all(line.isascii() for line in lines)


def test_numbers_stay_whole_in_a_table() -> None:
    table = Table(box=None, pad_edge=False)
    for header in ("mix", "parameters"):
        table.add_column(header, overflow="fold")
    table.add_row("a mix of a name that is much too long for this", Prose("1 730 [1 290, 2 620]"))
    lines = shown(table, 30)
    assert any("1 730" in line for line in lines)
    assert any("[1 290," in line for line in lines)


def test_what_is_no_number_is_left_alone() -> None:
    assert whole_numbers("19 600 parameters, seeds 0 1, at 1 2000") == "19\xa0600 parameters, seeds 0 1, at 1 2000"
