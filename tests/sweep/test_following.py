"""The line that is printed when a run has ended."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.search.base import Request
from orchestrator.space.runs import Run
from orchestrator.sweep.following import ended_text
from tests.sweep.sweeps import spec
from trainables.base import Outcome, Status

REQUEST = Request("add", 8, 0)
SCORES = {"add": 0.984, "prod": 0.5}
OUTCOME = Outcome(Status.FINISHED, 900, SCORES, dict.fromkeys(SCORES, 0.1), measures={"seconds": 200.4})
RUN = Run(REQUEST, spec().config(REQUEST), OUTCOME)


def test_a_finished_run_shows_its_scores_and_its_time() -> None:
    assert ended_text(RUN, ["add"]) == "add 0.98, finished, 900 steps in 3 min 20 s"
    assert ended_text(RUN, ["add", "prod"]).startswith("add 0.98, prod 0.50, ")


def test_a_reused_run_shows_where_it_was_trained() -> None:
    words = ended_text(replace(RUN, trained_for="other-1"), ["add"])
    assert words == "add 0.98, finished, 900 steps in 3 min 20 s, trained for other-1"


def test_runs_of_milliseconds_show_no_time() -> None:
    for measures in ({"seconds": 0.4}, {}):
        run = replace(RUN, outcome=replace(OUTCOME, measures=measures))
        assert ended_text(run, ["add"]) == "add 0.98, finished, 900 steps"


def test_a_failed_run_shows_its_exception() -> None:
    error = "Traceback (most recent call last):\n  File x\nValueError: no data\n"
    run = replace(RUN, outcome=Outcome(Status.FAILED, 0, {}, {}, error=error))
    assert ended_text(run, ["add"]) == "failed: ValueError: no data"
