"""Figures: their contents, the runs that they show, and that files are complete and readable."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from orchestrator.catalog.export import page_of
from orchestrator.catalog.reading import StoredSweep
from orchestrator.history.sweeps import create_sweep
from orchestrator.home.array_files import packed_arrays
from orchestrator.home.directories import Home
from orchestrator.home.run_files import ARRAYS
from orchestrator.report.answer import Answer, answer
from orchestrator.report.figures import learning_curves, style
from orchestrator.report.figures.comparisons import caption, forest_figure, main_figure
from orchestrator.report.figures.learning_curves import learning_figure
from orchestrator.report.figures.probes import MOST_ROWS, SimilarityReader, runs_around, similarities_figure
from orchestrator.report.figures.style import save, save_both
from orchestrator.report.figures.transitions import CURVE_SIZES, transitions_figure
from orchestrator.report.side_by_side import LabeledAnswer
from orchestrator.transition.types import Density, Estimate, Point, Verdict
from tests.catalog.fabricated import failed, runs_of
from tests.golden.test_answers import FEWER
from tests.report.samples import NOWHERE, bracketed, compared, in_order, make_answer, make_spec, transition, written
from tests.sweep.sweeps import spec

ROOT = Path(__file__).resolve().parents[2]


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
        assert f"{mix.target.transition.relative.value:.1f} [" in text
        assert mix.mix in text
    parts = ("test accuracy of add", "size (units)\nbars: transition", "\nparameters\n", "\nbest constant answer\n")
    assert all(part in text for part in (*parts, make_spec().question))


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
    axes = transitions_figure(answer).axes[0]
    for mix in answer.mixes:
        estimate = mix.target.transition
        curve = answer.curve(estimate, np.geomspace(8, 128, CURVE_SIZES).tolist())
        assert curve is not None
        assert estimate.relative.value is not None
        level = np.interp(np.log(estimate.relative.value), np.log(curve.sizes), curve.middle)
        assert level == pytest.approx(estimate.level, abs=0.02)
        assert all(low <= middle <= high for low, middle, high in zip(curve.low, curve.middle, curve.high, strict=True))
        assert [curve.sizes[0], curve.sizes[-1]] == pytest.approx([8, 128])
        drawn = [np.asarray(line.get_ydata(), float) for line in axes.lines]
        assert any(len(line) == len(curve.middle) and line == pytest.approx(curve.middle) for line in drawn)
    assert axes.get_xscale() == "log"


def test_a_decided_comparison_is_drawn_as_an_arrow(answer: Answer) -> None:
    figure = transitions_figure(answer)
    (arrow,) = [text for text in figure.axes[1].texts if getattr(text, "arrow_patch", None) is not None]
    assert isinstance(arrow, Annotation)
    values = [mix.target.transition.relative.value for mix in answer.mixes]
    # In Matplotlib the arrow belongs to the text, which is placed at its start.
    assert [arrow.xyann[0], arrow.xy[0]] == pytest.approx(values)
    alone, helped = (transition(Verdict.FOUND, Estimate(value, 8.0, 64.0)) for value in (33.0, 20.0))
    below = transitions_figure(make_answer(alone, helped, compared([(20, True, False)]))).axes[1]
    assert [tick.get_text() for tick in below.get_yticklabels()] == ["add", "add+prod"], "an open one has no row"


@pytest.mark.parametrize(
    ("verdict", "relative", "label", "arrows"),
    [
        (Verdict.ABOVE, Estimate(None, 64.0, None), "above 64", {">"}),
        (Verdict.BELOW, Estimate(None, None, 8.0), "below 8", {"<"}),
        (Verdict.UNDECIDED, Estimate(None, 16.0, None), "at least 16", {">"}),
        (Verdict.UNDECIDED, NOWHERE, "learned at 8", {"<", ">"}),
    ],
)
def test_open_transitions_are_drawn_and_named(
    verdict: Verdict, relative: Estimate, label: str, arrows: set[str]
) -> None:
    unsure = replace(transition(verdict, relative), density=Density((8.0, 16.0, 32.0), (0.2, 0.3, 0.1), 0.4))
    answer = make_answer(unsure, unsure)
    figure = transitions_figure(answer)
    assert len(figure.axes[1].collections) == (2 if verdict is Verdict.UNDECIDED else 0), "shades within the sizes"
    assert answer.curve(unsure, [16.0]) is None
    assert max(len(np.asarray(line.get_xdata())) for line in figure.axes[0].lines) <= 2  # Only the line of the floor.
    assert label in texts(figure).splitlines()
    assert {line.get_marker() for line in figure.axes[1].lines} & {"<", ">"} == arrows


def test_png_and_svg_are_complete_and_reproducible(answer: Answer, tmp_path: Path) -> None:
    png, svg = save_both(main_figure(answer), tmp_path / "new", "main")
    image = matplotlib.image.imread(png)
    assert image.shape[1] == 1120
    assert image[..., :3].std() > 0.05
    assert svg.read_text().rstrip().endswith("</svg>")
    assert sorted(path.name for path in png.parent.iterdir()) == ["main.png", "main.svg"]
    again = save(main_figure(answer), tmp_path / "again.png")
    assert again.read_bytes() == png.read_bytes()


def test_names_are_drawn_as_written(tmp_path: Path) -> None:
    """``$`` does not begin TeX."""
    question, axis = "Does $\\frac{ cost $5 or $6?", "$_{x"
    drawn = answer(make_spec(), bracketed(), blocks=in_order(make_spec()))
    figure = main_figure(replace(drawn, size_axis=axis), question)
    save_both(figure, tmp_path, "figure")
    assert question in texts(figure)
    assert axis in texts(figure)


def test_letters_that_the_font_lacks_cause_no_warning(tmp_path: Path) -> None:
    """In a process of its own, because pytest replaces the filters of warnings."""
    code = f"""
