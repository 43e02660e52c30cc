"""Two rounds of chaos, and that its counting counts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.chaos.__main__ import drawn, main, table
from tests.chaos.faults import FAULTS
from tests.chaos.rounds import Round, answer_in


def test_every_kind_of_fault_comes_before_any_comes_again() -> None:
    faults = drawn(2 * len(FAULTS), np.random.default_rng(3))
    for half in (faults[: len(FAULTS)], faults[len(FAULTS) :]):
        assert {fault for fault, _ in half} == set(FAULTS)
    assert {after for _, after in faults} <= set(range(1, 11))
    assert faults == drawn(2 * len(FAULTS), np.random.default_rng(3))


def test_what_was_lost_is_in_the_table() -> None:
    rounds = [Round("SIGTERM", 3, 1, lost=2, doubled=1, changed=0, same_answer=False, seconds=1.0)]
    assert not rounds[0].good
    assert "| SIGTERM | 1 | 1 | 2 | 1 | 0 | 1 |" in table(rounds)


def test_the_last_answer_counts() -> None:
    said = "sweep a\n\ntarget add\nold\n\nfigure x\nerror\n\ntarget add\nnew 1\nnew 2\n\nfigure x\n"
    assert answer_in(said) == "new 1\nnew 2"
    assert answer_in("nothing") == ""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_two_faults_cost_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rounds", "2", "--seed", "1"]) == 0, capsys.readouterr().out
