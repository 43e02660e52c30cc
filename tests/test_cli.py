"""The command line for a user: what is printed where, exit codes, and no half-written files."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest
import typer

from orchestrator.cli.main import describe
from orchestrator.home.directories import DATABASE
from orchestrator.home.new_home import make_home
from orchestrator.system.errors import SweepError, UserError
from tests.cli.program import ROOT, Program, imported, line, process, separate, started
from tests.record.servers import free_port
from tests.site.browsing import get, opened
from tests.waiting import wait_for

UNITS = """
question: Does it work?
family: tests.families:LogisticFamily
target: add
mixes: [add, add+prod]
sizes: {from: 8, to: 128, count: 8, multiple_of: 2}
seeds: 1
search: {method: bisection}
"""


@pytest.fixture
def units(tmp_path: Path) -> str:
    path = tmp_path / "units.yaml"
    path.write_text(UNITS)
    return str(path)


def test_show_lists_every_space_with_its_question_and_profiles(run: Program) -> None:
    output = run("show").succeeded()
    assert re.search(r"^add_vs_add_prod +Can a smaller .*\?", output, re.MULTILINE)
    assert "\nProfiles: paper, paper_fair, laptop_fair, laptop, quick, night, smoke\n" in output
    assert re.search(r"^Profiles of permutations, .*: paper, laptop, smoke$", output, re.MULTILINE)


def test_plan_prints_the_work_and_its_cost_and_writes_nothing(run: Program, units: str, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    output = run("plan", units, "--set", "search.method=grid").succeeded()
    assert re.search(r"mixes +add \(baseline\), add\+prod", output)
    assert re.search(r"units +8 12 18 26 40 58 86 128", output)
    assert re.search(r"estimate +16 runs in \d+ s \(simulated\)", " ".join(output.split()))
    # 128 x 128 + 128 parameters, 1e6 x 128^2 operations, two mixes
    assert re.search(r"\n +128 +16,500 +1\.6e\+10 +\d+ s +1 +2\.0\s", output)
    assert sorted(tmp_path.rglob("*")) == before


def test_plan_prints_the_tuning_and_its_cost(run: Program, units: str) -> None:
    block = "tune={settings: {haste: {from: 0.1, to: 9, scale: log}}, trials: 4, seeds: 2}"
    output = " ".join(run("plan", units, "--set", block).out.split())
    assert "haste 0.1 to 9 (log): up to 4 trials for every mix, up to 2 seeds at two sizes" in output
    # Each of two mixes has 4 trials at 2 sizes with 2 seeds.
    assert "of the time (32 runs)" in output
    assert "tuning" not in run("plan", units).out


def test_plan_prints_the_run_limit_and_sizes_that_do_not_fit_into_memory(run: Program, units: str) -> None:
    command = ("plan", units, "--set", "sizes={from: 8, to: 512, count: 12, multiple_of: 2}", "--set", "seeds=9")
    output = " ".join(run(*command, "--set", "search={method: pairs, max_runs: 40}").out.split())
    estimate = re.search(r"estimate (\d+) to (\d+) runs in .* \(simulated; the search stops at 80 runs\)", output)
    assert estimate is not None
    assert 0 < int(estimate[1]) < int(estimate[2]) < 80
    assert "max_runs 40 per mix" in output
    huge = ("plan", "add_vs_add_prod", "--profile", "smoke", "--set", "sizes=[8, 60000]")
    assert "runs at n_embed 60000 and above will not fit in memory" in " ".join(run(*huge).out.split())


def test_help_describes_each_command_in_a_sentence_at_80_columns(run: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = run("--help").out
    groups = dict(re.findall(r"^(\S[^:\n]*):\n((?:  .+\n)+)", output, re.MULTILINE))
    assert list(groups) == ["Options", "Run", "Results", "Set up", "Maintain"]
    lines = "".join(groups.values()).splitlines()
    assert all(line.endswith(".") and not line.endswith("..") and len(line) <= 80 for line in lines)


@pytest.mark.parametrize("words", [["show"], ["run", "--help"], ["sweeps", "--help"], ["show", "add_vs_add_prod"]])
def test_slow_imports_are_deferred(words: list[str]) -> None:
    code = f"from orchestrator.cli.main import main\ntry: main({words})\nexcept SystemExit: pass"
    assert imported(code, "torch", "ray", "mlflow", "matplotlib", "sklearn", "scipy") == []


def test_a_sweep_of_an_outside_family_runs_resumes_extends_and_syncs(run: Program, units: str, tmp_path: Path) -> None:
    first = run("run", units, "--engine=local").succeeded()
    (sweep,) = re.findall(r"^sweep (units-\S+)$", first, re.MULTILINE)
    assert re.search(r"^mix +units +parameters +runs$", first, re.MULTILINE)
    assert re.search(r"^add\+prod +[1-9]", first, re.MULTILINE)
    assert (tmp_path / "results/sweeps" / sweep / "transitions.png").is_file()
    trained = len(re.findall(r" seed 0: add ", first))

    finished = run("run", units, "--engine=local", "--resume").succeeded()
    assert f"{sweep} already has an answer" in finished
    assert finished[finished.index("size at") :] == first[first.index("size at") :]

    output = run("run", units, "--engine=local", "--extend", sweep, "--set", "seeds=2").succeeded()
    assert len(re.findall(r" seed 0: add ", output)) == 0
    assert len(re.findall(r" seed 1: add ", output)) == trained

    assert f"{sweep}: {trained} runs in sqlite:///" in run("sync").succeeded()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["rnu"], ["No such command 'rnu'. Did you mean 'run'?"]),
        (["run", "x", "--profle", "y"], ["No such option: --profle", "--profile", "orchestrator run --help"]),
        (["ui"], ["'results' has no record yet"]),
        (["sync"], ["has no sweep yet"]),
        (
            ["show", "add_vs_add_prod", "--stack", "many"],
            ["--stack many: must be a whole number from 1 to 4096, or auto; got 'many'"],
        ),
        (["show", "no.yaml"], ["there is no file 'no.yaml'"]),
        (["plan", "add_vs_add_prod", "--profile", "labtop"], ["unknown profile 'labtop'", "Did you mean 'laptop'?"]),
        (["run", "add_vs_add_prod", "--profile", "smoke", "--resume"], ["no unfinished sweep of add_vs_add_prod"]),
    ],
)
def test_a_mistake_on_the_command_line_is_explained(run: Program, arguments: list[str], expected: list[str]) -> None:
    message = run(*arguments, *(["--engine=local"] if "smoke" in arguments else [])).refused()
    assert message.startswith("error: ")
    assert all(part in message for part in expected)
    assert "Traceback" not in message


def test_a_sweep_that_needs_a_gpu_is_refused_without_one(
    run: Program, units: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    message = run("run", units, "--set", "resources.gpu_per_stack=0.5").refused()
    assert "each stack of this sweep needs 0.5 GPU, but no GPU was found here" in message
    assert "--set resources.gpu_per_stack=0" in message


def test_an_unreachable_tracking_server_stops_a_sweep_before_it_begins(
    run: Program, units: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"http://user:secret@127.0.0.1:{free_port()}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    ended = run("run", units, "--engine=local")
    assert ended.code == 1
    assert re.fullmatch(r"error: .*Connection refused.*\n", ended.err)
    assert "secret" not in ended.out + ended.err
    assert not Path("results/sweeps").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_full_disk_is_reported_in_one_line(units: str) -> None:
    done = process(["bash", "-c", f"{shlex.join(line('show', units))} > /dev/full"])
    assert done.code == 1
    assert re.fullmatch("error: the disk is full.*\n", done.err)


def test_a_bug_is_reported_in_one_line_and_debug_shows_the_traceback(run: Program, units: str) -> None:
    broken = ("show", units, "--set", "family=tests.families:BrokenFamily")
    ended = run(*broken)
    assert (ended.code, len(ended.err.splitlines())) == (1, 1)
    assert "ZeroDivisionError" in ended.err
    assert "--debug" in ended.err
    shown = run(*broken, "--debug")
    assert shown.code == 1
    assert "Traceback (most recent call last)" in shown.err
    assert "in tasks" in shown.err


def test_a_reader_that_stops_early_causes_no_error(units: str) -> None:
    done = process(["bash", "-c", f"set -o pipefail; '{sys.executable}' -m orchestrator show '{units}' | true"])
    assert "Traceback" not in done.err
    assert "Exception ignored" not in done.err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UserError("no"), 2, "no"),
        (SweepError("broke"), 1, "broke"),
        (OSError(errno.ENOSPC, "No space left on device", "/x/journal.jsonl"), 1, "cannot write '/x/journal.jsonl'"),
        (
            PermissionError(errno.EACCES, "Permission denied", "/x"),
            1,
            "permission denied: '/x' (Permission denied). Pass another path as --home or --output.",
        ),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"), 1, "No such file or directory '/x'"),
        (ValueError("odd\nsecond line"), 1, "ValueError: odd (this should not happen"),
        (typer.Abort(), 1, "aborted"),
    ],
)
def test_every_error_has_a_message_and_an_exit_code(error: Exception, code: int, words: str) -> None:
    message, exit_code = describe(error)
    assert exit_code == code
    assert words in message


def test_a_thread_still_running_does_not_change_the_exit_code() -> None:
    """Python stops such a thread in the middle of torch, which would end the process with SIGABRT."""
    ended = separate("check-family", "tests.sweep.broken:RestlessFamily")
    assert ended.code == 0, ended.err
    assert ended.err == ""
    assert ended.out.count("ok      ") == 7


@pytest.mark.slow
def test_an_installed_wheel_contains_the_search_spaces(tmp_path: Path) -> None:
    source = tmp_path / "source"  # A copy, because building leaves files that later builds would pick up.
    for name in ("orchestrator", "trainables", "search_spaces"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip, target = [sys.executable, "-m", "pip"], str(tmp_path / "installed")
    # Without a compiler, as the training step takes most of the time and other tests compile it.
    environment = {**os.environ, "CXX": "false", "CC": "false"}
    build: list[str | Path] = [*pip, "wheel", source, "--no-deps", "--no-build-isolation", "-q", "-w", tmp_path]
    process(build, environment=environment).succeeded()
    (wheel,) = tmp_path.glob("*.whl")
    process([*pip, "install", "-q", "--no-deps", "--target", target, wheel]).succeeded()
    code = f"import sys; sys.path.insert(0, {target!r}); from orchestrator.cli.main import main; main(['show'])"
    assert "add_vs_add_prod" in process([sys.executable, "-I", "-c", code], cwd=tmp_path).succeeded()


@pytest.mark.slow
def test_ui_serves_the_record_on_loopback_and_ends_its_servers(run: Program, units: str, tmp_path: Path) -> None:
    assert run("run", units, "--engine=local").code == 0
    own = free_port()
    with started("ui", "--home", tmp_path / "results", "--port", own) as server:
        try:
            assert server.stdout is not None
            first = server.stdout.readline().rpartition(" ")[2].strip()
            assert first.startswith(f"http://127.0.0.1:{own}/?token=")
            assert (tmp_path / "results" / f".ui-{own}.url").read_text() == f"{first}\n"
            address = opened(first)
            assert "units-" in get(address)
            names = wait_for(lambda: experiments_or_none(address), 180)
            main = psutil.Process(server.pid)
            sockets = [one for part in (main, *main.children(recursive=True)) for one in part.net_connections()]
            assert {one.laddr.port for one in sockets if one.status == "LISTEN"} == {own}, "MLflow opens no port"
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    assert "units" in names
    assert not list((tmp_path / "results").glob(".ui-*"))
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", own), timeout=5)


@pytest.mark.slow
def test_ui_completes_the_record_of_a_sweep_that_just_started(tmp_path: Path) -> None:
    """A sweep first leaves an empty file. MLflow's server would make tables in it at the same time as the sweep."""
    make_home(tmp_path)
    (tmp_path / DATABASE).touch()
    with started("ui", "--home", tmp_path, "--port", free_port()) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline().startswith("Serving all sweeps at")
            with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
                assert database.execute("SELECT name FROM experiments").fetchall() == [("Default",)]
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


def experiments_or_none(address: str) -> list[str]:
    """Return the experiments that MLflow behind an address has, or an empty list before it answers."""
    with suppress(OSError):
        query = f"{address}mlflow/ajax-api/2.0/mlflow/experiments/search"
        answer = json.loads(get(query, b'{"max_results": 10}', Content_Type="application/json"))
        return [experiment["name"] for experiment in answer["experiments"]]
    return []