from pathlib import Path
from orchestrator.report.figures.style import new_figure, save, title
figure = new_figure(1.0)
figure.subplots()
title(figure, "\u65e5\u672c")
save(figure, Path({str(tmp_path / "figure.png")!r}))
"""
    drawn = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert drawn.stderr == ""


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


@pytest.mark.parametrize("width", [3.3, 7.0])
def test_text_is_readable_and_inside_the_figure(answer: Answer, width: float) -> None:
    figure = main_figure(answer, width_in=width)
    figure.draw_without_rendering()
    assert figure.get_figwidth() == width
    texts = [text for axes in figure.axes for text in axes.texts if text.get_text()]
    assert min(float(text.get_fontsize()) for text in texts) >= 7.5
    assert all(
        figure.bbox.padded(1).contains(*corner) for text in texts for corner in text.get_window_extent().corners()
    )
    if width == 3.3:
        assert figure.get_figheight() < 4.2
    words = [text.get_window_extent() for text in figure.axes[1].texts]
    assert not any(box.overlaps(other) for place, box in enumerate(words) for other in words[place + 1 :])


def test_fonts_are_embedded(answer: Answer, tmp_path: Path) -> None:
    pdf = save(main_figure(answer, width_in=3.3), tmp_path / "figure.pdf").read_bytes()
    svg = save(main_figure(answer, width_in=3.3), tmp_path / "figure.svg").read_text()
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    box = re.search(rb"/MediaBox \[ ([\d. ]+) \]", pdf)
    assert box is not None
    assert np.fromstring(box[1].decode(), sep=" ")[2] == pytest.approx(3.3 * 72, abs=0.5)
    assert "test accuracy of add</text>" in svg


def test_the_caption_names_the_sweep(answer: Answer, tmp_path: Path) -> None:
    sweep = create_sweep(spec(question="Does 100 % of A_1 help?"), Home(tmp_path))
    text = caption(sweep, answer)
    assert text.startswith("Does 100 % of A_1 help? Test accuracy of add")
    assert f"{len(bracketed())} runs" in text
    assert sweep.id in text


@pytest.fixture(scope="module", name="stored")
def stored_sweep(tmp_path_factory: pytest.TempPathFactory) -> StoredSweep:
    return written(tmp_path_factory.mktemp("figures"))


def test_shown_runs_are_on_both_sides_of_the_interval(stored: StoredSweep) -> None:
    for mix in stored.answer.mixes:
        sides, interval = runs_around(stored.answer, mix, stored.runs), mix.target.transition.relative
        below, above = (run for run in (sides.below, sides.above) if run is not None)
        assert interval.low is not None
        assert interval.high is not None
        assert below.config.size <= interval.low < interval.high <= above.config.size
        assert below.config.mix.name == sides.mix


def test_without_a_transition_the_smallest_and_largest_sizes_are_shown(tmp_path: Path) -> None:
    stored = written(tmp_path, spec(sizes=[8, 12]))
    for mix in stored.answer.mixes:
        sides = runs_around(stored.answer, mix, stored.runs)
        assert [run.config.size for run in (sides.below, sides.above) if run is not None] == [8, 12]
        assert not sides.bracketed
    stored = written(tmp_path / "failed", runs=runs_of(spec())[:1], outcomes={0: failed()})
    assert similarities_figure(stored.answer, stored.runs) is None, "no run has embeddings"


def test_panels_name_size_and_accuracy_and_share_a_scale(stored: StoredSweep) -> None:
    figure = similarities_figure(stored.answer, stored.runs)
    assert figure is not None
    text = texts(figure) + "".join(axes.get_title(loc="left") for axes in figure.axes)
    assert re.search(r"add\+prod, above: units \d+\nseed \d+, add \d\.\d\d", text)
    assert "cosine similarity" in text
    assert "PC 1 (" in text
    assert {image.get_clim() for axes in figure.axes for image in axes.images} == {(-1.0, 1.0)}


def with_similarities(tmp_path: Path, *matrices: np.ndarray[Any, np.dtype[Any]], **changes: Any) -> StoredSweep:
    """Write a sweep whose runs have these similarities in turn. Later runs keep the last one."""
    sweep = written(tmp_path, spec(**changes))
    for place, run in enumerate(sweep.runs):
        matrix = matrices[min(place, len(matrices) - 1)]
        (run.directory / ARRAYS).write_bytes(packed_arrays({"similarity": matrix}))
    return sweep


def test_similarities_of_too_many_items_are_named_and_not_drawn(tmp_path: Path) -> None:
    sweep = with_similarities(tmp_path, np.eye(3000, dtype=np.float16), mixes=["add"], sizes=[8], seeds=1)
    begun = time.process_time()
    reader = SimilarityReader()
    assert similarities_figure(sweep.answer, sweep.runs, reader) is None
    assert time.process_time() - begun < 5
    key = sweep.runs[0].key
    note = f"The similarities of 1 run ({key}) are not drawn: they are of 3,000 items, and a panel has room for 256."
    assert reader.notes() == [note]
    assert note in page_of(sweep)


def test_similarities_that_cannot_be_drawn_are_grouped_by_their_reason(tmp_path: Path) -> None:
    huge, flat, good = np.full((4, 4), 1e308), np.ones(4), np.eye(256)
    sweep = with_similarities(tmp_path, huge, huge, flat, good, mixes=["add"], sizes=[8, 16], seeds=2)
    reader = SimilarityReader()
    figure = similarities_figure(sweep.answer, sweep.runs, reader)
    assert figure is not None
    assert sum(len(axes.images) for axes in figure.axes) == 1
    one, two, three, _ = (run.key for run in sweep.runs)
    assert reader.notes() == [
        f"The similarities of 2 runs ({one}, {two}) are not drawn: they are not from -1e+100 to 1e+100.",
        f"The similarities of 1 run ({three}) are not drawn: they are not a square matrix of numbers.",
    ]


def test_a_figure_of_similarities_has_room_for_some_mixes(tmp_path: Path) -> None:
    mixes = ["add", *(f"add:{weight}+prod" for weight in range(2, MOST_ROWS + 4))]
    sweep = with_similarities(tmp_path, np.eye(3), mixes=mixes, sizes=[8], seeds=1)
    reader = SimilarityReader()
    figure = similarities_figure(sweep.answer, sweep.runs, reader)
    assert figure is not None
    assert sum(len(axes.images) for axes in figure.axes) == MOST_ROWS
    room = "the figure has room for 20 mixes, and leaves out 3."
    assert reader.notes() == [f"Similarities are drawn for the first mixes only: {room}"]


def test_a_figure_of_many_mixes_has_curves_of_the_first(stored: StoredSweep, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep of somebody else may have 500, which would take minutes to draw."""
    monkeypatch.setattr(learning_curves, "MOST_PANELS", 1)
    figure = learning_figure(stored.spec, stored.runs, "title")
    assert [title for axes in figure.axes if (title := axes.get_title(loc="left"))] == ["add"]
    assert "title, the first 1 of 2 mixes" in texts(figure)


