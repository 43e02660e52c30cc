"""Limits on what another user's files cost, and mount points, which are not part of a home."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.catalog.answer_file import read_answer
from orchestrator.catalog.verified_answer import check
from orchestrator.history import journal
from orchestrator.history.export_archive import export_home
from orchestrator.history.journal import Asked, Ended, Stopped, read_journal, to_line
from orchestrator.history.known_runs import recall_sweep
from orchestrator.home import run_files
from orchestrator.home.checkpoints import PROGRESS, read_progress
from orchestrator.home.directories import Home
from orchestrator.home.run_files import directory_bytes
from orchestrator.report.figures.style import NOT_XML
from orchestrator.search.base import Request
from orchestrator.site.mlflow_proxy import lists_files
from orchestrator.site.server import HOST_HEADER
from orchestrator.sweep.deletion import delete_sweep, finish_deletions
from orchestrator.system import mounts
from orchestrator.system.errors import UserError
from orchestrator.system.mounts import mount_points_below
from orchestrator.transition.evidence import Block
from tests.catalog.fabricated import write_sweep
from tests.sweep.sweeps import spec
from trainables.base import Evaluation, Outcome, Status

ANSWER = Path(__file__).parents[1] / "bench/results/answers/curriculum.json"


def test_a_link_in_place_of_a_run_has_no_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "run" / name).write_text("text")
    (tmp_path / "link").symlink_to("/")
    assert (directory_bytes(tmp_path / "run"), directory_bytes(tmp_path / "link")) == (12, 0)
    monkeypatch.setattr(run_files, "MOST_COUNTED_FILES", 2)
    assert directory_bytes(tmp_path / "run") == 0


def test_a_journal_has_limits_on_lines_and_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(to_line(Stopped("a")) + b"x\n" * 50 + to_line(Stopped("b")) + b"partial")
    entries = list(read_journal(path))
    assert [entry.mix for entry in entries if isinstance(entry, Stopped)] == ["a", "b"]
    messages = [entry for entry in entries if isinstance(entry, str)]
    assert len(messages) == 21
    assert messages[0].startswith(f"{path}, line 2, is damaged (ValueError: its checksum")
    assert messages[20] == f"{path} has 30 more damaged lines, which are ignored"
    monkeypatch.setattr(journal, "MOST_LINES", 5)
    ending = f"{path} is too long for a sweep: line {{}} and everything after it are ignored"
    assert list(read_journal(path))[-1] == ending.format(6)
    assert len(list(read_journal(path))) == 6
    assert list(read_journal(tmp_path / "missing")) == []


def test_a_journal_has_a_limit_on_values_and_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a megabyte of an archive once unpacked to a journal that took minutes to read."""
    path = tmp_path / "journal.jsonl"
    monkeypatch.setattr(journal, "MOST_BLOCKS", 10)
    monkeypatch.setattr(journal, "MOST_BLOCKS_READ", 20)
    lines = [to_line(Asked((Block("a+b", "a", 8, 8, seed),) * 10)) for seed in range(4)]
    path.write_bytes(b"".join(lines))
    entries = list(read_journal(path))
    assert [isinstance(entry, Asked) for entry in entries] == [True, True, True, False]
    assert entries[-1] == f"{path} is too long for a sweep: line 4 and everything after it are ignored"
    path.write_bytes(to_line(Asked((Block("a+b", "a", 8, 8, 0),) * 11)))
    [damaged] = read_journal(path)
    assert "it has 11 pairs; at most 10 are allowed" in str(damaged)
    path.write_bytes(b"".join(lines))
    monkeypatch.setattr(journal, "MOST_BLOCKS_READ", 100)
    monkeypatch.setattr(journal, "MOST_FOREIGN_VALUES", 60)
    assert [isinstance(entry, Asked) for entry in read_journal(path)] == [True] * 4
    (tmp_path / ".imported").touch()
    assert [isinstance(entry, Asked) for entry in read_journal(path)] == [True, False]


def test_a_failed_run_with_a_long_curve_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    failure = Outcome(Status.FAILED, 5, {}, {}, tuple(Evaluation(step, 1.0, {}) for step in range(100_001)), error="no")
    entries = [Ended("a" * 16, Request("a", 8, 0), replace(failure, curve=failure.curve[:last])) for last in (3, None)]
    path.write_bytes(b"".join(map(to_line, entries)))
    [kept, damaged] = read_journal(path)
    assert isinstance(kept, Ended)
    assert "a failed run has a long learning curve" in str(damaged)
    half = Ended("a" * 16, Request("a", 8, 0), replace(failure, curve=failure.curve[:60_000]))
    path.write_bytes(to_line(half) * 4)
    *ended, damaged = read_journal(path)
    assert len(ended) == 2
    assert damaged == f"{path} is too long for a sweep: line 3 and everything after it are ignored"


