"""The live view at several widths, through a real pseudo-terminal, and as plain lines."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from dataclasses import replace
from pathlib import Path

import pyte
import pytest
from rich.console import Console

from orchestrator.report.wording import duration, time_range
from orchestrator.search.base import MixProgress
from orchestrator.simulation.remaining import Remaining
from orchestrator.terminal.progress import LiveView
from orchestrator.terminal.snapshot import Counts, RunProgress, Snapshot, Verdict
from orchestrator.terminal.view import render
from orchestrator.terminal.words import status_line

ROOT = Path(__file__).resolve().parents[2]
SNAPSHOT = Snapshot(
    size_axis="n_embed",
    sizes=(8, 12, 16, 20, 24, 32, 40, 48, 64, 96),
    mixes=(
        MixProgress("add", 24, 48, 5, done=False, note="narrowing"),
        MixProgress("add+prod", None, 16, 7, done=False, note="looking down"),
        MixProgress("add+max", 12, 16, 0, done=True, note="transition bracketed"),
    ),
    counts={"add": Counts(6, 1, 1), "add+prod": Counts(3), "add+max": Counts(9)},
    in_flight=(
        RunProgress("add", 32, 0, 1200, 3000, 0.35, 90),
        RunProgress("add", 32, 1, 1200, 3000, 0.8, 100),
        RunProgress("add", 40, 0, 0, 3000, None),
        RunProgress("add+prod", 12, 1, 300, 3000, 0.2),
    ),
    elapsed_s=200,
    left_s=340,
    trained_s=3930,
    grid_s=19650,
    steps_per_s=12345,
    posteriors={
        "add": (0, 0, 0, 0.01, 0.02, 0.3, 0.4, 0.15, 0.06, 0.04, 0.02),
        "add+prod": (0.3, 0.2, 0.4, 0.1, 0, 0, 0, 0, 0, 0, 0),
    },
    warnings=("the MLflow store sqlite:////home/mlflow.db is out (locked); the sweep goes on, 3 records wait",),
)


def shown(width: int, snapshot: Snapshot = SNAPSHOT, *, ascii_only: bool = False) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True, force_terminal=True)
    console.print(render(snapshot, "add 24 seed 0: accuracy 0.31", width, ascii_only=ascii_only))
    return console.export_text().splitlines()


def test_at_80_columns() -> None:
    lines = [line.rstrip() for line in shown(80)]
    assert lines[:9] == [
        "mix       n_embed 8 to 96  transition  done  now  left",
        "add       ····▁▆█▃▂▁>      24-48          8    3   <=5  narrowing",
        "add+prod  ▆▅█▃━━━━━━       up to 16       3    1   <=7  looking down",
        "add+max   ··━━━━━━━━       12-16          9    0     0  transition bracketed",
        "",
        "training          step             left  accuracy now, seed by seed",
        "add 32       1200/3000  40%  1 min 40 s  0.35 0.80",
        "add 40          0/3000   0%           -  -",
        "add+prod 12   300/3000  10%           -  0.20",
    ]
    assert "add: 1 diverged, 1 failed" in lines
    assert lines[-3:] == [
        "last: add 24 seed 0: accuracy 0.31",
        "3 min 20 s gone, at most 5 min 40 s left",
        "1 h 05 min of training, 20% of the grid's; 12 300 steps a second in all",
    ]
    assert max(map(len, lines)) <= 80


def test_many_seeds_are_cut_at_80_columns_and_not_at_160() -> None:
    many = tuple(RunProgress("add", 32, seed, 1200, 3000, seed / 100) for seed in range(20))
    snapshot = replace(SNAPSHOT, in_flight=many)
    last = "0.19"
    assert not any(last in line for line in shown(80, snapshot))
    assert any(line.rstrip().endswith(last) for line in shown(160, snapshot))
    assert max(map(len, shown(80, snapshot))) <= 80


def test_no_more_lines_than_a_small_terminal_has() -> None:
    many = tuple(RunProgress("add", 8 + size, 0, 10, 3000, 0.1) for size in range(40))
    lines = [line.strip() for line in shown(80, replace(SNAPSHOT, in_flight=many))]
    assert len(lines) <= 24
    assert "and 32 more" in lines


def test_the_verdict_is_that_of_the_answer_and_green_only_where_a_transition_was_found() -> None:
    """A mix that is done without a transition is a plateau from the moment its runs say so, and never green."""
    plateau = "plateau at 0.71; learned by 1/4 at 96"
    verdicts = {
        "add": Verdict("34.4 [29.5, 44]", "add: n_embed 34.4 [29.5, 44]; learned by 0/1 at 32, 4/4 at 40", found=True),
        "add+max": Verdict("plateau at 0.71", f"add+max: {plateau}", found=False),
    }
    snapshot = replace(SNAPSHOT, verdicts=verdicts)
    lines = [line.rstrip() for line in shown(100, snapshot)]
    assert "34.4 [29.5, 44]" in lines[1]
    assert "up to 16" in lines[2]
    assert "plateau at 0.71" in lines[3]
    assert lines[4:6] == [verdicts["add"].line, f"add+max: {plateau}"]
    assert status_line(snapshot).startswith("add 34.4 [29.5, 44], 8 done, ")
    console = Console(width=100, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(render(snapshot, "", 100))
    said = console.file.getvalue() if isinstance(console.file, io.StringIO) else ""
    assert "\x1b[32mplateau" not in said
    green = render(replace(snapshot, verdicts={**verdicts, "add+max": replace(verdicts["add"])}), "", 100)
    console.print(green)
    assert "\x1b[32m34.4" in console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO from above


LONG = (
    "add: n_embed 32.3 [24.2, above 64]; learned by 0/1 at 28, 1/3 at 36, 3/3 at 2 700; half of all seeds learn at "
    "31.3 [24.9, above]; single runs learn or do not, with little in between"
)


def test_verdicts_are_whole_sentences_at_80_columns() -> None:
    """Nothing of them is cut, and the searcher's notes go with them where the table has no room for notes."""
    found = Verdict("32.3 [24.2, above 64]", LONG, found=True)
    snapshot = replace(SNAPSHOT, verdicts={"add": found, "add+max": replace(found, line="add+max: n_embed 14")})
    lines = [line.rstrip() for line in shown(80, snapshot)]
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
    first = next(place for place, line in enumerate(lines) if line.startswith("add: "))
    last = next(place for place, line in enumerate(lines) if line.startswith("add+prod: "))
    assert last - first == 3
    assert all(line.startswith("  ") for line in lines[first + 1 : last])
    assert " ".join(line.strip() for line in lines[first:last]) == f"{LONG}; narrowing"
    assert any("2 700" in line for line in lines)
    assert lines[last : last + 2] == ["add+prod: looking down", "add+max: n_embed 14; transition bracketed"]
    wide = [line.rstrip() for line in shown(120, snapshot)]
    assert wide[1].endswith("narrowing")
    assert wide[4].startswith("add: n_embed 32.3")


