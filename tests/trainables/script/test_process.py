"""A script's processes end when they should: asked, or because the worker or the guard was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import wait_for
from trainables.script import guard
from trainables.script.guard import SEGMENT_BYTES
from trainables.script.process import FileReader, LogReader, ScriptExit, ScriptProcess, TruncatedText, own_environment

PRINTS_AND_WAITS = "import time; print('here'); time.sleep(60)"
IGNORES = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here'); time.sleep(60)"
SAVES = """
import signal, sys, time
from pathlib import Path
def save(*_):
    time.sleep(0.3)
    Path("saved").write_text("yes")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("here")
time.sleep(60)
"""
DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open("daemon", "w").write(str(os.getpid()))
        time.sleep(60)
    os._exit(0)
while not os.path.exists("daemon") or not open("daemon").read():
    time.sleep(0.01)
print("here")
"""


def start(folder: Path, code: str, **options: float) -> ScriptProcess:
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    command = [sys.executable, "-c", code]
    return ScriptProcess(command, folder, {"GIVEN": "yes"}, logs, **{"grace_s": 1.0, **options})  # type: ignore[arg-type]


def has_printed(folder: Path, text: str = "here") -> Callable[[], bool]:
    return lambda: any(text in path.read_text() for path in (folder / "logs").glob("0*"))


def ended(process: ScriptProcess) -> ScriptExit:
    wait_for(lambda: process.ended() is not None, within_s=20)
    result = process.ended()
    assert result is not None
    return result


def lines_of(folder: Path) -> list[str | None]:
    reader, lines = LogReader(folder / "logs"), list[str | None]()
    while new := reader.read():
        lines += new
    return lines


def is_alive(process: int) -> bool:
    return bool(guard.started_at(process))


@pytest.mark.parametrize("own", ["/home/ann/lib", ""])
def test_a_script_has_the_search_path_of_the_users_shell(own: str) -> None:
    """A worker of Ray has Orchestrator's packages on its path."""
    given = {"PYTHONPATH": "/orchestrator", "ORCHESTRATOR_USER_PYTHONPATH": own, "RAY_X": "1", "HOME": "/home/ann"}
    expected = {"PYTHONUNBUFFERED": "1", "HOME": "/home/ann"} | ({"PYTHONPATH": own} if own else {})
    assert own_environment(given) == expected
    assert own_environment({"PYTHONPATH": "/mine"})["PYTHONPATH"] == "/mine"


def test_output_environment_and_exit_code(tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['GIVEN'], os.getcwd()); sys.stderr.write('err'); sys.exit(3)"
    process = start(tmp_path, code)
    assert ended(process) == ScriptExit(code=3)
    lines = lines_of(tmp_path)
    assert lines[0] is None
    assert sorted(filter(None, lines)) == ["err", f"yes {tmp_path}"]
    process.stop()


def test_variables_of_the_worker_do_not_reach_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")
    monkeypatch.setenv("MINE", "kept")
    process = start(tmp_path, "import os; print(os.environ.get('RAY_ADDRESS'), os.environ['MINE'])")
    assert ended(process).code == 0
    assert lines_of(tmp_path) == [None, "None kept"]


def test_a_program_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "text").write_text("no program")
    for program, why in (("./missing", "No such file"), ("./text", "Permission denied")):
        process = ScriptProcess([program], tmp_path, {}, tmp_path / "logs")
        assert why in ended(process).error
        process.stop()


@pytest.mark.parametrize(("code", "most_s"), [(PRINTS_AND_WAITS, 0.9), (IGNORES, 4), (SAVES, 0.9)])
def test_stopping_asks_first_and_kills_later(code: str, most_s: float, tmp_path: Path) -> None:
    process = start(tmp_path, code)
    wait_for(has_printed(tmp_path), within_s=20)
    assert process.ended() is None
    script = process.process
    assert script is not None
    begun = time.monotonic()
    process.stop()
    assert time.monotonic() - begun < most_s + 2
    assert not is_alive(script)
    assert (tmp_path / "saved").exists() == (code is SAVES)
    assert process.ended() is not None


def test_a_daemon_that_left_the_session_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = start(tmp_path, DAEMON)
    wait_for(has_printed(tmp_path), within_s=20)
    daemon = int((tmp_path / "daemon").read_text())
    result = ended(process)  # After LEFT_S, because it ignores SIGTERM.
    assert (result.code, result.left) == (0, 1)
    assert not is_alive(daemon)


WORKER = """
import os, sys, time
from pathlib import Path
from trainables.script.process import ScriptProcess
folder = Path(sys.argv[1])
process = ScriptProcess([sys.executable, "-c", sys.argv[2]], folder, {}, folder / "logs", grace_s=1.0)
while process.ended() is None:
    if process.process and not (folder / "pid").exists():
        (folder / "pid.new").write_text(f"{process.process} {process._guard.pid}")
        (folder / "pid.new").rename(folder / "pid")
    time.sleep(0.05)
"""