def test_every_run_has_a_learning_curve_that_ends_in_its_score(stored: StoredSweep) -> None:
    figure = learning_figure(stored.spec, stored.runs, "title")
    panels = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in panels] == ["add", "add+prod"]
    drawn = [collection for axes in panels for collection in axes.collections]
    lines = [len(lines.get_segments()) for lines in drawn if isinstance(lines, LineCollection)]
    assert sum(lines) == points(figure) == len(stored.runs)
    assert "steps" in texts(figure)
    assert isinstance(figure, style.Picture)
    assert figure._repr_png_().startswith(b"\x89PNG"), "notebooks display it"


def test_the_forest_plot_has_a_row_per_mix_and_arrows_for_open_ends() -> None:
    located = transition(Verdict.FOUND, Estimate(20.0, 18.0, 24.0))
    above = transition(Verdict.ABOVE, Estimate(None, 64.0, None))
    answer = make_answer(above, located, FEWER)
    compared = [LabeledAnswer("one", answer), LabeledAnswer("two", answer)]
    figure = forest_figure(compared, "title")
    (axes,) = figure.axes
    markers = [line.get_marker() for line in axes.lines]
    assert (markers.count(">"), markers.count("<")) == (2, 0)
    named = ("one", "two", "above 640", "200 [180, 240]", "trainable parameters", "add+prod vs add")
    assert all(part in texts(figure) for part in (*named, "fewer parameters (80:1)"))


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_forest_plot_draws_every_verdict(verdict: Verdict, tmp_path: Path) -> None:
    estimate = transition(verdict, NOWHERE)
    figure = forest_figure([LabeledAnswer("only", make_answer(estimate, estimate))])
    assert save(figure, tmp_path / "forest.png").stat().st_size > 5000


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
    (axes,) = forest_figure([LabeledAnswer("one", answer)]).axes
    at = [line for line in axes.lines if list(np.asarray(line.get_xdata())) == [140.0]]
    assert [line.get_markerfacecolor() for line in at] == ["white", "white"]


