"""Variants of a space in one figure: a row each on one axis of sizes, what mixes save, transitions along a number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.catalogue.export import by_place, compared
from orchestrator.catalogue.reading import StoredSweep, read_sweep
from orchestrator.home.files import Home
from orchestrator.report.figures import style
from orchestrator.report.figures.comparisons import can_compare, variants_figure
from tests.catalogue.fabricated import write_sweep
from tests.cli.program import Program, program
from tests.report.test_figures import texts
from tests.sweep.sweeps import spec

SIZES = [4, 8, 12, 16, 24, 32, 48, 64, 96]


@pytest.fixture(scope="module", name="home")
def home_with_variants(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("variants"))
    for midpoint in (12, 24, 48):
        settings = {"curve": {"midpoint": midpoint}}
        asked = spec(variant=f"at_{midpoint}", along="settings.curve.midpoint", settings=settings, sizes=SIZES, seeds=3)
        write_sweep(home, asked)
    return home


def stored(home: Home) -> list[StoredSweep]:
    return [read_sweep(home, each) for each in reversed(home.sweep_ids())]


def test_one_row_a_variant_on_one_axis_with_ratios_and_a_law(home: Home) -> None:
    found = by_place(compared(stored(home)))
    assert can_compare(found)
    figure = variants_figure(found, "How does it grow?")
    style.settle(figure)
    names = [axes.get_title(loc="left") for axes in figure.axes]
    rows = [f"at_{midpoint} (midpoint {midpoint})" for midpoint in (12, 24, 48)]
    assert [name for name in names if name] == sorted(rows)
    curves = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert len({axes.get_xlim() for axes in curves}) == 1
    said = texts(figure)
    for part in ("How does it grow?", "times fewer parameters", "midpoint", "units at the transition of add"):
        assert part in said
    # Each ratio with its interval, in words beside its bar: the truth is 2 units, so nearly 4 in parameters.
    assert sum("x fewer [" in text.get_text() for axes in figure.axes for text in axes.texts) == 3
    assert len(figure.axes) == 2 * 3 + 1


def test_variants_that_differ_in_no_number_have_no_law(home: Home) -> None:
    found = compared(stored(home)[:2])
    plain = [type(each)(each.label, each.answer, each.space, each.variant) for each in found]
    assert len(variants_figure(plain).axes) == 2 * 2
    assert not can_compare(plain[:1])


@pytest.fixture(name="run")
def run_program(capsys: pytest.CaptureFixture[str]) -> Program:
    return program(capsys)


def test_the_figure_of_a_space_is_that_of_all_its_variants(run: Program, home: Home, tmp_path: Path) -> None:
    ended = run("figure", "logistic", "--home", home.root, "--output", tmp_path / "all.pdf", "--width", "180mm")
    assert ended.code == 0, ended.err
    assert (tmp_path / "all.pdf").read_bytes().startswith(b"%PDF")
    assert "A row a variant (at_12, at_24, at_48)" in ended.out.replace("\n", " ")
    assert "units at the transition goes as midpoint^" in ended.out
    narrow = run("figure", "logistic", "--home", home.root, "--output", tmp_path / "no.pdf", "--width", "3.3in")
    assert (narrow.code, "give it 5in or more" in narrow.err) == (2, True)
    one = home.sweep_ids()[0]
    single = run("figure", one, "--home", home.root, "--output", tmp_path / "one.svg", "--style", "screen")
    assert single.out == f"figure  {tmp_path / 'one.svg'}\n"


def test_mixes_that_are_questions_of_their_own_are_set_against_no_other(run: Program, tmp_path: Path) -> None:
    """Neither by one sweep nor by those of a space side by side, in words, figure, caption or page."""
    home = Home(tmp_path / "home")
    for variant in ("one", "two"):
        write_sweep(home, spec(family="tests.families:RivalFamily", variant=variant))
    sweep = home.sweep_ids()[0]
    for words in (
        ("compare", "logistic", "--output", tmp_path / "compared.svg"),
        ("figure", "logistic", "--output", tmp_path / "all.svg"),
        ("figure", sweep, "--output", tmp_path / "one.svg"),
        ("explain", sweep),
        ("status", sweep),
        ("report", sweep, "--output", tmp_path / "page.html"),
    ):
        ended = run(*words, "--home", home.root)
        assert ended.code == 0, ended.err
        assert not re.search("baseline|fewer|the right", ended.out), words
    for path in (tmp_path / "compared.svg", tmp_path / "all.svg", tmp_path / "one.svg", tmp_path / "page.html"):
        seen = re.sub(r"<script.*?</script>|<style.*?</style>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search("baseline|times fewer|fewer parameters", seen), path.name
