"""Limits on what another user's files cost, and mount points, which are not part of a home."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from orchestrator.catalog.answer_file import check, read_answer
from orchestrator.history import journal
from orchestrator.history.archive import export_home
from orchestrator.history.journal import Stopped, read_journal, to_line
from orchestrator.home import run_files
from orchestrator.home.checkpoints import PROGRESS, read_progress
from orchestrator.home.directories import Home
from orchestrator.home.run_files import directory_bytes
from orchestrator.report.figures.style import NOT_XML
from orchestrator.site.mlflow_proxy import lists_files
from orchestrator.site.server import HOST_HEADER
from orchestrator.sweep.deletion import delete_sweep, finish_deletions
from orchestrator.system import mounts
from orchestrator.system.errors import UserError
from orchestrator.system.mounts import mount_points_below
from tests.catalog.fabricated import write_sweep

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
    assert list(read_journal(path))[-1] == f"{path} has more than 5 lines; the others are ignored"
    assert len(list(read_journal(path))) == 6
    assert list(read_journal(tmp_path / "missing")) == []


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
