"""Evidence for a transition: searchers and answers use the same rule."""

from __future__ import annotations

import pytest

from orchestrator.report.answer import answer
from orchestrator.search.base import Request
from orchestrator.space.observations import is_evidence, observe, point_of, stands_for_its_size
from orchestrator.transition.types import Point
from tests.sweep.sweeps import spec
from trainables.base import Outcome, Status

RUN = Request("add", 16, 1)


def outcome(status: Status) -> Outcome:
    """Return an outcome with an accuracy above the floor, which no family should give a diverged run."""
    return Outcome(status, 3, {"add": 0.7}, {"add": 0.1}, measures={"seconds": 2.0})


@pytest.mark.parametrize(("status", "accuracy"), [(Status.FINISHED, 0.7), (Status.DIVERGED, 0.1)])
def test_searcher_and_answer_treat_a_run_the_same_way(status: Status, accuracy: float) -> None:
    sweep_spec, ended = spec(), outcome(status)
    config = sweep_spec.config(RUN)
    seen = observe(ended, "add")
    assert seen is not None
    assert (seen.accuracy, seen.floor, seen.cost) == (accuracy, 0.1, 2.0)
    assert point_of(config, ended, "add") == Point(16, 1, accuracy, 0.1)
    assert answer(sweep_spec, [(config, ended)]).mix("add").target.transition.points == (Point(16, 1, accuracy, 0.1),)
    assert stands_for_its_size(config, ended) == (status is Status.FINISHED)


def test_a_failed_run_does_not_count_as_evidence() -> None:
    sweep_spec, failed = spec(), Outcome(Status.FAILED, 0, {}, {}, error="a bug")
    config = sweep_spec.config(RUN)
    assert observe(failed, "add") is None
    assert point_of(config, failed, "add") is None
    assert answer(sweep_spec, [(config, failed)]).mix("add").target.transition.points == ()
    assert not stands_for_its_size(config, failed)


@pytest.mark.parametrize(
    ("request_", "counts"),
    [
        (RUN, True),
        (Request("add", 16, 1, until=0.8), False),
        (Request("add", 16, 1, values=(("haste", 2.0),)), True),
    ],
)
def test_unfinished_runs_do_not_count(request_: Request, counts: bool) -> None:
    config = spec().config(request_)
    assert (request_.is_evidence, is_evidence(config)) == (counts, counts)
    assert stands_for_its_size(config, outcome(Status.FINISHED)) == counts


def test_an_early_phase_does_not_count_as_evidence_about_its_arm() -> None:
    assert not Request("add", 16, 1, phase=1).is_evidence
