"""A worker: a stack that was left in the middle goes on from its checkpoint and then leaves nothing behind."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.catalogue.training import in_training
from orchestrator.engine.reports import RunReport, StackJob
from orchestrator.engine.worker import StackWorker
from orchestrator.search.base import Request
from orchestrator.space.spaces import load_space
from orchestrator.store import lifecycle
from orchestrator.store.files import Home, SweepFiles
from orchestrator.store.probed import read_arrays, read_results
from orchestrator.store.records import Sweep
from orchestrator.store.remains import CHECKPOINT, read_outcome
from orchestrator.store.storage import kept_runs, storage_at
from orchestrator.store.underway import Underway
from tests.drive.sweeps import spec
from tests.families import LogisticFamily
from trainables.base import Status


def job_for(home: Home, sweep: Sweep, requests: tuple[Request, ...]) -> StackJob:
    files = home.sweep(sweep.id)
    return StackJob(sweep.spec.to_dict(), requests, files.runs_at, files.checkpoints_at, sweep.id, "stack-1")


def test_a_stack_left_in_the_middle_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    asked = spec(settings={"steps": 4}, resources={"checkpoint_every_s": 1e-9})
    requests = (Request("add", 16, 0), Request("add+prod", 16, 1))
    home = Home(tmp_path)
    sweep = lifecycle.create(asked, home)
    job = job_for(home, sweep, requests)
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
        assert report.outcome == read_outcome(kept_runs(home.sweep(sweep.id)).get(report.key))
    assert storage_at(home.sweep(sweep.id).checkpoints_at).list() == []


def test_a_stack_that_ended_unheard_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker died between the last run's end and the report: the retry answers from disk."""
    asked, home = spec(), Home(tmp_path)
    sweep = lifecycle.create(asked, home)
    requests = (Request("add", 16, 0), Request("add+prod", 16, 1))
    job = job_for(home, sweep, requests)
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


def test_checkpoints_of_stacks_that_failed_are_dropped(tmp_path: Path) -> None:
    asked = spec(settings={"steps": 4}, resources={"checkpoint_every_s": 1e-9})
    home = Home(tmp_path)
    sweep = lifecycle.create(asked, home)
    StackWorker(job_for(home, sweep, (Request("add", 16, 0),))).advance()
    checkpoints = storage_at(home.sweep(sweep.id).checkpoints_at)
    assert checkpoints.list() == ["stack-1.1"]
    lifecycle.drop_checkpoints(home.sweep(sweep.id))
    assert checkpoints.list() == []


def test_a_checkpoint_of_before_is_taken_over(tmp_path: Path) -> None:
    """It lay where stacks show how they go, and the stack goes on from it."""
    asked = spec(settings={"steps": 4}, resources={"checkpoint_every_s": 1e-9})
    home = Home(tmp_path)
    sweep = lifecycle.create(asked, home)
    requests = (Request("add", 16, 0),)
    StackWorker(job_for(home, sweep, requests)).advance()
    files = home.sweep(sweep.id)
    storage_at(files.checkpoints_at).get("stack-1.1").rename(tmp_path / "former")
    files.stacks.mkdir()
    (tmp_path / "former").rename(files.stack("stack-1"))
    assert lifecycle.interrupted_stacks(files) == [list(requests)]
    assert not (files.stack("stack-1") / CHECKPOINT).exists()
    [report] = StackWorker(job_for(home, sweep, requests)).advance().runs
    assert report.evaluation is not None
    assert report.evaluation.step == 2


def test_a_run_ends_where_it_is_wanted_until_and_the_others_go_on_without_it(tmp_path: Path) -> None:
    asked = spec(resources={"checkpoint_every_s": 1e9}, settings={"steps": 4})
    home = Home(tmp_path)
    sweep = lifecycle.create(asked, home)
    files = home.sweep(sweep.id)
    # At 32 units ADD alone is not learned and with PROD it is, at the first evaluation already.
    enough = [Request(mix, 32, 0, until=0.8) for mix in ("add+prod", "add")]
    requests = (enough[0], Request("add+prod", 32, 0), enough[1])
    job = job_for(home, sweep, requests)
    Underway(files).begin(job.stack_id, requests)
    worker = StackWorker(job)
    first = worker.advance()
    outcomes = [report.outcome for report in first.runs]
    assert [outcome is not None for outcome in outcomes] == [True, False, False]
    assert outcomes[0] is not None
    evaluation = first.runs[0].evaluation
    assert evaluation is not None
    assert (outcomes[0].status, outcomes[0].steps, outcomes[0].curve) == (Status.FINISHED, 1, (evaluation,))
    assert (outcomes[0].accuracy, outcomes[0].floor) == ({}, {})
    assert outcomes[0].measures["seconds"] > 0
    assert read_outcome(kept_runs(files).get(first.runs[0].key)) == outcomes[0]
    assert [run.key for run in in_training(asked, files, ())] == [first.runs[1].key]  # Nobody is shown a tuning's runs.
    # Its worker dies: the next one says again what the driver may not have heard, and goes on with the other two.
    assert not worker.done
    resumed = StackWorker(job)
    second = resumed.advance()
    assert [(report.key, report.outcome) for report in second.runs[:1]] == [(first.runs[0].key, outcomes[0])]
    steps = [report.evaluation.step for report in second.runs[1:] if report.evaluation is not None]
    assert steps == [2, 2]
    third = worker.advance()  # As does the first one, had it lived.
    assert [report.evaluation for report in third.runs if report.evaluation] == [
        report.evaluation for report in second.runs[1:]
    ]
    while not resumed.done:
        last = resumed.advance().runs
    assert [report.outcome is not None and report.outcome.steps for report in last] == [4, 4]
    # All of a run that is wanted whole, and the outcome of one that never came to where it was wanted until.
    kept = {report.key: sorted(path.name for path in kept_runs(files).get(report.key).iterdir()) for report in last}
    assert list(kept.values()) == [
        ["origin.json", "outcome.json", "weights.safetensors"],
        ["origin.json", "outcome.json"],
    ]
    assert storage_at(files.checkpoints_at).list() == []


