"""A figure for a paper: it has the requested width, is readable at that width, and embeds its fonts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from orchestrator.home.files import Home
from orchestrator.home.sweeps import create_sweep
from orchestrator.report.answer import Answer, answer
from orchestrator.report.figures.comparisons import caption, paper_figure
from orchestrator.report.figures.style import save
from tests.report.samples import bracketed, in_order, make_spec
from tests.sweep.sweeps import spec


@pytest.fixture(scope="module", name="answer")
def bracketed_answer() -> Answer:
    return answer(make_spec(), bracketed(), blocks=in_order(make_spec()))


@pytest.mark.parametrize("width", [3.3, 7.0])
def test_text_is_readable_and_inside_the_figure(answer: Answer, width: float) -> None:
    figure = paper_figure(answer, width)
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
    pdf = save(paper_figure(answer, 3.3), tmp_path / "figure.pdf").read_bytes()
    svg = save(paper_figure(answer, 3.3), tmp_path / "figure.svg").read_text()
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
