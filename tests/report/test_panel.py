"""An answer over recipes: the sentence claims what the intervals carry, the table and the figure show each recipe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.drive.sweep import RunOptions, run_sweep
from orchestrator.report import table, wording
from orchestrator.report.answer import Answer
from orchestrator.report.figures.comparisons import main_figure
from orchestrator.report.panel import Finding, panel, sentence
from orchestrator.transition.types import Synergy
from tests.drive.sweeps import printed, quiet, spec

FEWER = Synergy(2.8, 2.2, 3.6, decided=True)
ONE_SIDED = Synergy(None, 2.3, None, decided=True)
MORE = Synergy(0.5, 0.3, 0.8, decided=True)
OPEN = Synergy(1.1, 0.8, 1.5, decided=False)
NOTHING = Synergy(None, None, None, decided=False)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((FEWER, ONE_SIDED), "add+prod needs fewer parameters than add under all 2 recipes tried"),
        (
            (FEWER, OPEN, MORE),
            "add+prod needs fewer parameters than add under 1 of 3 recipes tried (a): more under 1 (c), "
            "undecided under 1 (b)",
        ),
        ((OPEN, NOTHING), "whether add+prod needs fewer parameters than add is undecided under all 2 recipes tried"),
        (
            (OPEN, MORE),
            "add+prod needs fewer parameters than add under none of the 2 recipes tried: more under 1 (b), "
            "undecided under 1 (a)",
        ),
    ],
)
def test_the_sentence_names_the_recipes(found: tuple[Synergy, ...], said: str) -> None:
    assert sentence(Finding("add+prod", "add", dict(zip("abcd", found, strict=False)))) == said


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (FEWER, "2.8x fewer [2.2, 3.6]"),
        (ONE_SIDED, ">= 2.3x fewer"),
        (MORE, "2.0x more [1.2, 3.3]"),
        (OPEN, "undecided: 1.5x fewer to 1.2x more"),
        (Synergy(None, None, 0.7, decided=True), ">= 1.4x more"),
        (NOTHING, "undecided: no transition to compare"),
        (Synergy(1.3, None, None, decided=False), "undecided: 1.3x fewer, without an interval"),
    ],
)
def test_a_saving_says_its_interval_and_what_follows(found: Synergy, said: str) -> None:
    assert wording.saving(found) == said


@pytest.fixture(scope="module")
def asked_twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answer, str, Path]:
    """A sweep of the outside family whose mix helps under one recipe and not under the other."""
    home, console = tmp_path_factory.mktemp("home"), quiet()
    asked = spec(recipes={"helps": {}, "alone": {"curve": {"help": 0.0}}}, search={"method": "bayes"}, seeds=3)
    return run_sweep(asked, RunOptions(home=home, local_debug=True), console), printed(console), home


def test_a_sweep_over_recipes_says_where_the_finding_holds(asked_twice: tuple[Answer, str, Path]) -> None:
    answer, said, _ = asked_twice
    assert "target add, under 2 recipes: transitions at 80% of" in said
    assert "fewer parameters than add under 1 of 2 recipes tried (helps): undecided under 1 (alone)" in said
    assert "of the variance of ln units at the transition: recipe" in said
    several = panel(answer)
    assert several is not None
    assert several.variation is not None
    assert several.variation.both.value > several.variation.seeds.value


def test_each_recipe_has_its_rows(asked_twice: tuple[Answer, str, Path]) -> None:
    answer = asked_twice[0]
    rows = [row.cells[0].strip() for row in table.answer_table(answer).rows]
    assert rows == ["recipe helps", "add", "add+prod", "recipe alone", "add", "add+prod"]
    assert Answer.from_json(answer.to_json()) == answer


def test_an_answer_of_one_recipe_says_so_and_has_no_panel(asked_twice: tuple[Answer, str, Path]) -> None:
    alone = asked_twice[0].under("helps")
    assert panel(alone) is None
    assert table.answer_table(alone).conclusions[0].endswith("at this recipe")


def test_the_figure_has_a_row_a_recipe(asked_twice: tuple[Answer, str, Path]) -> None:
    answer = asked_twice[0]
    figure = main_figure(spec(recipes={"helps": {}, "alone": {"curve": {"help": 0.0}}}), answer)
    assert [axes.get_title(loc="left") for axes in figure.axes[::2]] == ["helps", "alone"]
    assert len(figure.axes) == 4
    one = main_figure(spec(), replace(answer.under("helps"), recipes=()))
    assert len(one.axes) < 4


def test_the_report_shows_the_panel(asked_twice: tuple[Answer, str, Path]) -> None:
    (page,) = asked_twice[2].glob("sweeps/*/report.html")
    text = page.read_text()
    assert "under 1 of 2 recipes tried" in text
    assert "recipe alone" in text


def test_recipes_of_one_mix_are_drawn_and_told_without_a_comparison(tmp_path: Path) -> None:
    console = quiet()
    asked = spec(mixes=["add"], recipes={"helps": {}, "alone": {"curve": {"help": 0.0}}}, sizes=[16], seeds=2)
    answer = run_sweep(asked, RunOptions(home=tmp_path, local_debug=True), console)
    several = panel(answer)
    assert several is not None
    assert several.findings == ()
    figure = main_figure(asked, answer)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["helps", "alone"]
    assert "recipe alone" in printed(console)
    assert "under 2 recipes" in printed(console)
    (page,) = tmp_path.glob("sweeps/*/report.html")
    assert "recipe alone" in page.read_text()