@pytest.mark.parametrize("code", [PRINTS_AND_WAITS, IGNORES, DAEMON + "time.sleep(60)"])
@pytest.mark.parametrize("killed", ["worker", "worker and its child"])
def test_a_killed_worker_leaves_nothing(code: str, killed: str, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path), code])
    wait_for(lambda: (tmp_path / "pid").exists() and has_printed(tmp_path)(), within_s=30)
    script, first = map(int, (tmp_path / "pid").read_text().split())
    assert is_alive(script)
    below = guard.descendants(worker.pid)
    assert {script, first} <= set(below)
    if killed == "worker and its child":  # As Ray does if a worker died.
        os.kill(first, signal.SIGSTOP)
    worker.kill()
    if killed == "worker and its child":
        os.kill(first, signal.SIGKILL)
    worker.wait()
    wait_for(lambda: not any(map(is_alive, below)), within_s=10)


@pytest.mark.parametrize("which", ["first", "second"])
def test_a_killed_guard_leaves_nothing(which: str, tmp_path: Path) -> None:
    process = start(tmp_path, PRINTS_AND_WAITS)
    wait_for(has_printed(tmp_path), within_s=20)
    assert process.ended() is None
    script, first = process.process, process._guard.pid
    assert script is not None
    [second] = [one for one in guard.descendants(first) if one != script]
    os.kill(first if which == "first" else second, signal.SIGKILL)
    result = ended(process)
    assert result.was_killed
    process.stop()
    wait_for(lambda: not any(map(is_alive, (script, second))), within_s=10)


def test_the_next_script_of_a_run_waits_for_the_end_of_the_last(tmp_path: Path) -> None:
    code = """
    import os, time
    from pathlib import Path
    try:
        Path("busy").touch(exist_ok=False)
    except FileExistsError:
        print("both at once")
    import signal, sys
    def end(*_):
        time.sleep(0.5)
        Path("busy").unlink()
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
    print("here")
    time.sleep(60)
    """
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path), textwrap.dedent(code)])
    (tmp_path / "logs").mkdir()
    wait_for(has_printed(tmp_path), within_s=20)
    worker.kill()
    worker.wait()
    process = start(tmp_path, textwrap.dedent(code))
    wait_for(lambda: lines_of_kept(tmp_path).count("here") == 2, within_s=20)
    process.stop()
    assert "both at once" not in lines_of_kept(tmp_path)


def lines_of_kept(folder: Path) -> list[str]:
    """Return the lines of output without deleting them."""
    return [line for path in sorted((folder / "logs").glob("0*")) for line in path.read_text().splitlines()]


def test_output_that_nobody_reads_makes_the_script_wait(tmp_path: Path) -> None:
    process = start(tmp_path, "import sys\nwhile True: sys.stdout.write('x' * 99 + chr(10))")
    wait_for(lambda: len(guard.segments(str(tmp_path / "logs"))) >= guard.MOST_SEGMENTS, within_s=60)
    time.sleep(0.3)
    size = sum(path.stat().st_size for path in (tmp_path / "logs").glob("0*"))
    assert size < (guard.MOST_SEGMENTS + 1) * (guard.SEGMENT_BYTES + guard.LONGEST_LINE)
    reader = LogReader(tmp_path / "logs")
    for _ in range(40):
        assert set(reader.read()) <= {None, "x" * 99}
    assert len(guard.segments(str(tmp_path / "logs"))) <= guard.MOST_SEGMENTS
    process.stop()


def test_lines_without_an_end_with_returns_and_of_any_length(tmp_path: Path) -> None:
    code = "import sys; w = sys.stdout.write; w('10%\\r20%\\n'); w('y' * 200000); w('\\nlast \\udc80')"
    process = start(tmp_path, f"import sys; sys.stdout.reconfigure(errors='surrogateescape'); {code}")
    assert ended(process).code == 0
    lines = [line for line in lines_of(tmp_path) if line is not None]
    assert lines[:2] == ["10%", "20%"]
    assert "".join(lines[2:-1]) == "y" * 200000
    assert lines[-1] == "last \ufffd"


def test_a_file_without_lines_is_not_kept_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "metrics"
    path.write_bytes(b"x" * (3 * SEGMENT_BYTES) + b"\nlast")
    reader, read = FileReader(path), list[str | None]()
    for _ in range(4):
        read += reader.read()
        assert len(reader._rest) < SEGMENT_BYTES
    assert "".join(map(str, read)) == "x" * (3 * SEGMENT_BYTES)
    assert reader.last() == ["last"]


def test_memory_is_limited(tmp_path: Path) -> None:
    process = start(tmp_path, "import time; x = bytearray(300_000_000); time.sleep(60)", memory_bytes=200_000_000)
    assert ended(process).memory
    process.stop()


def test_the_first_and_the_last_lines_are_kept() -> None:
    kept = TruncatedText(first=100, last=100)
    for number in range(1000):
        kept.add(f"line {number}")
    text = kept.text()
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith("line 998\nline 999\n")
    assert "lines are not kept" in text
    assert len(text) < 500
    assert kept.last_lines(2) == ["line 998", "line 999"]
