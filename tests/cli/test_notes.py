"""Notes and tags of sweeps: written, shown, found again, and refused where nobody could read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.home.files import Home
from tests.catalogue.fabricated import write_sweep
from tests.cli.program import Program, program
from tests.sweep.sweeps import spec


@pytest.fixture(name="run")
def run_program(capsys: pytest.CaptureFixture[str]) -> Program:
    return program(capsys)


def test_a_note_and_tags_are_shown_and_found_again(run: Program, tmp_path: Path) -> None:
    home = Home(tmp_path)
    sweep, other = write_sweep(home), write_sweep(home, spec(name="other"))
    assert run("note", "logistic", "--home", tmp_path).out == f"{sweep.id}: no note\n"
    said = run("note", "logistic", "the first of its kind", "--tag", "paper", "--tag", "a", "--home", tmp_path)
    assert said.out == f"{sweep.id}: #a #paper the first of its kind\n"
    run("note", "logistic", "--untag", "a", "--home", tmp_path)
    for words in (["status", "logistic"], ["sweeps"]):
        shown = run(*words, "--home", tmp_path).out
        assert "#paper the first of its kind" in shown
        assert "#a " not in shown
    tagged = run("sweeps", "--tag", "paper", "--home", tmp_path).out
    assert sweep.id in tagged
    assert other.id not in tagged
    status = json.loads(run("status", "logistic", "--json", "--home", tmp_path).out)
    assert (status["note"], status["tags"]) == ("the first of its kind", ["paper"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["note", "logistic", "--tag", "two words"], "the tag 'two words'"),
        (["note", "logistic", "--untag", "paper"], "there is no tag 'paper' to drop; there are: none"),
        (["note", "logistic", "a\x1b[2Jb"], "no control characters"),
        (["note", "lgistic", "x"], "Did you mean 'logistic'?"),
        (["sweeps", "--tag", "paper"], "has a tag: `note SWEEP --tag paper` gives one"),
    ],
)
def test_a_mistake_is_explained(run: Program, tmp_path: Path, words: list[str], said: str) -> None:
    write_sweep(Home(tmp_path))
    ended = run(*words, "--home", tmp_path)
    assert ended.code == 2
    assert said in ended.err


def test_damaged_notes_say_so_and_stop_nothing(run: Program, tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.sweep(write_sweep(home).id).notes.write_text("{")
    ended = run("status", "--home", tmp_path)
    assert ended.code == 0
    assert "notes.json cannot be read" in ended.out
