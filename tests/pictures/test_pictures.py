"""That the README's pictures can be drawn anew: each of them, and the live view as it was shown."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from orchestrator.catalogue.reading import State, read_sweep
from orchestrator.store.files import Home
from tests.catalogue.fabricated import write_sweep
from tests.pictures.__main__ import PICTURES, is_under_way, take_back
from tests.pictures.terminal import filmed, plain, window

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import time
from rich.console import Console
from orchestrator.terminal.progress import LiveView
from tests.terminal.test_progress import SNAPSHOT
print("what comes before it")
with LiveView(Console(), lambda: SNAPSHOT) as view:
    view.run_ended("add", 24, 0, "accuracy 0.31")
    time.sleep(60)
"""


def test_every_picture_of_the_readme_is_drawn_by_the_command() -> None:
    shown = set(re.findall(r"\.github/assets/(\w+)\.png", (ROOT / "README.md").read_text()))
    there = {path.stem for path in (ROOT / ".github" / "assets").iterdir()}
    assert shown == there == set(PICTURES)


def test_a_live_view_is_pictured_as_it_was_shown() -> None:
    frame = filmed(
        [sys.executable, "-c", SCRIPT], 80, lambda shown: shown.strip().startswith("mix "), cwd=ROOT, within_s=120
    )
    lines = [line.rstrip() for line in plain(frame).splitlines()]
    assert lines[0].startswith("mix ")
    assert "what comes before it" not in frame
    assert "add 32       1200/3000  40%  1 min 40 s  0.35 0.80" in lines
    assert lines[-1].startswith("1 h 05 min of training")
    drawn = window(frame, 80, "python -m orchestrator run")
    assert drawn.startswith("<svg")
    assert "█" in drawn
    assert len(set(re.findall(r"fill: (#\w{6})", drawn))) >= 3, "colours are those of the terminal"


def test_a_program_that_shows_nothing_cannot_be_pictured() -> None:
    with pytest.raises(RuntimeError, match="ended before there was anything"):
        filmed([sys.executable, "-c", "print('mix')"], 80, is_under_way, cwd=ROOT, within_s=60)


def test_a_finished_sweep_is_taken_back_to_its_middle(tmp_path: Path) -> None:
    home = Home(tmp_path)
    sweep = write_sweep(home)
    before = read_sweep(home, sweep.id)
    take_back(home, sweep.id, 0.5)
    after = read_sweep(home, sweep.id)
    assert after.state is State.INTERRUPTED
    assert [run.key for run in after.runs] == [run.key for run in before.runs[: len(after.runs)]]
    assert len(after.runs) == round(len(before.runs) / 2)
    assert sum(run.directory.is_dir() for run in before.runs) == len(after.runs)
