"""``report``, ``explain``, ``compare`` and ``export`` on the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.catalogue.reading import read_sweep
from orchestrator.home.files import Home
from orchestrator.report.words.explanation import explain
from tests.catalogue.fabricated import write_sweep
from tests.cli.program import Program
from tests.sweep.sweeps import spec


@pytest.fixture(scope="module", name="home")
def home_with_two_spaces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    write_sweep(Home(path))
    write_sweep(Home(path), spec(name="other", question="Does PROD help ADD here too?"))
    return path


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
        assert "there is no directory" in run(command, "other", "--home", home, "--output", path).refused()
    assert [path.name for path in tmp_path.iterdir()] == ["other.html"]


def test_sweeps_of_several_spaces_are_compared(run: Program, home: Path, tmp_path: Path) -> None:
    output = run("compare", "logistic", "other", "--home", home, "--output", tmp_path / "forest.svg").succeeded()
    for part in ("logistic", "other", "add+prod", "units ", "shown in 2 of 2 sweeps."):
        assert part in output
    assert (tmp_path / "forest.svg").stat().st_size > 5000


def test_tables_are_exported_into_a_new_directory(run: Program, home: Path, tmp_path: Path) -> None:
    assert len(run("export", "logistic", "--home", home, "--output", tmp_path / "tables").succeeded().splitlines()) == 7
    assert "already exists" in run("export", "logistic", "--home", home, "--output", tmp_path / "tables").refused()
    refusal = run("export", "logistic", "--home", home, "--output", tmp_path / "gone" / "tables").refused()
    assert "cannot be created (No such file or directory); name another directory with --output" in refusal
    assert "Missing option '--output'" in run("export", "logistic", "--home", home).err


def test_explain_wraps_at_the_width_of_the_terminal(
    run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    stored = read_sweep(home, write_sweep(home).id)
    paragraphs = [str(paragraph) for paragraph in explain(stored.spec, stored.answer, stored.state.value)]
    monkeypatch.setenv("FORCE_COLOR", "1")  # As on a terminal.
    monkeypatch.setenv("COLUMNS", "50")
    output = run("explain", "logistic", "--home", tmp_path).succeeded()
    # Commands stay on one line for copy and paste.
    assert max(len(row) for row in output.splitlines() if "python -m" not in row) <= 50
    words = re.sub(r"\x1b\[\d*m", "", " ".join(output.split()))
    assert words.startswith(" ".join([f"Sweep {stored.id}", *paragraphs]))


def test_the_first_step_after_an_interruption_is_to_resume(run: Program, tmp_path: Path) -> None:
    home = Home(tmp_path)
    sweep_id = write_sweep(home, answered=False).id
    *_, then, command = run("explain", "logistic", "--home", tmp_path).out.splitlines()
    assert then == "Next: Resume the sweep: it was interrupted."
    assert f"--resume {sweep_id}" in command
    assert "extend" not in command


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
