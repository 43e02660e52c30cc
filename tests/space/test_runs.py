"""Evidence for a transition: searchers and answers use the same rule."""

from __future__ import annotations

import pytest

from orchestrator.report.answer import answer
from orchestrator.search.base import Request
from orchestrator.space.runs import Run
from orchestrator.transition.types import Point
from tests.sweep.sweeps import spec
from trainables.base import Outcome, Status

RUN = Request("add", 16, 1)


def outcome(status: Status) -> Outcome:
    """Return an outcome with an accuracy above the floor, which no family should give a diverged run."""
    return Outcome(status, 3, {"add": 0.7}, {"add": 0.1}, measures={"seconds": 2.0})


@pytest.mark.parametrize(("status", "accuracy"), [(Status.FINISHED, 0.7), (Status.DIVERGED, 0.1)])
def test_searcher_and_answer_get_the_same_point_of_a_run(status: Status, accuracy: float) -> None:
    sweep_spec, ended = spec(), outcome(status)
    run = Run(RUN, sweep_spec.config(RUN), ended)
    point = run.point("add")
    assert point == Point(16, 1, accuracy, 0.1)
    assert point.cost == 2.0
    assert answer(sweep_spec, [run]).mix("add").target.transition.points == (Point(16, 1, accuracy, 0.1),)
    assert run.is_finished == (status is Status.FINISHED)


def test_a_failed_run_does_not_count_as_evidence() -> None:
    sweep_spec, failed = spec(), Outcome(Status.FAILED, 0, {}, {}, error="a bug")
    run = Run(RUN, sweep_spec.config(RUN), failed)
    assert run.point("add") is None
    assert answer(sweep_spec, [run]).mix("add").target.transition.points == ()
    assert not run.is_finished


@pytest.mark.parametrize(
    ("request_", "counts"),
    [
        (RUN, True),
        (Request("add", 16, 1, until=0.8), False),
        (Request("add", 16, 1, values=(("haste", 2.0),)), True),
        (Request("prod first", 16, 1, phase=1), False),
        (Request("prod first", 16, 1), True),
    ],
)
def test_unfinished_runs_do_not_count(request_: Request, counts: bool) -> None:
    phases = [{"mix": "prod", "share": 0.5}, {"mix": "add", "share": 0.5}]
    sweep_spec = spec(mixes=["add", {"name": "prod first", "phases": phases}])
    accuracy = {"add": 0.7, "prod": 0.7}
    finished = Outcome(Status.FINISHED, 3, accuracy, dict.fromkeys(accuracy, 0.1))
    run = Run(request_, sweep_spec.config(request_), finished)
    assert (run.counts_for_answer, run.is_finished) == (counts, counts)
    assert answer(sweep_spec, [run]).mix(request_.mix).runs == counts
