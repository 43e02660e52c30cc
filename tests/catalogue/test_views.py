"""What a terminal of 80 columns shows of sweeps: nothing is cut, and no cell is folded."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from orchestrator.catalogue.export import compared
from orchestrator.catalogue.reading import StoredSweep, read_sweep
from orchestrator.catalogue.status import status_of
from orchestrator.catalogue.views import status_view, sweeps_view
from orchestrator.home.files import Home
from orchestrator.report.side_by_side import comparison_rows
from orchestrator.report.table import comparison_view
from tests.catalogue.fabricated import write_sweep
from tests.sweep.sweeps import spec

COLUMNS = 80


@pytest.fixture(scope="module", name="sweeps")
def stored_sweeps(tmp_path_factory: pytest.TempPathFactory) -> list[StoredSweep]:
    home = Home(tmp_path_factory.mktemp("home"))
    asked = (spec(), spec(name="a_search_space_of_a_longer_name", mixes=["add", "add:2+prod:3"]))
    return [read_sweep(home, write_sweep(home, each).id) for each in asked]


def shown(view: RenderableType) -> list[str]:
    console = Console(width=COLUMNS, file=io.StringIO())
    console.print(view)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= COLUMNS
    return lines


def on_one_line(lines: list[str], *parts: str) -> bool:
    return any(all(part in line for part in parts) for line in lines)


def test_a_comparison_has_a_table_a_sweep(sweeps: list[StoredSweep]) -> None:
    found = compared(sweeps)
    lines = shown(comparison_view(found, "sweep", COLUMNS))
    for row in comparison_rows(found):
        assert on_one_line(lines, row.mix, row.size_words, row.count_words)
        assert row.label in [line.strip() for line in lines]
        assert " ".join(row.saving.split()) in " ".join(" ".join(lines).split())


def test_status_says_each_mix_in_a_line(sweeps: list[StoredSweep]) -> None:
    for stored in sweeps:
        status = status_of(stored)
        lines = shown(status_view(status, width=COLUMNS))
        for mix in status.mixes:
            assert on_one_line(lines, mix.mix, mix.transition, mix.parameters, str(mix.done))


def test_sweeps_are_listed_by_their_whole_ids(sweeps: list[StoredSweep]) -> None:
    lines = shown(sweeps_view(sweeps, COLUMNS))
    for stored in sweeps:
        assert stored.id in [line.strip() for line in lines]