@pytest.mark.parametrize("width", [40, 59, 60, 80, 100])
@pytest.mark.parametrize("mix", ["add", "against all plain ones", "first add+max+med, then add alone", "x" * 70])
@pytest.mark.parametrize("words", ["undecided, at least 1 234", "2 700 [below 1 800, above 14 000]"])
def test_no_word_of_a_verdict_is_cut_beside_a_long_name(words: str, mix: str, width: int) -> None:
    """Both go on in the next line, and the numbers of runs stay."""
    verdict = Verdict(words, f"{mix}: n_embed {words}", found=False)
    named = MixProgress(mix, 8, 96, 3, done=False, note="one side still open")
    training = tuple(replace(run, mix=mix) for run in SNAPSHOT.in_flight)
    snapshot = replace(SNAPSHOT, mixes=(named,), verdicts={mix: verdict}, counts={}, in_flight=training)
    lines = [line.rstrip() for line in shown(width, snapshot)]
    head, *table = lines[: lines.index("")]
    assert head.split()[-3:] == ["done", "now", "left"]
    cells = (line[head.index("transition") : head.index("done")].strip() for line in table)
    assert " ".join(filter(None, cells)).startswith(words)
    assert any("  <=3" in line for line in table)
    assert "…" not in "".join(table)
    assert " 40%  1 min 40 s " in " ".join(lines), "a long name takes no room from how far runs are"
    assert max(map(len, lines)) <= width


def test_verdicts_of_many_mixes_leave_the_view_on_a_small_terminal() -> None:
    mixes = tuple(MixProgress(f"mix{place}", 8, 96, 3, done=False, note="") for place in range(8))
    verdicts = {mix.mix: Verdict("32.3", LONG.replace("add", mix.mix), found=True) for mix in mixes}
    snapshot = replace(SNAPSHOT, mixes=mixes, verdicts=verdicts, counts={})
    lines = [line.strip() for line in shown(80, snapshot)]
    assert len(lines) <= 24
    whole = " ".join(lines).count("with little in between")
    assert whole >= 1
    assert f"{8 - whole} more verdicts: `status` has them" in lines
    assert "mix7" in " ".join(lines)


@pytest.mark.parametrize("width", [20, 40, 59])
def test_narrow_terminals_keep_the_numbers(width: int) -> None:
    lines = shown(width)
    assert max(map(len, lines)) <= width
    assert "█" not in "".join(lines)
    if width >= 40:
        assert lines[1].split() == ["add", "24-48", "8", "3", "<=5"]
        assert lines[6].split() == ["add", "32", "40%", "1", "min", "40", "s", "0.35", "0.80"]


