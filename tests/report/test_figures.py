"""Figures: their contents, and that files are complete."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from orchestrator.report.answer import Answer, answer
from orchestrator.report.figures.similarity import similarity_figure
from orchestrator.report.figures.style import save, save_both
from orchestrator.report.figures.transitions import CURVE_SIZES, transitions_figure
from orchestrator.transition.types import Density, Estimate, Point, Verdict
from tests.report.samples import NOWHERE, bracketed, compared, in_order, make_answer, make_spec, transition


@pytest.fixture(scope="module", name="answer")
def bracketed_answer() -> Answer:
    return answer(make_spec(), bracketed(), blocks=in_order(make_spec()))


def texts(figure: Figure) -> str:
    figure.draw_without_rendering()
    parts = [figure.get_suptitle()]
    for axes in [*figure.axes, *(child for owner in figure.axes for child in owner.child_axes)]:
        ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
        parts += [text.get_text() for text in (*axes.texts, axes.xaxis.label, axes.yaxis.label, *ticks)]
    return "\n".join(parts)


def points(figure: Figure) -> int:
    scatters = [scatter for axes in figure.axes for scatter in axes.collections if isinstance(scatter, PathCollection)]
    return sum(len(np.asarray(scatter.get_offsets())) for scatter in scatters)


def test_every_run_is_a_point_and_every_transition_is_labelled(answer: Answer) -> None:
    figure = transitions_figure(answer, make_spec().question)
    assert points(figure) == len(bracketed())
    text = texts(figure)
    for mix in answer.mixes:
        value = mix.target.transition.relative.value
        assert value is not None
        assert f"{value:.1f} [" in text
        assert mix.mix in text
    assert "test accuracy of add" in text
    assert "size (units)\nbars: transition" in text
    assert "\nparameters\n" in text
    assert "\nbest constant answer\n" in text
    assert make_spec().question in text


def test_equally_accurate_runs_are_drawn_side_by_side() -> None:
    runs = [Point(16, seed, 0.99, 0.1) for seed in range(5)] + [Point(32, 0, 0.99, 0.1), Point(32, 1, 0.2, 0.1)]
    above = replace(transition(Verdict.ABOVE), points=tuple(runs))
    figure = transitions_figure(make_answer(above, above))
    first, second = [dots for dots in figure.axes[0].collections if len(np.asarray(dots.get_offsets())) == len(runs)]
    places = [(float(x), float(y)) for dots in (first, second) for x, y in np.asarray(dots.get_offsets())]
    assert len(set(places)) == len(places), "no run covers another, not even of another mix"
    crowd = [x for x, _ in places if x < 24]
    assert np.exp(np.mean(np.log(crowd))) == pytest.approx(16)
    assert 16 / 2**0.25 < min(crowd) < 16 < max(crowd) < 16 * 2**0.25


def test_the_curve_agrees_with_the_reported_transition(answer: Answer) -> None:
    """The curve passes 80% of its asymptote at the reported transition, within its own band."""
    figure = transitions_figure(answer)
    for mix in answer.mixes:
        estimate = mix.target.transition
        low, high = answer.tested(estimate)
        curve = answer.curve(estimate, np.geomspace(low.size, high.size, CURVE_SIZES).tolist())
        value = estimate.relative.value
        assert curve is not None
        assert value is not None
        assert np.interp(np.log(value), np.log(curve.sizes), curve.middle) == pytest.approx(estimate.level, abs=0.02)
        assert all(low <= middle <= high for low, middle, high in zip(curve.low, curve.middle, curve.high, strict=True))
        assert [curve.sizes[0], curve.sizes[-1]] == pytest.approx([8, 128])
        drawn = [line for line in figure.axes[0].lines if len(np.asarray(line.get_xdata())) == len(curve.sizes)]
        assert any(np.asarray(line.get_ydata(), float) == pytest.approx(curve.middle) for line in drawn)
    assert figure.axes[0].get_xscale() == "log"


def test_a_decided_comparison_is_drawn_as_an_arrow(answer: Answer) -> None:
    figure = transitions_figure(answer)
    (arrow,) = [text for text in figure.axes[1].texts if getattr(text, "arrow_patch", None) is not None]
    assert isinstance(arrow, Annotation)
    values = [mix.target.transition.relative.value for mix in answer.mixes]
    # In Matplotlib the arrow belongs to the text, which is placed at its start.
    assert [arrow.xyann[0], arrow.xy[0]] == pytest.approx(values)


def test_an_undecided_comparison_has_no_arrow() -> None:
    alone, helped = (transition(Verdict.FOUND, Estimate(value, 8.0, 64.0)) for value in (33.0, 20.0))
    open_answer = make_answer(alone, helped, compared([(20, True, False)]))
    below = transitions_figure(open_answer).axes[1]
    assert not [text for text in below.texts if getattr(text, "arrow_patch", None) is not None]
    assert not [line for line in below.lines if sorted(np.asarray(line.get_xdata())) == [20.0, 33.0]]
    assert [tick.get_text() for tick in below.get_yticklabels()] == ["add", "add+prod"], "no empty row for a ratio"


def test_names_are_outside_the_panel_and_there_is_no_legend(answer: Answer) -> None:
    figure = transitions_figure(answer)
    assert all(axes.get_legend() is None for axes in figure.axes)
    figure.draw_without_rendering()
    right = figure.axes[0].get_window_extent().x1
    named = {text.get_text(): text for text in figure.axes[0].texts}
    assert all(named[mix.mix].get_window_extent().x0 > right for mix in answer.mixes)


@pytest.mark.parametrize(
    ("verdict", "relative", "label"),
    [
        (Verdict.ABOVE, Estimate(None, 64.0, None), "above 64"),
        (Verdict.BELOW, Estimate(None, None, 8.0), "below 8"),
        (Verdict.UNDECIDED, Estimate(None, 16.0, None), "undecided, at least 16"),
        (Verdict.UNDECIDED, NOWHERE, "undecided"),
    ],
)
def test_open_transitions_are_drawn_and_named(verdict: Verdict, relative: Estimate, label: str, tmp_path: Path) -> None:
    unsure = replace(transition(verdict, relative), density=Density((8.0, 16.0, 32.0), (0.2, 0.3, 0.1), 0.4))
    answer = make_answer(unsure, unsure)
    figure = transitions_figure(answer)
    assert len(figure.axes[1].collections) == (2 if verdict is Verdict.UNDECIDED else 0), "shades within the sizes"
    assert answer.curve(unsure, [16.0]) is None
    assert max(len(np.asarray(line.get_xdata())) for line in figure.axes[0].lines) <= 2  # Only the line of the floor.
    assert label in texts(figure).splitlines()
    arrows = [line.get_marker() for line in figure.axes[1].lines if line.get_marker() in ("<", ">")]
    assert (
        set(arrows)
        == {
            Verdict.ABOVE: {">"},
            Verdict.BELOW: {"<"},
            Verdict.UNDECIDED: {">"} if relative.low else {"<", ">"},
        }[verdict]
    )
    assert save(figure, tmp_path / "figure.png").stat().st_size > 10_000


def test_png_and_svg_are_complete_and_reproducible(tmp_path: Path) -> None:
    figure = similarity_figure(np.eye(6), "add, n_embed 8")
    png, svg = save_both(figure, tmp_path / "new", "similarity")
    image = matplotlib.image.imread(png)
    assert image.shape[1] == 1120
    assert image[..., :3].std() > 0.05
    assert svg.read_text().rstrip().endswith("</svg>")
    assert sorted(path.name for path in png.parent.iterdir()) == ["similarity.png", "similarity.svg"]
    again = save(similarity_figure(np.eye(6), "add, n_embed 8"), tmp_path / "again.png")
    assert again.read_bytes() == png.read_bytes()


def test_long_names_leave_room_for_the_sizes(answer: Answer) -> None:
    long = replace(answer.mixes[1], mix="max+med, then add on its embeddings")
    figure = transitions_figure(replace(answer, mixes=(answer.mixes[0], long)))
    figure.draw_without_rendering()
    (above,) = figure.axes[0].child_axes
    for axes in (above, figure.axes[1]):
        boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        assert len(boxes) > 3
        assert all(box.x1 < other.x0 for box, other in pairwise(boxes))
    assert figure.axes[0].get_window_extent().width > 0.5 * figure.bbox.width
