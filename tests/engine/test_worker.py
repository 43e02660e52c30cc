"""A worker: a stack that was left in the middle goes on from its checkpoint and then leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.engine.reports import RunReport, StackJob
from orchestrator.engine.worker import StackWorker
from orchestrator.search.base import Request
from orchestrator.store import lifecycle
from orchestrator.store.files import Home
from orchestrator.store.remains import CHECKPOINT, read_outcome, read_progress
from tests.drive.sweeps import spec
from tests.families import LogisticFamily


def test_a_stack_left_in_the_middle_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    asked = spec(settings={"steps": 4}, resources={"checkpoint_every_s": 1e-9})
    requests = (Request("add", 16, 0), Request("add+prod", 16, 1))
    home = Home(tmp_path)
    sweep = lifecycle.create(asked, home)
    job = StackJob(asked.to_dict(), requests, str(tmp_path), sweep.id, "stack-1")
    left = StackWorker(job)
    for _ in range(2):
        left.advance()
    assert lifecycle.interrupted_stacks(home.sweep(sweep.id)) == [list(requests)]

    resumed = StackWorker(StackJob.from_config(job.to_config() | {"space": job.space}))
    steps = [report.evaluation.step for report in resumed.advance().runs if report.evaluation is not None]
    assert steps == [3, 3]
    last = resumed.advance()
    assert resumed.done
    assert lifecycle.interrupted_stacks(home.sweep(sweep.id)) == []
    for report in last.runs:
        assert report.outcome == read_outcome(home.sweep(sweep.id).run(report.key))
    assert not home.sweep(sweep.id).stack("stack-1").exists()


def test_a_stack_that_ended_unheard_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker died between the last run's end and the report: the retry answers from disk."""
    asked = spec()
    sweep = lifecycle.create(asked, Home(tmp_path))
    requests = (Request("add", 16, 0), Request("add+prod", 16, 1))
    job = StackJob(asked.to_dict(), requests, str(tmp_path), sweep.id, "stack-1")
    first = StackWorker(job)
    unheard: tuple[RunReport, ...] = ()
    while not first.done:
        unheard = first.advance().runs

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(LogisticFamily, "learner", refuse)
    retry = StackWorker(job)
    said = retry.advance().runs
    assert retry.done
    assert [(report.key, report.outcome) for report in said] == [(report.key, report.outcome) for report in unheard]


def test_a_stack_in_training_shows_its_evaluations(tmp_path: Path) -> None:
    asked = spec(settings={"steps": 4})
    home = Home(tmp_path)
    sweep = lifecycle.create(asked, home)
    worker = StackWorker(StackJob(asked.to_dict(), (Request("add", 16, 0),), str(tmp_path), sweep.id, "stack-1"))
    reports = [report for _ in range(3) for report in worker.advance().runs]
    shown = read_progress(home.sweep(sweep.id).stack("stack-1"))
    assert shown == {reports[0].key: tuple(report.evaluation for report in reports)}


def test_what_stacks_that_failed_leave_is_dropped_but_for_their_story(tmp_path: Path) -> None:
    asked = spec(settings={"steps": 4}, resources={"checkpoint_every_s": 1e-9})
    home = Home(tmp_path)
    sweep = lifecycle.create(asked, home)
    StackWorker(StackJob(asked.to_dict(), (Request("add", 16, 0),), str(tmp_path), sweep.id, "stack-1")).advance()
    stack = home.sweep(sweep.id).stack("stack-1")
    assert (stack / CHECKPOINT).is_dir()
    lifecycle.drop_checkpoints(home.sweep(sweep.id))
    assert not (stack / CHECKPOINT).exists()
    assert len(read_progress(stack)) == 1
