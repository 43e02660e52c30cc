"""Figures do not depend on a user's Matplotlib settings, and do not change them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from cycler import cycler

from orchestrator.catalogue.reading import read_sweep
from orchestrator.home.files import Home
from orchestrator.report.figures import style
from orchestrator.report.figures.comparisons import forest_figure, main_figure
from orchestrator.report.figures.panels import learning_figure
from orchestrator.report.figures.similarity import similarities_figure
from orchestrator.report.side_by_side import Compared
from tests.catalogue.fabricated import write_sweep

ROOT = Path(__file__).resolve().parents[2]
SETTINGS: dict[Any, Any] = {
    "text.usetex": True,
    "svg.fonttype": "path",
    "axes.unicode_minus": False,
    "savefig.bbox": "tight",
    "figure.autolayout": True,
    "font.family": "cursive",
    "xtick.direction": "in",
    "axes.prop_cycle": cycler(color=["red"]),
    "axes.spines.top": False,
    "lines.linewidth": 9,
    "image.cmap": "jet",
}


@pytest.fixture(scope="module", name="drawn")
def every_figure(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that draws every kind of figure and returns the files' texts."""
    home = Home(tmp_path_factory.mktemp("figures"))
    stored = read_sweep(home, write_sweep(home).id)
    spec, answer, runs = stored.spec, stored.answer, stored.runs

    def draw() -> list[str]:
        similarities = similarities_figure(answer, runs)
        assert similarities is not None
        figures = [
            main_figure(answer),
            main_figure(answer, width_in=3.3),
            forest_figure([Compared("one", answer)]),
            learning_figure(spec, runs),
            similarities,
        ]
        return [style.inline_svg(figure, "one", "a figure") for figure in figures]

    return draw


def test_a_matplotlibrc_does_not_change_figures(drawn: Any) -> None:
    undisturbed = drawn()
    with matplotlib.rc_context(SETTINGS):
        before = dict(matplotlib.rcParams)
        assert drawn() == undisturbed
        assert dict(matplotlib.rcParams) == before


def test_files_have_no_date_even_if_source_date_epoch_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    for suffix in ("png", "svg", "pdf"):
        assert style.save(style.new_figure(1.0), tmp_path / f"figure.{suffix}").stat().st_size > 100
    assert os.environ["SOURCE_DATE_EPOCH"] == "yesterday"


@pytest.mark.parametrize("backend", ["module://no_such_package.backend", "no such backend"])
def test_a_missing_backend_does_not_prevent_drawing(backend: str, tmp_path: Path) -> None:
    (tmp_path / "rc").write_text("backend: TkAgg\nlines.linewidth: 77\n")
    code = (
        "from orchestrator.report.figures import style\nimport matplotlib\n"
        f"style.save(style.new_figure(1.0), __import__('pathlib').Path({str(tmp_path / 'figure.png')!r}))\n"
    )
    chosen = {"MPLBACKEND": backend, "MATPLOTLIBRC": str(tmp_path / "rc")}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=os.environ | chosen, check=True, timeout=120)
    assert (tmp_path / "figure.png").is_file()
