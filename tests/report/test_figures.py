"""Figures: what is drawn, and that it arrives on disk whole."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.collections import Collection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from orchestrator.report.answer import Answer, answer
from orchestrator.report.figures import curve_figure, curve_of, save, save_both, similarity_figure, transitions_figure
from orchestrator.report.labels import placed
from orchestrator.report.looks import looks, looks_of
from orchestrator.report.plane import principal_components, residue_classes
from orchestrator.report.similarity import SimilarityPicture
from orchestrator.transition.types import Estimate, Point, Synergy, Verdict
from tests.report.samples import NOWHERE, bracketed, make_answer, make_spec, transition


@pytest.fixture(scope="module", name="found")
def bracketed_answer() -> Answer:
    return answer(make_spec(), bracketed())


def texts(figure: Figure) -> str:
    figure.draw_without_rendering()
    found = [figure.get_suptitle()]
    for axes in [*figure.axes, *(child for owner in figure.axes for child in owner.child_axes)]:
        ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
        found += [text.get_text() for text in (*axes.texts, axes.xaxis.label, axes.yaxis.label, *ticks)]
    return "\n".join(found)


def hexes(drawn: Collection) -> list[str]:
    """The colours of the edges of what was drawn."""
    return [to_hex(tuple(rgba)).upper() for rgba in np.asarray(drawn.get_edgecolor(), float)]


def points(figure: Figure) -> int:
    scatters = [each for axes in figure.axes for each in axes.collections if isinstance(each, PathCollection)]
    return sum(len(np.asarray(scatter.get_offsets())) for scatter in scatters)


def test_every_run_is_a_point_and_every_transition_is_said(found: Answer) -> None:
    figure = transitions_figure(make_spec(), found)
    assert points(figure) == len(bracketed())
    said = texts(figure)
    for mix in found.mixes:
        value = mix.target.transition.relative.value
        assert value is not None
        assert f"{value:.1f} [" in said
        assert mix.mix in said
    assert "test accuracy of add" in said
    assert "units" in said
    assert "\nparameters\n" in said
    assert "best constant answer to add" in said
    assert make_spec().question in said


def test_runs_that_are_as_accurate_stand_side_by_side() -> None:
    runs = [Point(16, seed, 0.99, 0.1) for seed in range(5)] + [Point(32, 0, 0.99, 0.1), Point(32, 1, 0.2, 0.1)]
    told = replace(transition(Verdict.ABOVE), points=tuple(runs))
    figure = transitions_figure(make_spec(), make_answer(told, told, Synergy(None, None, None, decided=False)))
    (first, *_) = [each for each in figure.axes[0].collections if isinstance(each, PathCollection)]
    *crowd, alone, other = (float(x) for x, _ in np.asarray(first.get_offsets()))
    assert [alone, other] == [32, 32]
    assert len(set(crowd)) == 5
    assert np.exp(np.mean(np.log(crowd))) == pytest.approx(16)
    assert 16 / 2**0.25 < min(crowd) < 16 < max(crowd) < 16 * 2**0.25


def test_a_long_question_is_wrapped(found: Answer) -> None:
    question = "Which of the easy tasks lets a smaller model learn addition, and by how many parameters? " * 2
    figure = transitions_figure(make_spec(question=question), found)
    figure.draw_without_rendering()
    title = figure.get_suptitle()
    assert title.split() == question.split()
    assert all(len(line) <= 84 for line in title.splitlines())
    (drawn,) = [text for text in figure.texts if text.get_text() == title]
    assert drawn.get_window_extent().x1 <= figure.bbox.x1


def test_curve_and_mark_are_one_estimator(found: Answer) -> None:
    """The curve passes 80 % of its asymptote where the transition is said to lie, within its own band."""
    figure = transitions_figure(make_spec(), found)
    for mix in found.mixes:
        told = mix.target.transition
        curve, value = curve_of(found, told), told.relative.value
        assert curve is not None
        assert value is not None
        assert curve.at(value) == pytest.approx(curve.level, abs=0.02)
        assert all(low <= middle <= high for low, middle, high in zip(curve.low, curve.middle, curve.high, strict=True))
        assert [curve.sizes[0], curve.sizes[-1]] == pytest.approx([8, 128])
        drawn = [line for line in figure.axes[0].lines if len(np.asarray(line.get_xdata())) == len(curve.sizes)]
        assert any(np.asarray(line.get_ydata(), float) == pytest.approx(curve.middle) for line in drawn)
        (mark,) = [line for line in figure.axes[0].lines if list(np.asarray(line.get_xdata())) == [value]]
        assert float(np.asarray(mark.get_ydata())[0]) == pytest.approx(curve.at(value))
    assert figure.axes[0].get_xscale() == "log"


def test_seeds_are_counted_at_every_size_and_the_saving_is_an_arrow(found: Answer) -> None:
    figure = transitions_figure(make_spec(), found)
    counts = [f"{share.learned}/{share.tried}" for mix in found.mixes for share in mix.target.transition.shares]
    assert [text.get_text() for text in figure.axes[1].texts if "/" in text.get_text()] == counts
    (arrow,) = [text for text in figure.axes[1].texts if getattr(text, "arrow_patch", None) is not None]
    assert isinstance(arrow, Annotation)
    values = [mix.target.transition.relative.value for mix in found.mixes]
    # Matplotlib's arrow is of the text, which stands where it starts.
    assert [arrow.xyann[0], arrow.xy[0]] == pytest.approx(values)


def test_a_saving_that_is_undecided_points_nowhere() -> None:
    alone, helped = (transition(Verdict.FOUND, Estimate(value, 8.0, 64.0)) for value in (33.0, 20.0))
    told = make_answer(alone, helped, Synergy(1.6, 0.5, 8.0, decided=False))
    below = transitions_figure(make_spec(), told).axes[1]
    assert not [text for text in below.texts if getattr(text, "arrow_patch", None) is not None]
    assert not [line for line in below.lines if sorted(np.asarray(line.get_xdata())) == [20.0, 33.0]]
    assert "undecided: 8.0x fewer to 2.0x more" in [text.get_text() for text in below.texts]


def test_nothing_inside_the_panel_looks_like_data_and_is_none(found: Answer) -> None:
    figure = transitions_figure(make_spec(), found)
    assert all(axes.get_legend() is None for axes in figure.axes)
    figure.draw_without_rendering()
    right = figure.axes[0].get_window_extent().x1
    named = {text.get_text(): text for text in figure.axes[0].texts}
    assert all(named[mix.mix].get_window_extent().x0 > right for mix in found.mixes)


def test_a_mix_has_one_colour_everywhere(found: Answer) -> None:
    known = looks(found)
    for figure in (transitions_figure(make_spec(), found), curve_figure(make_spec(), found, "add+prod")):
        scatters = {each.get_label(): each for axes in figure.axes[:1] for each in axes.collections}
        drawn = scatters["add+prod" if "add+prod" in scatters else "add"]
        assert hexes(drawn)[0] == known["add+prod"].colour
    of_prod = scatters["prod"]
    assert hexes(of_prod)[0] not in {look.colour for look in known.values()}
    assert looks_of(["add", "add+prod"]) == known


@pytest.mark.parametrize("verdict", [Verdict.ABOVE, Verdict.BELOW, Verdict.PLATEAU, Verdict.UNDECIDED])
def test_without_a_transition_there_is_no_curve(verdict: Verdict) -> None:
    found = transition(verdict)
    told = make_answer(found, found, Synergy(None, None, None, decided=False))
    assert curve_of(told, found) is None
    longest = max(len(np.asarray(line.get_xdata())) for line in transitions_figure(make_spec(), told).axes[0].lines)
    assert longest <= 2  # The floor's line alone.


def test_a_mix_shows_all_its_tasks(found: Answer) -> None:
    figure = curve_figure(make_spec(), found, "add+prod")
    assert points(figure) == len(bracketed())
    assert "best constant answer to prod" in texts(figure)
    with pytest.raises(KeyError):
        curve_figure(make_spec(), found, "max")


@pytest.mark.parametrize(
    ("verdict", "relative", "said"),
    [
        (Verdict.ABOVE, Estimate(None, 64.0, None), "above 64"),
        (Verdict.BELOW, Estimate(None, None, 8.0), "below 8"),
        (Verdict.PLATEAU, NOWHERE, "plateau at 0.75"),
        (Verdict.UNDECIDED, Estimate(None, 16.0, None), "undecided, at least 16"),
        (Verdict.UNDECIDED, NOWHERE, "undecided"),
    ],
)
def test_what_was_not_found_is_drawn_and_said(verdict: Verdict, relative: Estimate, said: str, tmp_path: Path) -> None:
    found = transition(verdict, relative)
    figure = transitions_figure(make_spec(), make_answer(found, found, Synergy(None, None, None, decided=False)))
    assert said in texts(figure).splitlines()
    arrows = [line.get_marker() for line in figure.axes[1].lines if line.get_marker() in ("<", ">")]
    assert (
        set(arrows)
        == {
            Verdict.ABOVE: {">"},
            Verdict.BELOW: {"<"},
            Verdict.PLATEAU: set(),
            Verdict.UNDECIDED: {">"} if relative.low else {"<", ">"},
        }[verdict]
    )
    assert save(figure, tmp_path / "figure.png").stat().st_size > 10_000


def test_no_runs_make_an_empty_figure(tmp_path: Path) -> None:
    figure = transitions_figure(make_spec(), answer(make_spec(), []))
    assert points(figure) == 0
    assert save(figure, tmp_path / "empty.svg").stat().st_size > 1000


def test_png_and_svg_are_whole_and_say_the_same_twice(tmp_path: Path) -> None:
    figure = similarity_figure(np.eye(6), "add, n_embed 8")
    png, svg = save_both(figure, tmp_path / "new", "similarity")
    image = matplotlib.image.imread(png)
    assert image.shape[1] == 910
    assert image[..., :3].std() > 0.05
    assert svg.read_text().rstrip().endswith("</svg>")
    assert sorted(path.name for path in png.parent.iterdir()) == ["similarity.png", "similarity.svg"]
    again = save(similarity_figure(np.eye(6), "add, n_embed 8"), tmp_path / "again.png")
    assert again.read_bytes() == png.read_bytes()


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = save(similarity_figure(np.eye(3), "old"), tmp_path / "figure.png")
    before = path.read_bytes()
    broken = similarity_figure(np.eye(3), "new")
    broken.axes[0].set_title(r"$\no_such_macro$")
    with pytest.raises(ValueError, match="no_such_macro"):
        save(broken, path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["figure.png"]


@pytest.mark.parametrize("bad", [np.zeros((2, 3)), np.zeros(4), np.full((2, 2), np.nan), np.zeros((0, 0))])
def test_what_is_no_similarity_matrix_is_refused(bad: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
    with pytest.raises(ValueError, match="square"):
        similarity_figure(bad, "bad")


def test_labels_must_fit() -> None:
    with pytest.raises(ValueError, match="3 labels, got 2"):
        similarity_figure(np.eye(3), "labels", ["a", "b"])


def test_one_token_has_a_picture(tmp_path: Path) -> None:
    assert save(similarity_figure(np.ones((1, 1)), "one"), tmp_path / "one.png").stat().st_size > 1000


@pytest.mark.parametrize("tokens", [1, 6, 20])
def test_a_picture_shown_again_equals_a_new_one(tmp_path: Path, tokens: int) -> None:
    def similarity(seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        rows = np.random.default_rng(seed).normal(size=(tokens, 5))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows @ rows.T

    picture = SimilarityPicture([str(token) for token in range(tokens)])
    save(
        picture.show(similarity(0), "the first, with a title that is as long as it takes to need another line " * 2),
        tmp_path / "0.png",
    )
    again = save(picture.show(similarity(1), "the second"), tmp_path / "again.png")
    fresh = save(similarity_figure(similarity(1), "the second"), tmp_path / "fresh.png")
    assert again.read_bytes() == fresh.read_bytes()
    with pytest.raises(ValueError, match=f"of {tokens} rows cannot show {tokens + 1}"):
        picture.show(np.eye(tokens + 1), "too many")


@pytest.mark.parametrize("count", [6, 12, 20])
def test_labels_lie_neither_on_each_other_nor_on_points(count: int) -> None:
    """Also where pairs of items, as n and n + 3 modulo 6, lie on top of each other."""
    width, height, radius = 10.0, 9.0, 4.0
    rng = np.random.default_rng(0)
    for points in (rng.normal(0, 40, (count, 2)), np.repeat(rng.normal(0, 40, (count // 2, 2)), 2, axis=0)):
        centres = placed(points, width, height, radius=radius, above=9.5)
        apart = np.abs(centres[:, None] - centres[None])
        assert not np.triu((apart[..., 0] < width - 1e-9) & (apart[..., 1] < height - 1e-9), 1).any()
        off = np.abs(centres[:, None] - points[None])
        assert not ((off[..., 0] < width / 2 + radius - 1e-9) & (off[..., 1] < height / 2 + radius - 1e-9)).any()


def test_residues_are_told_apart_where_they_mean_something() -> None:
    assert [list(members) for members in residue_classes(6, cyclic=True)] == [[0, 2, 4], [1, 3, 5]]
    assert len(residue_classes(9, cyclic=True)) == 3
    assert len(residue_classes(7, cyclic=True)) == len(residue_classes(6, cyclic=False)) == 1
    figure = SimilarityPicture([str(row) for row in range(6)], cyclic=True).show(np.eye(6), "parity")
    assert len({hexes(each)[0] for each in figure.axes[2].collections}) == 2


def test_principal_components_are_those_of_the_embeddings() -> None:
    rng = np.random.default_rng(0)
    embedding = rng.normal(size=(10, 4))
    embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
    scores, shares = principal_components(embedding @ embedding.T)
    centred = embedding - embedding.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred)
    expected = (left[:, :4] * singular)[:, :2]
    assert np.abs(scores) == pytest.approx(np.abs(expected))
    assert shares == pytest.approx((singular**2 / (singular**2).sum())[:2])


def test_threads_draw_the_same_picture(tmp_path: Path) -> None:
    def draw(place: int) -> None:
        save(similarity_figure(np.eye(6), "add"), tmp_path / f"{place}.png")

    threads = [threading.Thread(target=draw, args=(place,)) for place in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(tmp_path / f"{place}.png").read_bytes() for place in range(3)}) == 1


def test_workers_need_neither_pyplot_nor_the_statistics() -> None:
    code = (
        "import sys, orchestrator.report.similarity;"
        "heavy = {'matplotlib.pyplot', 'scipy', 'pandas', 'sklearn', 'mlflow', 'ray', 'pydantic'} & set(sys.modules);"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_long_names_leave_the_sizes_room(found: Answer) -> None:
    long = replace(found.mixes[1], mix="max+med, then add on its embeddings")
    figure = transitions_figure(make_spec(), replace(found, mixes=(found.mixes[0], long)))
    figure.draw_without_rendering()
    (above,) = figure.axes[0].child_axes
    for axes in (above, figure.axes[1]):
        boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        assert len(boxes) > 3
        assert all(one.x1 < other.x0 for one, other in pairwise(boxes))
    assert figure.axes[0].get_window_extent().width > 0.5 * figure.bbox.width