def test_without_unicode_the_bar_is_ascii() -> None:
    text = "\n".join(shown(80, ascii_only=True))
    assert "....:*#+::>" in text
    assert "..========" in text
    assert text.isascii()


@pytest.mark.parametrize(
    ("low", "high", "bar"),
    [(None, None, "?" * 18), (None, 8, "=" * 18), (53, None, "." * 18), (20, 34, ".....??????=======")],
)
def test_many_sizes_share_the_cells_of_the_bar(low: int | None, high: int | None, bar: str) -> None:
    mix = MixProgress("add", low, high, 3, done=False, note="")
    snapshot = Snapshot("n_embed", tuple(range(8, 54)), (mix,))
    assert shown(80, snapshot, ascii_only=True)[1].split()[1] == bar


def test_before_anything_is_known() -> None:
    snapshot = Snapshot("n_embed", (8, 16), (MixProgress("add", None, None, 6, done=False, note="first runs"),))
    lines = shown(80, snapshot)
    assert lines[1].split() == ["add", "░░", "any", "0", "0", "<=6", "first", "runs"]
    assert lines[-2:] == ["0 s gone, time left unknown", "0 s of training"]
    assert status_line(snapshot) == "add any, 0 done, 0 now, <=6 left; 0 s gone, time left unknown; 0 s of training"


def test_time_left_is_a_range_with_a_bar() -> None:
    """The range of a forecast takes the place of the bound."""
    snapshot = replace(SNAPSHOT, forecast=Remaining(360, 240, 840))
    said = "3 min 20 s gone, about 6 min (4 to 14) left"
    assert [line.rstrip() for line in shown(80, snapshot)][-2] == f"██████░░░░░░░░░░ 36%  {said}"
    assert shown(80, snapshot, ascii_only=True)[-2].startswith("######.......... 36%  3 min 20 s gone")
    assert said in status_line(snapshot)
    assert "at most" not in status_line(snapshot)


@pytest.mark.parametrize(
    ("high", "training", "said"),
    [
        (12, True, "over any moment, or in up to 12 s"),
        (0, True, "longer than foreseen: up to 1 min 40 s for what trains"),
        (0, False, "over any moment"),
    ],
)
def test_a_forecast_that_is_over_does_not_say_0_s(high: float, training: bool, said: str) -> None:
    snapshot = replace(SNAPSHOT, forecast=Remaining(0, 0, high), in_flight=SNAPSHOT.in_flight if training else ())
    (times,) = [part for part in status_line(snapshot).split("; ") if " gone, " in part]
    assert times == f"3 min 20 s gone, {said}"
    assert "░" not in "".join(shown(80, snapshot)), "a bar that is full says that it is over"


@pytest.mark.parametrize(
    ("left_s", "forecast", "said"),
    [
        (100.0, None, "longer than foreseen: up to 1 min 40 s for what trains"),
        (None, None, "longer than foreseen"),
        (None, Remaining(0, 0, 0), "longer than foreseen"),
    ],
)
def test_a_time_left_that_has_run_out_says_so(left_s: float | None, forecast: Remaining | None, said: str) -> None:
    """Also where nobody knows how long what trains still takes."""
    training = tuple(replace(run, left_s=left_s) for run in SNAPSHOT.in_flight)
    snapshot = replace(SNAPSHOT, left_s=0.0, forecast=forecast, in_flight=training)
    assert [line.rstrip() for line in shown(80, snapshot)][-2] == f"3 min 20 s gone, {said}"


@pytest.mark.parametrize(
    ("forecast", "said"),
    [
        (Remaining(8, 4, 16), "longer than foreseen, about 8 s (4 to 16) left"),
        (Remaining(0, 0, 5), "longer than foreseen: up to 1 min 40 s for what trains"),
    ],
)
def test_a_range_that_is_said_again_because_the_first_has_run_out_says_so(forecast: Remaining, said: str) -> None:
    late = replace(SNAPSHOT, forecast=forecast, late=True)
    assert f" gone, {said}; " in status_line(late)
    assert "foreseen" not in status_line(replace(late, late=False))
    assert any(line.rstrip().endswith(said) for line in shown(80, late))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [((20, 40, 95), "about 40 s (20 to 95)"), ((6480, 9000, 14400), "about 2.5 h (1.8 to 4)")],
)
def test_ranges_of_time(seconds: tuple[float, float, float], said: str) -> None:
    assert time_range(*seconds) == said


def test_a_plain_line_carries_what_trains_now() -> None:
    assert "add 24-48, 8 done, 3 now (32: 0.35 0.80 at 40%, 40: - at 0%), <=5 left; " in status_line(SNAPSHOT)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (200, "3 min 20 s"), (3930, "1 h 05 min")]
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def untimed(text: str) -> list[str]:
    """Plain lines without the time that each begins with."""
    lines = text.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines)
    return [line[9:] for line in lines]


