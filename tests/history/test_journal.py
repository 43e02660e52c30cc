"""The journal: appended entries are read back, and every damaged line is detected."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.history.journal import (
    Answered,
    Asked,
    Begun,
    Ended,
    Journal,
    JournalEntry,
    Stopped,
    read_journal,
    recall,
    to_line,
)
from orchestrator.history.known_runs import recall_sweep
from orchestrator.history.sweeps import create_sweep
from orchestrator.home.directories import Home
from orchestrator.home.run_store import RunStore
from orchestrator.search.base import Request
from orchestrator.transition.evidence import Block
from tests.sweep.sweeps import spec
from trainables.base import Evaluation, Outcome, Status

TUNED = Request("add", 8, 0, values=(("training.learning_rate", 0.003), ("training.clip", 1.0)), until=0.8)


def outcome(status: Status = Status.FINISHED) -> Outcome:
    scores = {"add": 0.25, "prod": 0.5}
    curve = (Evaluation(100, 1.5, scores, {"steps": 0.5, "add": 3.0}),)
    return Outcome(status, 300, scores, {"add": 0.2, "prod": 0.2}, curve, {"seconds": 1.0})


def entry(seed: int = 0) -> Ended:
    failure = outcome(Status.FAILED) if seed % 3 == 2 else None
    return Ended(f"key{seed}", Request("add+prod", 16, seed, 1 + seed % 2), failure, "older" if seed % 2 else "")


def write(path: Path, count: int) -> list[Ended]:
    entries = [entry(seed) for seed in range(count)]
    with Journal(path) as journal:
        for item in entries:
            journal.append(item)
    return entries


def test_appended_entries_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "sweep" / "journal.jsonl"
    assert list(read_journal(path)) == []
    begun = Begun("2026-01-01T00:00:00+00:00", {"versions": {"numpy": "2"}})
    failed, reused, tuned = entry(2), entry(1), Ended("tuned", TUNED)
    entries: list[JournalEntry] = [begun, tuned, failed, reused, Stopped("add"), Answered()]
    with Journal(path) as journal:
        for item in entries:
            journal.append(item)
    assert list(read_journal(path)) == entries
    for text in path.read_text().splitlines():
        json.loads(text)


def test_recall_combines_the_journal_with_run_directories(tmp_path: Path) -> None:
    home = Home(tmp_path)
    sweep = create_sweep(spec(), home)
    finished = sweep.run("key0", Request("add+prod", 16, 0), outcome(), "older")
    failed = sweep.run("key1", Request("add+prod", 16, 1), outcome(Status.FAILED))
    again = replace(failed, outcome=outcome())
    trial = sweep.run("tuned", Request("add+prod", 16, 0, values=(("haste", 0.5),), until=0.8), outcome())
    lost = sweep.run("key5", Request("add+prod", 16, 2), outcome())
    for run in (finished, trial, again):
        RunStore(home).put(run.key, run.outcome, {})
    with Journal(sweep.files.journal) as journal:
        for run in (trial, failed, finished, again, lost):
            journal.append(Ended.of(run))
        journal.append(Stopped("add"))
    memory = recall_sweep(sweep)
    assert (memory.ended, memory.trials) == ((finished, again), (trial,))  # The later entry of a failed run wins.
    assert memory.lost == ("key5",)
    assert memory.stopped == {"add"}
    assert not memory.answered
    [output] = memory.damaged
    assert "key5 is damaged (FileNotFoundError" in output


@given(cut=st.integers(min_value=1, max_value=200))
def test_a_torn_last_line_is_dropped_and_overwritten(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("torn") / "journal.jsonl"
    lines = write(path, 3)
    content = path.read_bytes()
    last_line = len(content) - content[:-1].rfind(b"\n") - 1
    path.write_bytes(content[: -min(cut, last_line - 1)])
    assert list(read_journal(path)) == lines[:2]
    with Journal(path) as journal:
        journal.append(entry(7))
    assert list(read_journal(path)) == [*lines[:2], entry(7)]


@given(at=st.integers(min_value=0), bit=st.integers(min_value=0, max_value=7))
def test_every_flipped_bit_is_detected(tmp_path_factory: pytest.TempPathFactory, at: int, bit: int) -> None:
    path = tmp_path_factory.mktemp("flipped") / "journal.jsonl"
    lines = write(path, 3)
    content = bytearray(path.read_bytes())
    begin, end = (len(to_line(entry(0))), len(to_line(entry(0)) + to_line(entry(1))) - 1)  # Without the newline.
    place = begin + at % (end - begin)
    content[place] ^= 1 << bit
    path.write_bytes(content)
    actual = list(read_journal(path))
    assert actual[0] == lines[0]
    assert actual[-1] == lines[-1]
    assert [type(item) for item in actual[1:-1]] in ([str], [str, str])  # Two if the bit created a newline.


def test_pairs_without_end_are_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence takes time for each pair, and every listing adds it up."""
    monkeypatch.setattr("orchestrator.history.journal.MOST_BLOCKS", 5)
    files = Home(tmp_path).sweep("a-1")
    files.directory.mkdir(parents=True)
    blocks = tuple(Block("add+prod", "add", 8, 8, seed) for seed in range(4))
    more = tuple(Block("add+prod", "add", 16, 16, seed) for seed in range(4))
    with Journal(files.journal) as journal:
        journal.append(Asked(blocks))
        assert recall(files).damaged == ()
        journal.append(Asked(more))
    memory = recall(files)
    assert memory.blocks == (*blocks, more[0])
    assert "has 8 pairs; those after the first 5 are ignored" in memory.damaged[0]
