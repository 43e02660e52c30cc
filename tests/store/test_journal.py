"""The journal: what is appended is read back, whatever a crash does to the last line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import SweepError
from orchestrator.search.base import Request
from orchestrator.store.journal import Answered, BadLine, Ended, Journal, read_journal, without
from orchestrator.store.remains import PROGRESS, note_progress, read_progress
from trainables.base import Evaluation, Outcome, Status


def entry(seed: int = 0, status: Status = Status.FINISHED) -> Ended:
    outcome = Outcome(status, 300, {"add": 0.5}, {"add": 0.2}, (Evaluation(100, 1.5, {"add": 0.25}),), {"seconds": 1.0})
    return Ended(
        f"key{seed}", Request("add+prod", 16, seed, 1 + seed % 2), outcome, reused_from="older" if seed % 2 else ""
    )


def write(path: Path, count: int) -> list[Ended]:
    entries = [entry(seed) for seed in range(count)]
    journal = Journal(path)
    for one in entries:
        journal.append(one)
    journal.close()
    return entries


def test_a_journal_from_before_runs_of_more_steps_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    (one,) = write(path, 1)
    path.write_text(path.read_text().replace('"steps_factor":1,', ""))
    assert "steps_factor" not in path.read_text()
    assert list(read_journal(path)) == [one]


def test_settings_and_end_of_a_run_come_back(tmp_path: Path) -> None:
    wanted = Request("add", 8, 0, values=(("training.learning_rate", 0.003), ("training.clip", 1.0)), until=0.8)
    tuned = replace(entry(), request=wanted)
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(tuned)
    journal.append(entry(1))
    journal.close()
    assert list(read_journal(tmp_path / "journal.jsonl")) == [tuned, entry(1)]
    plain = (tmp_path / "journal.jsonl").read_text().splitlines()[2]
    assert not {"values", "until"} & json.loads(plain).keys()
    torn = (tmp_path / "journal.jsonl").read_text().replace("0.003", '"fast"')
    (tmp_path / "journal.jsonl").write_text(torn)
    (bad, _) = read_journal(tmp_path / "journal.jsonl")
    assert bad == BadLine(2, "ValueError: 'fast' stands where there should be float")


def test_evaluations_from_before_measures_are_read_and_measures_come_back(tmp_path: Path) -> None:
    """In the journal and in a stack's progress."""
    measured = Evaluation(100, 1.5, {"add": 0.25}, {"steps": 0.5, "add": 3.0})
    plain = Evaluation(100, 1.5, {"add": 0.25})
    for place, evaluation in enumerate((measured, plain)):
        directory = tmp_path / str(place)
        directory.mkdir()
        ended = replace(entry(), outcome=replace(entry().outcome, curve=(evaluation,)))
        journal = Journal(directory / "journal.jsonl")
        journal.append(ended)
        journal.close()
        note_progress(directory, [("key", evaluation)])
        if evaluation is plain:
            for path in (directory / "journal.jsonl", directory / PROGRESS):
                text = path.read_text()
                assert '"measures"' in text
                path.write_text(text.replace(', "measures": {}', "").replace('},"measures":{}}]', "}}]"))
                assert path.read_text().count('"measures"') == text.count('"measures"') - 1
        assert list(read_journal(directory / "journal.jsonl")) == [ended]
        assert read_progress(directory) == {"key": (evaluation,)}


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "sweep" / "journal.jsonl"
    entries = write(path, 3)
    journal = Journal(path)
    journal.append(Answered())
    journal.close()
    assert list(read_journal(path)) == [*entries, Answered()]


@given(cut=st.integers(min_value=1, max_value=200))
def test_a_torn_last_line_is_forgotten_and_written_over(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("torn") / "journal.jsonl"
    entries = write(path, 3)
    content = path.read_bytes()
    last_line = len(content) - content[:-1].rfind(b"\n") - 1
    path.write_bytes(content[: -min(cut, last_line - 1)])
    assert list(read_journal(path)) == entries[:2]
    journal = Journal(path)
    journal.append(entry(7))
    journal.close()
    assert list(read_journal(path)) == [*entries[:2], entry(7)]


def test_no_journal_is_an_empty_one(tmp_path: Path) -> None:
    assert list(read_journal(tmp_path / "none")) == []


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "nonsense",
        "[1]",
        json.dumps({"kind": "journal", "schema": 99}),
        json.dumps({"kind": "ended", "key": "x"}),
        "\x00\r\x00",
    ],
)
def test_a_bad_line_is_numbered_and_the_others_are_read(tmp_path: Path, line: str) -> None:
    path = tmp_path / "journal.jsonl"
    first, second = write(path, 2)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:2], line.encode(), *lines[2:]]))
    found = list(read_journal(path))
    assert [found[0], found[2]] == [first, second]
    bad = found[1]
    assert isinstance(bad, BadLine)
    assert (bad.number, bool(bad.why)) == (3, True)
    path.write_bytes(without(path, [bad]))
    assert list(read_journal(path)) == [first, second]


def test_a_size_that_is_no_number_is_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, 1)
    path.write_text(path.read_text().replace('"size":16', '"size":"16"'))
    assert list(read_journal(path)) == [BadLine(2, "ValueError: '16' stands where there should be int")]


def test_a_bad_head_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    whole, (one,) = path, write(path, 1)
    content = whole.read_bytes()
    path.write_bytes(b"?" + content)
    bad, read = read_journal(path)
    assert read == one
    assert isinstance(bad, BadLine)
    path.write_bytes(without(path, [bad]))
    assert path.read_bytes() == content


def test_a_journal_of_another_version_is_not_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, 1)
    path.write_text(path.read_text().replace('"schema":1', '"schema":2'))
    with pytest.raises(SweepError, match="schema 2, and this version of the program reads 1"):
        list(read_journal(path))
