"""A worker reports its training, and continues from its checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from orchestrator.engine.messages import RunReport, StackJob, StackReport
from orchestrator.engine.worker import StackWorker
from orchestrator.history.journal import read_request
from orchestrator.history.sweeps import create_sweep
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.directories import Home, SweepDirectory
from orchestrator.home.run_files import read_arrays, read_outcome, read_results
from orchestrator.home.run_store import RunStore
from orchestrator.search.base import Request
from orchestrator.space.spaces import load_space
from tests.engine.jobs import job_for
from tests.sweep.sweeps import spec
from trainables.base import Status

PAIR = (Request("add", 16, 0), Request("add+prod", 16, 1))


def stack_of(home: Path, *requests: Request, every_s: float) -> StackJob:
    """Return a stack of a new sweep of four evaluations, which writes a checkpoint after this time."""
    wanted = spec(settings={"steps": 4}, resources={"checkpoint_every_s": every_s})
    sweep = create_sweep(wanted, Home(home))
    return job_for(sweep, requests)


def steps_of(report: StackReport) -> list[int]:
    return [run.evaluation.step for run in report.runs if run.evaluation is not None]


@pytest.mark.parametrize("place", ["home", "scratch"])
def test_an_interrupted_stack_continues_from_its_checkpoint(place: str, tmp_path: Path) -> None:
    """The checkpoint is in the sweep's directory if the worker sees it, otherwise in the node's scratch."""
    resources = {"checkpoint_every_s": 1e9, "scratch": str(tmp_path / "scratch")}
    wanted_spec = spec(settings={"steps": 4}, resources=resources)
    sweep = create_sweep(wanted_spec, Home(tmp_path))
    files = sweep.files
    job = job_for(sweep, PAIR)
    checkpoints = Checkpoints(files.checkpoints)
    if place == "scratch":
        job = job_for(sweep, PAIR, directory=str(tmp_path / "elsewhere"))
        checkpoints = Checkpoints(tmp_path / "scratch" / "checkpoints" / sweep.id)
    left = StackWorker(job)
    for _ in range(2):
        left.advance()
    assert checkpoints.stacks() == []
    left.close()
    assert checkpoints.stacks() == ["stack-1"]
    assert Checkpoints(files.checkpoints).interrupted(read_request) == ([list(PAIR)] if place == "home" else [])
    resumed = StackWorker(job)
    assert steps_of(resumed.advance()) == [3, 3]
    last = resumed.advance()
    assert resumed.done
    assert checkpoints.stacks() == ["stack-1"]  # The driver may not have received the last report yet.
    resumed.close()
    # The driver removes the checkpoints that it can reach.
    assert checkpoints.stacks() == (["stack-1"] if place == "home" else [])
    assert all(run.outcome is not None for run in last.runs)
    assert not list(tmp_path.rglob("outcome.json"))


def test_a_checkpoint_never_runs_ahead_of_the_reports_to_the_driver(tmp_path: Path) -> None:
    """The worker writes it when the driver asks for the next evaluation."""
    stack = stack_of(tmp_path, *PAIR, every_s=1e-9)
    worker = StackWorker(stack)
    for _ in range(3):
        worker.advance()
    assert steps_of(StackWorker(stack).advance()) == [3, 3]


def test_a_run_that_ended_before_the_checkpoint_starts_over_if_requested_again(tmp_path: Path) -> None:
    requests = (Request("add+prod", 32, 0, until=0.8), Request("add+prod", 32, 0))
    job = stack_of(tmp_path, *requests, every_s=1e9)
    worker = StackWorker(job)
    assert [run.outcome is not None for run in worker.advance().runs] == [True, False]
    worker.close()
    assert steps_of(StackWorker(replace(job, wanted=(1,))).advance()) == [2]
    again = StackWorker(job).advance()
    assert steps_of(again) == [1, 1]
    assert "it lacks the state of" in again.messages[0]


def test_a_run_ends_at_its_target_accuracy_and_the_others_continue(tmp_path: Path) -> None:
    # At 32 units ADD is not learned alone, but with PROD at the first evaluation.
    enough = [Request(mix, 32, 0, until=0.8) for mix in ("add+prod", "add")]
    job = stack_of(tmp_path, enough[0], Request("add+prod", 32, 0), enough[1], every_s=1e9)
    worker = StackWorker(job)
    first = worker.advance()
    ended, *others = [run.outcome for run in first.runs]
    assert ended is not None
    assert others == [None, None]
    evaluation = first.runs[0].evaluation
    assert (ended.status, ended.steps, ended.curve) == (Status.FINISHED, 1, (evaluation,))
    assert (ended.accuracy, ended.floor) == ({}, {})
    assert ended.measures["seconds"] > 0
    assert steps_of(worker.advance()) == [2, 2]
    # Its process dies: the driver asks for the other two again, which continue from the checkpoint.
    resumed = StackWorker(replace(job, wanted=(1, 2)))
    assert steps_of(resumed.advance()) == [2, 2]
    while not resumed.done:
        last = resumed.advance().runs
    assert [run.outcome is not None and run.outcome.steps for run in last] == [4, 4]
    # A complete run returns all files; a run that never reached its target returns only the outcome.
    assert [sorted(run.files) for run in last] == [["weights.safetensors"], []]


def test_a_transformer_trains_the_same_after_its_neighbor_ends(tmp_path: Path) -> None:
    few = ["settings.training.steps=60", "settings.training.evaluate_every=20", "mixes=[add]", "probes=[]"]
    wanted_spec = load_space("add_vs_add_prod", "smoke", few)
    whole = Request("add", 8, 0)
    # A single right answer is enough. If the neighbor has none, this test needs another seed.
    neighbor = Request("add", 8, 1, until=1e-6)
    together, single = (create_sweep(wanted_spec, Home(tmp_path / name)) for name in ("together", "alone"))
    stacked = work(job_for(together, (neighbor, whole)))
    ((key, expected),) = work(job_for(single, (whole,))).items()
    actual, ended = stacked.pop(key).outcome, next(iter(stacked.values())).outcome
    assert actual is not None
    assert ended is not None
    assert expected.outcome is not None
    assert (ended.steps, actual.steps, [point.step for point in actual.curve]) == (20, 60, [20, 40, 60])
    assert [point.loss for point in actual.curve] == pytest.approx([point.loss for point in expected.outcome.curve])


MAZES = {"family": "tests.families:MazeFamily", "target": "find exit", "mixes": ["find exit"]}
FIRING, BROKEN = "tests.families:Firing", "tests.families:BrokenProbe"


def mazes(home: Path, probes: Sequence[str]) -> tuple[SweepDirectory, list[RunReport]]:
    """Train and store two runs of the outside family as the driver does. Return their sweep's files and last
    reports."""
    wanted_spec = spec(**MAZES, probes=list(probes))
    sweep = create_sweep(wanted_spec, Home(home))
    reports = work(job_for(sweep, (Request("find exit", 16, 0), Request("find exit", 16, 1))))
    runs = RunStore(sweep.files.home, sweep.id)
    for key, run in reports.items():
        assert run.outcome is not None
        outcome = runs.put(key, run.outcome, run.files)
        assert (outcome, runs.trained_for(key)) == (run.outcome, "")
    return sweep.files, list(reports.values())


def work(job: StackJob) -> dict[str, RunReport]:
    """Train a stack to its end. Return the last report of each run."""
    worker = StackWorker(job)
    last: dict[str, RunReport] = {}
    while not worker.done:
        last |= {report.key: report for report in worker.advance().runs}
    worker.close()
    return last


def test_weights_and_arrays_of_any_name_are_stored_unchanged(tmp_path: Path) -> None:
    files, reports = mazes(tmp_path, [])
    for run in reports:
        directory = files.home.runs / run.key
        assert read_outcome(directory) == run.outcome
        assert sorted(path.name for path in directory.iterdir()) == [
            "arrays.npz",
            "contents.json",
            "origin.json",
            "outcome.json",
            "weights.safetensors",
        ]
        assert read_arrays(directory)["firing"].shape == (16, 3)
        weights = load((directory / "weights.safetensors").read_bytes())
        np.testing.assert_equal(weights, load(run.files["weights.safetensors"]))
        # A later copy does not replace the first.
        assert run.outcome is not None
        later = RunStore(files.home, "later")
        assert later.put(run.key, replace(run.outcome, steps=99), {}) == run.outcome
        assert later.trained_for(run.key) == files.id


def test_probes_run_when_a_run_ends_and_a_broken_probe_does_not_fail_it(tmp_path: Path) -> None:
    files, reports = mazes(tmp_path, [FIRING, BROKEN, "similarity"])
    lacking = "the probe 'similarity' needs the array 'embedding', which this run lacks; its family keeps firing"
    for run, seed in zip(reports, (0, 1), strict=True):
        assert run.outcome is not None
        assert run.outcome.status is Status.FINISHED
        results = read_results(files.home.runs / run.key)
        arrays = read_arrays(files.home.runs / run.key)
        assert results["firing"].numbers["solved"] == run.outcome.accuracy["find exit"]
        assert results["firing"].numbers["mean"] == pytest.approx(float(arrays["firing"].mean()))
        assert arrays["by_room"].shape == (3,)
        assert results["similarity"].error == lacking
        if seed == 0:
            assert "ZeroDivisionError" in results["broken"].reason
            assert "tests/families.py" in results["broken"].error
        else:
            assert (results["broken"].numbers, results["broken"].error) == ({"odd": 1.0}, "")
