"""The live view: as a table, through a real pseudo-terminal, and as plain lines."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import termios
from collections import Counter
from dataclasses import replace
from typing import Any

import pyte
import pytest
from rich.console import Console

from orchestrator.search.base import MixProgress, Request
from orchestrator.space.runs import RunInTraining
from orchestrator.terminal.live_view import LiveView, Snapshot, SoFar, render, status_line
from tests.cli.program import ROOT
from tests.report.samples import config
from tests.waiting import wait_for
from trainables.base import Evaluation, Status


def training(
    mix: str, size: int, seed: int, step: int, steps: int, accuracy: float | None, left_s: float | None = None
) -> RunInTraining:
    curve = () if accuracy is None else (Evaluation(step, 0.5, {"add": accuracy}),)
    return RunInTraining(Request(mix, size, seed), config(mix, size, seed), "", curve, steps, left_s)


SNAPSHOT = Snapshot(
    target="add",
    size_axis="n_embed",
    sizes=(8, 12, 16, 20, 24, 32, 40, 48, 64, 96),
    mixes=(
        MixProgress("add", 24, 48, 5, done=False),
        MixProgress("add+prod", None, 16, 7, done=False),
        MixProgress("add+max", 12, 16, 0, done=True),
    ),
    counts={
        "add": Counter({Status.FINISHED: 6, Status.DIVERGED: 1, Status.FAILED: 1}),
        "add+prod": Counter({Status.FINISHED: 3}),
        "add+max": Counter({Status.FINISHED: 9}),
    },
    in_flight=(
        training("add", 32, 0, 1200, 3000, 0.35, 90),
        training("add", 32, 1, 1200, 3000, 0.8, 100),
        training("add", 40, 0, 0, 3000, None),
        training("add+prod", 12, 1, 300, 3000, 0.2),
    ),
    elapsed_s=200,
    left_s=170,
    trained_s=3930,
    grid_s=19650,
    so_far={
        "add": SoFar("24-48", False, (0, 0, 0, 0.01, 0.02, 0.3, 0.4, 0.15, 0.06, 0.04, 0.02)),
        "add+prod": SoFar("up to 16", False, (0.3, 0.2, 0.4, 0.1, 0, 0, 0, 0, 0, 0, 0)),
        "add+max": SoFar("12-16", False),
    },
    warnings=("the MLflow store sqlite:////home/mlflow.db is out (locked); the sweep goes on, 3 records wait",),
)


def shown(width: int, snapshot: Snapshot = SNAPSHOT) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True, force_terminal=True)
    console.print(render(snapshot, "add 24 seed 0: accuracy 0.31"))
    return console.export_text().splitlines()


FORECAST = replace(
    SNAPSHOT,
    left_s=360,
    so_far={
        "add": replace(SNAPSHOT.so_far["add"], words="34.4 [29.5, 44]", is_located=True),
        "add+prod": SNAPSHOT.so_far["add+prod"],
        "add+max": SoFar("plateau at 0.71", is_located=False),
    },
)


@pytest.mark.parametrize("width", [60, 80])
def test_a_verdict_is_not_truncated_next_to_a_long_name(width: int) -> None:
    mix, words = "first add+max+med, then add alone", "2,700 [below 1,800, above 14,000]"
    named = MixProgress(mix, 8, 96, 3, done=False)
    snapshot = replace(SNAPSHOT, mixes=(named,), so_far={mix: SoFar(words, is_located=False)}, counts={}, in_flight=())
    text = "".join("".join(shown(width, snapshot)).split())
    assert max(map(len, shown(width, snapshot))) <= width
    for word in (*words.split(), *mix.split()):
        assert word in text


def test_times_are_shown_even_on_a_terminal_with_few_lines() -> None:
    many = tuple(training("add", 8 + size, 0, 10, 3000, 0.1) for size in range(40))
    lines = [line.strip() for line in shown(80, replace(FORECAST, in_flight=many))]
    assert len(lines) <= 24
    assert "and 32 more" in lines
    assert lines[0].endswith("3 min 20 s elapsed, about 6 min left"), "rich cuts the end of what is too high"


@pytest.mark.parametrize(
    ("low", "high", "bar"),
    [(None, None, "░" * 18), (None, 8, "━" * 18), (53, None, "·" * 18), (20, 34, "·····░░░░░░━━━━━━━")],
)
def test_many_sizes_share_cells_of_the_bar(low: int | None, high: int | None, bar: str) -> None:
    mix = MixProgress("add", low, high, 3, done=False)
    snapshot = Snapshot("n_embed", tuple(range(8, 54)), (mix,))
    assert shown(80, snapshot)[2].split()[1] == bar


def test_the_status_line_has_placeholders_before_the_first_run_ends() -> None:
    mix = MixProgress("add", None, None, 6, done=False)
    line = "add not yet, 0 done, 0 now; 0 s elapsed, about 16 s left; no run has ended yet"
    assert status_line(Snapshot("n_embed", (8, 16), (mix,), left_s=16)) == line


@pytest.mark.parametrize(
    ("trained_s", "words"),
    [(0.0, "less than a second"), (0.4, "less than a second"), (1.0, "1 s"), (62.0, "1 min 02 s")],
)
def test_runs_that_took_no_time_have_ended(trained_s: float, words: str) -> None:
    """Reused runs took none here, and those of small families take milliseconds."""
    mix = MixProgress("add", None, None, 6, done=False)
    counts = {"add": Counter({Status.FINISHED: 2})}
    line = status_line(Snapshot("n_embed", (8, 16), (mix,), counts=counts, trained_s=trained_s))
    assert line.startswith("add not yet, 2 done, 0 now; ")
    assert line.endswith(f"; {words} of training so far")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"left_s": 360}, "about 6 min left"),
        ({"left_s": 0}, "longer than expected: up to 1 min 40 s for runs in training"),
        ({"left_s": 0, "in_flight": ()}, "about to end"),
        ({"left_s": 360, "pace": 1.4}, "about 6 min left"),
        ({"left_s": 360, "pace": 3.14}, "about 6 min left (runs take 3.1 times as long as planned)"),
    ],
)
def test_the_time_left_is_worded_for_each_situation(change: dict[str, object], words: str) -> None:
    snapshot = replace(SNAPSHOT, **change)  # type: ignore[arg-type]  # each value is that of its field
    assert f"3 min 20 s elapsed, {words}; " in status_line(snapshot)
    assert shown(80, snapshot)[0].strip().endswith(words)


def untimed(text: str) -> list[str]:
    """Return plain lines without the time at the beginning of each."""
    lines = text.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines)
    return [line[9:] for line in lines]


@pytest.mark.parametrize("terminal", [{}, {"force_terminal": True, "_environ": {"TERM": "dumb"}}])
def test_a_log_file_or_dumb_terminal_gets_plain_lines_once_each(terminal: dict[str, Any]) -> None:
    file = io.StringIO()
    view = LiveView(Console(file=file, width=40, **terminal), status_every_s=0.05)
    with view.showing("sums", lambda: SNAPSHOT):
        view.run_ended("sums", "add", 24, 0, "accuracy 0.31 [not markup] after 40 s")
        wait_for(lambda: file.getvalue().count(status_line(SNAPSHOT)) >= 2, 60)
    lines = untimed(file.getvalue())
    assert status_line(SNAPSHOT).startswith("add 24-48, 8 done, 3 now; add+prod up to 16, 3 done, 1 now; ")
    ended = "add 24 seed 0: accuracy 0.31 [not markup] after 40 s"
    assert lines.count(ended) == 1
    assert lines.count(f"warning: {SNAPSHOT.warnings[0]}") == 1
    assert lines.count(status_line(SNAPSHOT)) >= 2
    assert set(lines) == {ended, f"warning: {SNAPSHOT.warnings[0]}", status_line(SNAPSHOT)}
    assert "\x1b" not in file.getvalue()


def test_lines_of_several_sweeps_begin_with_their_titles() -> None:
    file = io.StringIO()
    view = LiveView(Console(file=file, width=40), named=True, status_every_s=0.05)
    other = replace(SNAPSHOT, warnings=())
    with view.showing("sums", lambda: SNAPSHOT):
        with view.showing("products", lambda: other):
            view.run_ended("products", "add", 24, 0, "accuracy 0.31")
            wait_for(lambda: file.getvalue().count(f"products: {status_line(other)}") >= 2, 60)
        seen = file.getvalue().count("products: ")
        wait_for(lambda: file.getvalue().count("sums: ") >= seen + 2, 60)
    lines = untimed(file.getvalue())
    warning = f"sums: warning: {SNAPSHOT.warnings[0]}"
    status = {f"{title}: {status_line(SNAPSHOT)}" for title in ("sums", "products")}
    assert set(lines) == {"products: add 24 seed 0: accuracy 0.31", warning, *status}
    assert lines.count(warning) == 1
    assert lines[-1].startswith("sums: ")


def test_a_terminal_shows_a_line_for_each_of_several_sweeps_and_the_last_in_full() -> None:
    console = Console(width=200, file=io.StringIO(), force_terminal=True, _environ={"TERM": "xterm"})
    view = LiveView(console, named=True)

    def lines() -> list[str]:
        plain = Console(width=200, file=io.StringIO(), record=True)
        plain.print(view._render())
        return plain.export_text().splitlines()

    with view.showing("sums", lambda: SNAPSHOT):
        full = lines()
        with view.showing("products", lambda: SNAPSHOT):
            several = lines()
    assert full[0].strip() == "sums:"
    assert any(line.startswith("mix") for line in full)
    assert not any(line.startswith("mix") for line in several)
    assert [line.split(" add 24-48")[0] for line in several if "add 24-48" in line] == ["sums:", "products:"]


SCRIPT = """
import time
from rich.console import Console
from orchestrator.terminal.live_view import LiveView
from tests.terminal.test_live import SNAPSHOT
view = LiveView(Console())
with view.showing("sums", lambda: SNAPSHOT):
    view.run_ended("sums", "add", 24, 0, "accuracy 0.31")
    time.sleep(1.2)
