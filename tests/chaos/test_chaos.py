"""Tests of the fault injection and of its counting, and ten faults."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from orchestrator.home.directories import CONTENTS, Home, seal
from orchestrator.home.run_files import OUTCOME
from tests.chaos.__main__ import drawn, main, not_seen
from tests.chaos.faults import FAULTS
from tests.chaos.program import journalled
from tests.chaos.rounds import (
    MOST_TOGETHER,
    ROUNDS_A_SWEEP,
    RUNS,
    Counted,
    Played,
    Round,
    answer_in,
    count,
    grouped,
    table,
    totals,
    truth,
)


def test_every_kind_of_fault_occurs_before_any_repeats() -> None:
    batches = drawn(2 * len(FAULTS), list(FAULTS), np.random.default_rng(3))
    assert Counter(fault for _, faults in batches for fault in faults) == dict.fromkeys(FAULTS, 2)
    assert max(len(faults) for _, faults in batches) == ROUNDS_A_SWEEP
    for own, faults in batches:
        assert not any(FAULTS[fault].cluster if own else FAULTS[fault].own for fault in faults)
    assert batches == drawn(2 * len(FAULTS), list(FAULTS), np.random.default_rng(3))


def test_some_faults_occur_while_the_sweep_restarts() -> None:
    rng = np.random.default_rng(3)
    faults = [str(item) for item in rng.permutation(list(FAULTS) * 8)]
    groups = grouped(faults, rng)
    assert [fault for group in groups for fault in group] == faults
    assert max(map(len, groups)) == MOST_TOGETHER
    early = [fault for group in groups for fault in group[1:]]
    can = [fault for fault in faults if FAULTS[fault].any_time]
    assert all(FAULTS[fault].any_time for fault in early)
    assert 0.3 < len(early) / len(can) < 0.7


GOOD, BAD = Counted(0, 0, 0, same_answer=True), Counted(2, 1, 3, same_answer=False)
ROUNDS = (Round("SIGTERM", True, True, 1, 4.0), Round("SIGTERM", False, False, 2, 9.0, early=True))


def test_faults_without_effect_do_not_count_and_are_repeated() -> None:
    assert "| SIGTERM | 1 | 1 | 0 | 1 | 1 | 4.0, 4.0 |" in table([Played(ROUNDS, GOOD, 30.0)])
    assert not_seen(["SIGTERM", "SIGTERM", "disk full"], ROUNDS) == ["SIGTERM", "disk full"]


def test_a_sweep_that_lost_anything_fails() -> None:
    assert [item.good for item in (BAD, GOOD)] == [False, True]
    assert totals([Played(ROUNDS, BAD, 30.0), Played(ROUNDS, GOOD, 20.0)]) == (
        f"2 sweeps of {RUNS} runs: 2 runs lost, 1 doubled, 3 changed, 1 different answers; "
        "2 faults seen in 50 s: 25.0 s per fault"
    )


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


def test_the_last_answer_counts() -> None:
    output = "sweep a\n\nadd: size at 80%\nold\n\nfigure x\nerror\n\nadd: size at 80%\nnew 1\nnew 2\n\n"
    output += "next    Ask more\n  run it --home here\nfigure x\n"
    assert answer_in(output) == "new 1\nnew 2"
    assert answer_in("nothing") == ""


@pytest.mark.night
@pytest.mark.timeout(3600)
def test_ten_faults_cost_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rounds", "10", "--seed", "1"]) == 0, capsys.readouterr().out