@pytest.mark.parametrize("request_", [Request("a", 10**30, 0), Request("a", 8, 10**30)])
def test_a_size_or_seed_that_no_space_has_is_damage(request_: Request, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(to_line(Ended("a" * 16, request_)))
    [damaged] = read_journal(path)
    assert "is not a run" in str(damaged)


def test_runs_that_do_not_fit_their_sweep_have_few_messages(tmp_path: Path) -> None:
    sweep = write_sweep(Home(tmp_path / "home"), spec(sizes=[8, 64], seeds=1))
    journal_file = sweep.files.journal
    failure = Outcome(Status.FAILED, 0, {}, {})
    lines = [to_line(Ended(f"{run:016x}", Request("gone", 8, run), failure)) for run in range(90)]
    journal_file.write_bytes(journal_file.read_bytes() + b"".join(lines))
    messages = [message for message in recall_sweep(sweep).damaged if "fit the sweep" in message]
    assert len(messages) == 21
    assert messages[-1] == f"{journal_file}: 70 more runs do not fit the sweep, and are ignored"


def test_progress_has_a_limit_on_lines(tmp_path: Path) -> None:
    line = {"key": "run", "step": 1, "loss": 1.0, "accuracy": {}}
    (tmp_path / PROGRESS).write_text(f"{json.dumps(line)}\n" * 3)
    assert list(read_progress(tmp_path, 3)) == ["run"]
    with pytest.raises(ValueError, match="has 3 lines, too many"):
        read_progress(tmp_path, 2)


@pytest.mark.parametrize("family", [[], {}, None, 5])
def test_an_answer_of_a_family_that_is_no_text_is_refused(family: object, tmp_path: Path) -> None:
    data = json.loads(ANSWER.read_text())
    data["space"]["family"] = family
    changed = tmp_path / "answer.json"
    changed.write_text(json.dumps(data))
    with pytest.raises(UserError, match="unknown family"):
        check(read_answer(changed))


def test_nothing_that_is_mounted_in_a_home_is_exported_or_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "a home")
    files = write_sweep(home).files
    [run, *_] = sorted(home.runs.iterdir())
    (tmp_path / "mountinfo").write_bytes(
        b"1 2 0:3 / / rw - ext4 d rw\n"
        + b"2 2 0:3 /x "
        + os.fsencode(home.runs).replace(b" ", rb"\040")
        + b" rw - ext4 d rw\n"
    )
    monkeypatch.setattr(mounts, "MOUNTS", tmp_path / "mountinfo")
    export_home(home, tmp_path / "home.tar.gz")  # A disk for all runs is part of the home.
    (tmp_path / "mountinfo").write_bytes(
        b"2 2 0:3 /x " + os.fsencode(run / "probes").replace(b" ", rb"\040") + b" rw - ext4 d rw\n"
    )
    assert mount_points_below(home.root) == [run / "probes"]
    with pytest.raises(UserError, match=r"would export files from elsewhere\. Unmount it first: `umount '"):
        export_home(home, tmp_path / "home.tar.gz")
    with pytest.raises(UserError, match="would delete files from elsewhere"):
        delete_sweep(files, pytest.fail)
    with pytest.raises(UserError, match="would delete files from elsewhere"):
        finish_deletions(home)
    assert files.journal.is_file()
    monkeypatch.setattr(mounts, "MOUNTS", tmp_path / "missing")
    assert mount_points_below(home.root) == []


@pytest.mark.parametrize(
    ("path", "body", "lists"),
    [
        ("graphql", b'{"query": "query { mlflowListArtifacts(input: {}) { files { path } } }"}', True),
        ("graphql", b'{"query": "query { a: mlflowList\\u0041rtifacts { files } }"}', True),
        ("graphql", b'[{"query": "mlflowGetRun"}]', True),
        ("graphql", b"not json", True),
        ("graphql", b'{"query": "query GetRun { mlflowGetRun(input: {runId: 1}) { run } }"}', False),
        ("ajax-api/2.0/mlflow/runs/search", b"{}", False),
    ],
)
def test_queries_that_list_files_are_known(path: str, body: bytes, lists: bool) -> None:
    assert lists_files(path, body) is lists


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        *(("127.0.0.1:5000", True), ("localhost", True), ("localhost:16000", True)),
        *(("localhost:evil.org", False), ("127.0.0.1:80@evil.org", False), ("evil.org", False), ("", False)),
    ],
)
def test_only_this_machine_is_a_host(host: str, is_here: bool) -> None:
    assert (HOST_HEADER.fullmatch(host) is not None) is is_here


def test_a_figure_has_no_characters_that_xml_forbids() -> None:
    assert NOT_XML.sub("?", "a\x00\x08\t\n\x1b\x7f\x9b\ufffe\uffff\ud800é漢😀") == "a??\t\n??????é漢😀"