print("THE ANSWER")
"""


def on_terminal(columns: int) -> str:
    """Return the output of a program with the view on a pseudo-terminal of this width."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, columns))
    unset = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "CI")
    inherited = {key: value for key, value in os.environ.items() if key not in unset}
    program = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env=inherited | {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT)},
    )
    os.close(theirs)
    received = b""
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:  # Linux raises an I/O error after the other end of a terminal is closed.
            break
        if not block:
            break
        received += block
    os.close(ours)
    assert program.wait() == 0, received.decode()
    return received.decode()


def screen(received: str, columns: int, rows: int = 40) -> list[str]:
    """Return the final lines on a terminal's screen."""
    terminal = pyte.Screen(columns, rows)
    pyte.Stream(terminal).feed(received)
    return [line.rstrip() for line in terminal.display]


def test_on_a_real_terminal_the_view_redraws_itself_in_place() -> None:
    columns = 80
    received = on_terminal(columns)
    lines = screen(received, columns)
    assert received.count("n_embed 8 to 96") >= 2, "the view was not redrawn"
    assert "\x1b[33m" in received
    assert sum(line.startswith("add+prod  ") for line in lines) == 1, "redraws must replace each other"
    assert any("····▁▆█▃▂▁>" in line and "24-48" in line for line in lines)
    assert any(line.startswith("add 32 ") and line.endswith("0.35 0.80") for line in lines)
    assert "last: add 24 seed 0: accuracy 0.31" in lines
    assert [line for line in lines if line][-1] == "THE ANSWER"
    assert max(map(len, lines)) <= columns
    assert received.endswith("THE ANSWER\r\n")
    assert "\x1b[?25h" in received, "the cursor must come back"
