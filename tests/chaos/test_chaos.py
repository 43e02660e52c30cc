"""Ten faults, and a test of the counting of their damage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.home.directories import Home
from orchestrator.home.run_files import OUTCOME
from orchestrator.home.seals import CONTENTS, seal
from tests.chaos.__main__ import main
from tests.chaos.program import journalled
from tests.chaos.rounds import Counted, count, truth


def test_lost_doubled_and_changed_runs_are_counted(tmp_path: Path) -> None:
    """The home has a spoiled run, a run that is journalled twice and a run with another outcome."""
    expected, home, log = truth(tmp_path / "home"), tmp_path / "home", tmp_path / "log"
    log.write_text(f"\nadd: size at 80% of the asymptote\n{expected.answer}\n\nfigure x\n")
    assert count(home, log, expected) == Counted(0, 0, 0, same_answer=True)
    first, second, third = journalled(home)[:3]
    (home / "runs" / first.key / OUTCOME).write_bytes(b"")
    [sweep_id] = Home(home).sweep_ids()
    journal = Home(home).sweep(sweep_id).journal
    lines = journal.read_text().splitlines()
    [twice] = [line for line in lines if f'"{second.key}"' in line]
    journal.write_text("\n".join([*lines, twice, ""]))
    directory = home / "runs" / third.key
    other = json.loads((directory / OUTCOME).read_text())
    other["steps"] += 1
    (directory / OUTCOME).write_text(json.dumps(other))
    (directory / CONTENTS).unlink()
    seal(directory)
    log.write_text("nothing")
    assert count(home, log, expected) == Counted(1, 1, 1, same_answer=False)


@pytest.mark.night
@pytest.mark.timeout(3600)
def test_ten_faults_cost_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rounds", "10", "--seed", "1"]) == 0, capsys.readouterr().out