def test_a_transformer_goes_on_as_if_alone_when_its_neighbour_ends(tmp_path: Path) -> None:
    few = ["settings.training.steps=60", "settings.training.evaluate_every=20", "mixes=[add]", "probes=[]"]
    asked = load_space("add_vs_add_prod", "smoke", few)
    whole = Request("add", 8, 0)
    # Reached by any answer that is right; where the neighbour is no good at all, another seed is needed here.
    neighbour = Request("add", 8, 1, until=1e-6)
    together, single = Home(tmp_path / "together"), Home(tmp_path / "alone")
    stacked = work(job_for(together, lifecycle.create(asked, together), (neighbour, whole)))
    alone = work(job_for(single, lifecycle.create(asked, single), (whole,)))
    ((key, expected),) = alone.items()
    found, ended = stacked.pop(key).outcome, next(iter(stacked.values())).outcome
    assert found is not None
    assert ended is not None
    assert expected.outcome is not None
    assert (ended.steps, found.steps, [point.step for point in found.curve]) == (20, 60, [20, 40, 60])
    assert [point.loss for point in found.curve] == pytest.approx([point.loss for point in expected.outcome.curve])


MAZES = {"family": "tests.families:MazeFamily", "target": "find exit", "mixes": ["find exit"]}
FIRING, BROKEN = "tests.families:Firing", "tests.families:BrokenProbe"


def mazes(home: Path, probes: Sequence[str]) -> tuple[StackJob, SweepFiles, list[str]]:
    """A stack of two runs of the outside family, its sweep's files and the runs' keys."""
    asked = spec(**MAZES, probes=list(probes))
    sweep = lifecycle.create(asked, Home(home))
    requests = (Request("find exit", 16, 0), Request("find exit", 16, 1))
    job = job_for(Home(home), sweep, requests)
    family = asked.make_family()
    return job, Home(home).sweep(sweep.id), [family.key(asked.config(request)) for request in requests]


def work(job: StackJob) -> dict[str, RunReport]:
    """Train a stack to its end; the last report of each run."""
    worker = StackWorker(job)
    last: dict[str, RunReport] = {}
    while not worker.done:
        last |= {report.key: report for report in worker.advance().runs}
    return last


def test_arrays_of_any_name_are_kept_and_nothing_is_drawn(tmp_path: Path) -> None:
    job, files, keys = mazes(tmp_path, [])
    work(job)
    for key in keys:
        assert sorted(path.name for path in kept_runs(files).get(key).iterdir()) == [
            "arrays.npz",
            "origin.json",
            "outcome.json",
            "weights.safetensors",
        ]
        assert read_arrays(kept_runs(files).get(key))["firing"].shape == (16, 3)


def test_probes_run_when_a_run_ends_and_a_broken_one_costs_no_run(tmp_path: Path) -> None:
    job, files, keys = mazes(tmp_path, [FIRING, BROKEN])
    reports = work(job)
    for key, seed in zip(keys, (0, 1), strict=True):
        outcome = reports[key].outcome
        assert outcome is not None
        assert outcome.status is Status.FINISHED
        results = read_results(kept_runs(files).get(key))
        arrays = read_arrays(kept_runs(files).get(key))
        assert results["firing"].numbers["solved"] == outcome.accuracy["find exit"]
        assert results["firing"].numbers["mean"] == pytest.approx(float(arrays["firing"].mean()))
        assert arrays["by_room"].shape == (3,)
        if seed == 0:
            assert "ZeroDivisionError" in results["broken"].reason
            assert "tests/families.py" in results["broken"].error
        else:
            assert (results["broken"].numbers, results["broken"].error) == ({"odd": 1.0}, "")


def test_a_probe_says_what_a_run_lacks(tmp_path: Path) -> None:
    job, files, keys = mazes(tmp_path, ["similarity"])
    work(job)
    result = read_results(kept_runs(files).get(keys[0]))["similarity"]
    assert result.error == "the probe 'similarity' needs the array 'embedding' of a run; its family keeps firing"


def test_probes_that_a_crash_cut_off_run_when_the_stack_is_asked_again(tmp_path: Path) -> None:
    """The worker died between a run's outcome and its probes."""
    job, files, keys = mazes(tmp_path, [FIRING])
    work(job)
    expected = read_results(kept_runs(files).get(keys[0]))
    shutil.rmtree(kept_runs(files).get(keys[0]) / "probes")
    work(job)
    assert read_results(kept_runs(files).get(keys[0])) == expected