def test_a_matplotlibrc_does_not_change_figures(stored: StoredSweep) -> None:
    def drawn() -> list[str]:
        similarities = similarities_figure(stored.answer, stored.runs)
        assert similarities is not None
        figures = [main_figure(stored.answer), learning_figure(stored.spec, stored.runs), similarities]
        return [style.inline_svg(figure, "one", "a figure") for figure in figures]

    undisturbed = drawn()
    mine: dict[Any, Any] = {"text.usetex": True, "savefig.bbox": "tight", "font.family": "cursive"}
    with matplotlib.rc_context(mine):
        before = dict(matplotlib.rcParams)
        assert drawn() == undisturbed
        assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("module", ["figures.style", "page.report"])
@pytest.mark.parametrize("content", [None, b"lines.linewidth: \xff", b"bad.\x1b]0;key: 1", b"lines.linewidth: 77"])
def test_a_matplotlibrc_that_is_not_plain_text_is_not_read(content: bytes | None, module: str, tmp_path: Path) -> None:
    if content is None:
        os.mkfifo(tmp_path / "matplotlibrc")
    else:
        (tmp_path / "matplotlibrc").write_bytes(content)
    line = [sys.executable, "-c", f"import orchestrator.report.{module}"]
    ended = subprocess.run(
        line, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
    )
    if content == b"lines.linewidth: 77":
        assert (ended.returncode, ended.stderr) == (0, "")
    else:
        path = tmp_path / "matplotlibrc"
        assert f"UserError: {path} is not a plain text file, but matplotlib reads it: rename it, or" in ended.stderr


def test_a_missing_backend_does_not_prevent_drawing(tmp_path: Path) -> None:
    (tmp_path / "rc").write_text("backend: TkAgg\nlines.linewidth: 77\n")
    code = (
        "from orchestrator.report.figures import style\nimport matplotlib\n"
        f"style.save(style.new_figure(1.0), __import__('pathlib').Path({str(tmp_path / 'figure.png')!r}))\n"
    )
    chosen = {"MPLBACKEND": "module://no_such_package.backend", "MATPLOTLIBRC": str(tmp_path / "rc")}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=os.environ | chosen, check=True, timeout=120)
    assert (tmp_path / "figure.png").is_file()