def test_a_log_file_gets_plain_lines_once_each() -> None:
    file = io.StringIO()
    with LiveView(Console(file=file, width=40), lambda: SNAPSHOT, status_every_s=0.05) as view:
        view.run_ended("add", 24, 0, "accuracy 0.31 [not markup] after 40 s")
        time.sleep(0.4)
    lines = untimed(file.getvalue())
    assert lines[0] == "add 24 seed 0: accuracy 0.31 [not markup] after 40 s"
    assert sum(line.startswith("warning: the MLflow store") for line in lines) == 1
    assert lines.count(status_line(SNAPSHOT)) >= 2
    assert set(lines) == {lines[0], f"warning: {SNAPSHOT.warnings[0]}", status_line(SNAPSHOT)}
    assert "\x1b" not in file.getvalue()


def test_a_short_sweep_in_a_log_file_has_no_status_lines_but_its_warnings() -> None:
    file = io.StringIO()
    with LiveView(Console(file=file, width=200), lambda: SNAPSHOT) as view:
        view.run_ended("add", 24, 0, "accuracy 0.31")
    assert untimed(file.getvalue()) == ["add 24 seed 0: accuracy 0.31", f"warning: {SNAPSHOT.warnings[0]}"]


def test_runs_may_end_in_many_threads() -> None:
    file = io.StringIO()
    with LiveView(Console(file=file, width=200), lambda: SNAPSHOT, status_every_s=0.001) as view:

        def end(mix: str) -> None:
            for seed in range(50):
                view.run_ended(mix, 8, seed, "done")

        threads = [threading.Thread(target=end, args=(mix,)) for mix in ("add", "prod", "max")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    ended = [line for line in untimed(file.getvalue()) if line.endswith(": done")]
    assert sorted(ended) == sorted(f"{mix} 8 seed {seed}: done" for mix in ("add", "prod", "max") for seed in range(50))


SCRIPT = """
import time
from rich.console import Console
from orchestrator.terminal.progress import LiveView
from tests.terminal.test_progress import SNAPSHOT
with LiveView(Console(), lambda: SNAPSHOT) as view:
    view.run_ended("add", 24, 0, "accuracy 0.31")
    time.sleep(1.2)
print("THE ANSWER")
"""


def on_terminal(columns: int, **environment: str) -> str:
    """What a pseudo-terminal of this width receives from a program that shows the view."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    unset = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "CI")
    inherited = {key: value for key, value in os.environ.items() if key not in unset}
    program = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env={
            **inherited,
            "TERM": "xterm-256color",
            "PYTHONIOENCODING": "utf-8",
            "PYTHONPATH": str(ROOT),
            **environment,
        },
    )
    os.close(theirs)
    received = b""
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:  # Linux reports a terminal whose other end has closed as an input/output error.
            break
        if not block:
            break
        received += block
    os.close(ours)
    assert program.wait() == 0, received.decode()
    return received.decode()


def screen(received: str, columns: int) -> list[str]:
    """The lines left on a terminal's screen."""
    terminal = pyte.Screen(columns, 40)
    pyte.Stream(terminal).feed(received)
    return [line.rstrip() for line in terminal.display]


@pytest.mark.parametrize("columns", [80, 160])
def test_on_a_real_terminal(columns: int) -> None:
    received = on_terminal(columns)
    lines = screen(received, columns)
    assert received.count("n_embed 8 to 96") >= 2, "the view was not redrawn"
    assert "\x1b[33m" in received
    assert sum(line.startswith("add+prod  ") for line in lines) == 1, "redraws must replace each other"
    assert any("····▁▆█▃▂▁>" in line and "24-48" in line for line in lines)
    assert any(line.startswith("add 32 ") and line.endswith("1 min 40 s  0.35 0.80") for line in lines)
    assert "last: add 24 seed 0: accuracy 0.31" in lines
    assert [line for line in lines if line][-1] == "THE ANSWER"
    assert max(map(len, lines)) <= columns
    assert received.endswith("THE ANSWER\r\n")
    assert "\x1b[?25h" in received, "the cursor must come back"


def test_on_a_terminal_without_colour() -> None:
    received = on_terminal(80, NO_COLOR="1")
    assert "\x1b[33m" not in received
    assert any("24-48" in line for line in screen(received, 80))


def test_on_a_dumb_terminal_plain_lines() -> None:
    lines = on_terminal(80, TERM="dumb").split("\r\n")
    assert untimed(lines[0]) == ["add 24 seed 0: accuracy 0.31"]
    assert lines[-2] == "THE ANSWER"
