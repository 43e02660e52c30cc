"""``sweeps``, ``status``, ``logs``, ``report``, ``explain``, ``compare`` and ``export`` on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from orchestrator.catalog.reading import read_sweep
from orchestrator.home.directories import Home
from orchestrator.report.sentences.explanation import explain
from tests.catalog.fabricated import failed, runs_of, write_sweep
from tests.cli.program import Program
from tests.sweep.sweeps import spec


@pytest.fixture(scope="module", name="home")
def home_with_two_spaces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    write_sweep(Home(path))
    write_sweep(Home(path), spec(name="other", question="Does PROD help ADD here too?"))
    return path


def test_sweeps_lists_the_newest_first(run: Program, home: Path) -> None:
    ids = Home(home).sweep_ids()
    output = run("sweeps", "--home", home).succeeded()
    assert all(name in output for name in (*ids, "finished"))
    listed = json.loads(run("sweeps", "--home", home, "--json").out)
    assert [row["id"] for row in listed] == ids
    assert all(row["disk_bytes"] > 0 for row in listed)


def test_sweeps_can_be_listed_by_state(run: Program, tmp_path: Path) -> None:
    finished = write_sweep(Home(tmp_path)).id
    interrupted = write_sweep(Home(tmp_path), spec(name="other"), answered=False).id
    write_sweep(Home(tmp_path), spec(name="torn")).files.spec.write_text("{")  # The state of this one is not known.
    for state, sweep_id in (("finished", finished), ("interrupted", interrupted)):
        listed = json.loads(run("sweeps", "--home", tmp_path, "--state", state, "--json").out)
        assert [row["id"] for row in listed] == [sweep_id]
    assert run("sweeps", "--home", tmp_path, "--state", "running").out == f"{tmp_path} has no running sweep\n"
    assert "unreadable" in run("sweeps", "--home", tmp_path).out
    assert "'finished'" in run("sweeps", "--home", tmp_path, "--state", "done").refused()


def test_an_empty_home_has_no_sweeps(run: Program, tmp_path: Path) -> None:
    assert "has no sweep yet" in run("sweeps", "--home", tmp_path).out
    assert json.loads(run("sweeps", "--home", tmp_path, "--json").out) == []
    ended = run("status", "--home", tmp_path)
    assert (ended.code, "has no sweep yet" in ended.err) == (2, True)


def test_status_shows_the_newest_or_the_named_sweep(run: Program, home: Path) -> None:
    newest, older = Home(home).sweep_ids()
    for words, sweep_id in (((), newest), ((older,), older), (("logistic",), older), ((older[:-2],), older)):
        assert sweep_id in run("status", *words, "--home", home).succeeded()
    with_runs = run("status", "logistic", "--home", home, "--runs").out
    assert all(spec().make_family().key(config) in with_runs for config in runs_of(spec()))
    assert json.loads(run("status", "--home", home, "--json").out)["id"] == newest


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["status", "lgistic"], "Did you mean 'logistic'?"),
        (["logs", "zzzz"], "has no run 'zzzz'"),
        (["logs"], "Missing argument 'RUN'"),
    ],
)
def test_mistakes_in_arguments_of_status_and_logs_are_explained(
    run: Program, home: Path, words: list[str], message: str
) -> None:
    error = run(*words, "--home", home).refused()
    assert message in error
    assert "Traceback" not in error


def test_a_report_is_written_to_the_given_path_or_the_sweeps_directory(
    run: Program, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (sweep,) = [name for name in Home(home).sweep_ids() if name.startswith("logistic-")]
    report = Home(home).sweep(sweep).directory / "report.html"
    ended = run("report", "logistic", "--home", home)
    assert ended.code == 0, ended.err
    assert ended.out == f"report  {report}\n"
    assert "Does PROD help ADD?" in report.read_text()
    run("report", "other", "--home", home, "--output", "other.html")
    assert "here too?" in (tmp_path / "other.html").read_text()
    assert run("report", "other", "--home", home, "--output", tmp_path).code == 2
    for command in ("report", "figure"):
        path = tmp_path / "new" / "other.svg"
        assert "in a directory that exists" in run(command, "other", "--home", home, "--output", path).refused()
    assert [path.name for path in tmp_path.iterdir()] == ["other.html"]


def test_sweeps_of_several_spaces_are_compared(run: Program, home: Path, tmp_path: Path) -> None:
    output = run("compare", "logistic", "other", "--home", home, "--output", tmp_path / "forest.svg").succeeded()
    shared = "other is not counted for add+prod, because logistic has all of its pairs."
    for part in ("logistic", "other", "add+prod", "units ", "shown in 1 of 1 sweep.", shared):
        assert part in output
    assert (tmp_path / "forest.svg").stat().st_size > 5000


def test_tables_are_exported_into_a_new_directory(run: Program, home: Path, tmp_path: Path) -> None:
    assert len(run("export", "logistic", "--home", home, "--output", tmp_path / "tables").succeeded().splitlines()) == 7
    assert "already exists" in run("export", "logistic", "--home", home, "--output", tmp_path / "tables").refused()
    assert "Missing option '--output'" in run("export", "logistic", "--home", home).err


def test_explain_wraps_at_the_width_of_the_terminal(run: Program, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = read_sweep(Home(home), "logistic")
    paragraphs = [str(paragraph) for paragraph in explain(stored.spec, stored.answer, stored.state.value)]
    monkeypatch.setenv("FORCE_COLOR", "1")  # As on a terminal.
    monkeypatch.setenv("COLUMNS", "50")
    output = run("explain", "logistic", "--home", home).succeeded()
    # Commands stay on one line for copy and paste.
    assert max(len(row) for row in output.splitlines() if "  orchestrator run " not in row) <= 50
    words = re.sub(r"\x1b\[\d*m", "", " ".join(output.split()))
    assert words.startswith(" ".join(" ".join([f"Sweep {stored.id}", *paragraphs]).split()))


def test_interrupted_sweeps_and_failed_runs_are_explained(run: Program, tmp_path: Path) -> None:
    home = Home(tmp_path)
    sweep = write_sweep(home, runs=runs_of(spec())[:2], outcomes={1: failed()}, answered=False)
    *_, then, command = run("explain", "logistic", "--home", tmp_path).out.splitlines()
    assert then == "Next: Resume the sweep: it was interrupted."
    assert f"--resume {sweep.id}" in command
    assert "extend" not in command
    good, bad = (sweep.spec.make_family().key(config) for config in runs_of(spec())[:2])
    assert "test accuracy of add" in run("logs", good[:12], "--home", tmp_path).out
    assert "ZeroDivisionError: by zero" in run("logs", bad, "--home", tmp_path).out


def test_mixes_with_separate_questions_are_not_compared(run: Program, tmp_path: Path) -> None:
    """They are not compared within a sweep or between variants, in words, figure, caption or page."""
    home = Home(tmp_path / "home")
    for variant in ("one", "two"):
        write_sweep(home, spec(family="tests.families:RivalFamily", variant=variant))
    sweep = home.sweep_ids()[0]
    for words in (
        ("compare", "logistic", "--output", tmp_path / "compared.svg"),
        ("figure", sweep, "--output", tmp_path / "one.svg"),
        ("explain", sweep),
        ("status", sweep),
        ("report", sweep, "--output", tmp_path / "page.html"),
    ):
        output = run(*words, "--home", home.root).succeeded()
        assert not re.search("baseline|fewer", output), words
    for path in (tmp_path / "compared.svg", tmp_path / "one.svg", tmp_path / "page.html"):
        seen = re.sub(r"<script.*?</script>|<style.*?</style>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search("baseline|times fewer|fewer parameters", seen), path.name
