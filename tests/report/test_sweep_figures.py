"""Embedding panels, learning curves and the forest plot: their contents and the runs they show."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection

from orchestrator.catalogue.reading import StoredSweep, read_sweep
from orchestrator.home.files import Home
from orchestrator.report.figures import style
from orchestrator.report.figures.comparisons import forest_figure
from orchestrator.report.figures.panels import learning_figure
from orchestrator.report.figures.similarity import pairs, similarities_figure
from orchestrator.report.side_by_side import Compared
from orchestrator.report.table import comparison_rows
from orchestrator.transition.types import Estimate, Verdict
from tests.catalogue.fabricated import failed, runs_of, write_sweep
from tests.golden.test_answers import FEWER
from tests.report.samples import NOWHERE, make_answer, transition
from tests.report.test_figures import texts
from tests.sweep.sweeps import spec


@pytest.fixture(scope="module", name="stored")
def stored_sweep(tmp_path_factory: pytest.TempPathFactory) -> StoredSweep:
    home = Home(tmp_path_factory.mktemp("figures"))
    return read_sweep(home, write_sweep(home).id)


def test_shown_runs_are_on_both_sides_of_the_interval(stored: StoredSweep) -> None:
    for pair in pairs(stored.answer, stored.runs):
        interval = stored.answer.mix(pair.mix).target.transition.relative
        assert pair.below is not None
        assert pair.above is not None
        assert interval.low is not None
        assert interval.high is not None
        assert pair.below.config.size <= interval.low
        assert pair.above.config.size >= interval.high
        assert pair.below.config.mix.name == pair.mix


def test_without_a_transition_the_smallest_and_largest_sizes_are_shown(tmp_path: Path) -> None:
    home = Home(tmp_path)
    runs = [run for run in runs_of(spec()) if run.size in (8, 12)]
    stored = read_sweep(home, write_sweep(home, spec(sizes=[8, 12]), runs=runs).id)
    for pair in pairs(stored.answer, stored.runs):
        assert pair.below is not None
        assert pair.above is not None
        assert (pair.below.config.size, pair.above.config.size, pair.bracketed) == (8, 12, False)


def test_panels_name_size_and_accuracy_and_share_a_scale(stored: StoredSweep) -> None:
    figure = similarities_figure(stored.answer, stored.runs)
    assert figure is not None
    text = texts(figure) + "".join(axes.get_title(loc="left") for axes in figure.axes)
    assert re.search(r"add\+prod, above: units \d+\nseed \d+, add \d\.\d\d", text)
    assert "cosine similarity" in text
    assert "PC 1 (" in text
    assert {image.get_clim() for axes in figure.axes for image in axes.images} == {(-1.0, 1.0)}


def test_without_embeddings_there_are_no_panels(tmp_path: Path) -> None:
    home = Home(tmp_path)
    stored = read_sweep(home, write_sweep(home, runs=runs_of(spec())[:1], outcomes={0: failed()}).id)
    assert similarities_figure(stored.answer, stored.runs) is None


def test_every_run_has_a_learning_curve_that_ends_in_its_score(stored: StoredSweep) -> None:
    figure = learning_figure(stored.spec, stored.runs, "title")
    panels = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in panels] == ["add", "add+prod"]
    lines = [
        segment
        for axes in panels
        for collection in axes.collections
        if isinstance(collection, LineCollection)
        for segment in collection.get_segments()
    ]
    dots = [scatter for axes in panels for scatter in axes.collections if isinstance(scatter, PathCollection)]
    assert len(lines) == len(stored.runs)
    assert sum(len(np.asarray(scatter.get_offsets())) for scatter in dots) == len(stored.runs)
    assert "steps" in texts(figure)


def test_learning_curves_of_a_single_size_have_no_color_bar(tmp_path: Path) -> None:
    home, wanted = Home(tmp_path), spec(sizes=[8])
    stored = read_sweep(home, write_sweep(home, wanted, runs=runs_of(wanted)).id)
    assert wanted.size_axis not in texts(learning_figure(stored.spec, stored.runs))
    assert spec().size_axis in texts(learning_figure(spec(), stored.runs))


def test_the_forest_plot_has_a_row_per_mix_and_arrows_for_open_ends() -> None:
    located = transition(Verdict.FOUND, Estimate(20.0, 18.0, 24.0))
    above = transition(Verdict.ABOVE, Estimate(None, 64.0, None))
    answer = make_answer(above, located, FEWER)
    compared = [Compared("one", answer), Compared("two", answer)]
    rows = comparison_rows(compared)
    assert [(row.label, row.mix) for row in rows] == [
        ("one", "add"),
        ("one", "add+prod"),
        ("two", "add"),
        ("two", "add+prod"),
    ]
    assert rows[1].size_words == "20 [18, 24]"
    assert rows[1].compared == "fewer parameters (80:1)"
    figure = forest_figure(compared, "title")
    (axes,) = figure.axes
    markers = [line.get_marker() for line in axes.lines]
    assert markers.count(">") == 2
    assert markers.count("<") == 0
    text = texts(figure)
    for part in (
        "one",
        "two",
        "above 640",
        "200 [180, 240]",
        "trainable parameters",
        "add+prod vs add",
        "fewer parameters (80:1)",
    ):
        assert part in text


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_forest_plot_draws_every_verdict(verdict: Verdict, tmp_path: Path) -> None:
    estimate = transition(verdict, NOWHERE)
    answer = make_answer(estimate, estimate)
    path = style.save(forest_figure([Compared("only", answer)]), tmp_path / "forest.png")
    assert path.stat().st_size > 5000


def test_inline_figures_have_unique_ids(stored: StoredSweep) -> None:
    first, again, other = (
        style.inline_svg(learning_figure(stored.spec, stored.runs), name, "a <label>") for name in ("a", "a", "b")
    )
    assert first == again
    assert first.startswith("<svg ")
    assert first.rstrip().endswith("</svg>")
    ids, others = (set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (first, other))
    assert ids
    assert not ids & others
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', first)) <= ids
    assert "<text" in first, "text stays text"
    assert 'aria-label="a &lt;label&gt;"' in first
    assert "#262626" not in first, "ink is the page's"


def test_an_interval_open_on_both_sides_has_no_solid_point() -> None:
    both = transition(Verdict.FOUND, Estimate(14.0, None, None))
    answer = make_answer(both, both)
    (axes,) = forest_figure([Compared("one", answer)]).axes
    at = [line for line in axes.lines if list(np.asarray(line.get_xdata())) == [140.0]]
    assert [line.get_markerfacecolor() for line in at] == ["white", "white"]


def test_notebooks_display_figures_automatically(stored: StoredSweep) -> None:
    figure = learning_figure(stored.spec, stored.runs)
    assert isinstance(figure, style.Picture)
    assert figure._repr_png_().startswith(b"\x89PNG")
