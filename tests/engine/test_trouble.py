"""A machine error is never an outcome: the stack is retried, then the sweep stops and can be resumed."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from orchestrator.engine import retries
from orchestrator.engine.ray.trial import StackTrial
from orchestrator.engine.worker import StackWorker
from orchestrator.errors import SweepError, UserError
from orchestrator.home.checkpoints import CHECKPOINT, Checkpoints
from orchestrator.home.files import Home
from orchestrator.home.journal import Ended, Journal, recall, to_line
from orchestrator.home.machine_errors import trouble_in, trouble_words
from orchestrator.home.sweeps import create_sweep
from orchestrator.search.base import Request
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.run import run_sweep
from orchestrator.sweep.run_options import RunOptions
from tests.disks import mounted
from tests.engine.test_campaign import GOOD, make
from tests.engine.test_worker import job_for, steps_of
from tests.families import LogisticFamily, LogisticLearner
from tests.scripted import FAMILY, fill
from tests.sweep.sweeps import ended, printed, quiet, spec
from trainables.base import Learner, Mix, Outcome, Status
from trainables.tasks.listops import TaskSettings
from trainables.tasks.texts import load_dataset


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "WAITS_S", (0.0, 0.0))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    with mounted(tmp_path / "disk", "-o", "size=8m") as place:
        yield place


def troubled_spec(tmp_path: Path, **settings: object) -> SweepSpec:
    """Return a spec of four runs of two sizes, each alone in its stack."""
    return spec(
        family=FAMILY,
        mixes=["add"],
        sizes=[8, 16],
        search={"method": "grid"},
        settings={"log": str(tmp_path / "log"), **settings},
        resources={"max_stack": 1},
    )


def statuses(home: Path) -> list[Status]:
    [sweep_id] = Home(home).sweep_ids()
    return [entry.outcome.status for entry in ended(home, sweep_id)]


@pytest.mark.parametrize("trouble", ["ENOSPC", "ESTALE", "ENOTCONN"])
def test_a_temporary_machine_error_is_not_a_failed_run(trouble: str, tmp_path: Path) -> None:
    home, wanted = tmp_path / "home", troubled_spec(tmp_path, times=2, trouble=trouble)
    console = quiet()
    run_sweep(wanted, RunOptions(home=home, engine="local"), console)
    assert statuses(home) == [Status.FINISHED] * 4
    assert printed(console).count("Machine error (not a result): the disk of /data/stream.bin") == 2


@pytest.mark.parametrize(
    ("trouble", "remedy"),
    [("EMFILE", "ulimit -n"), ("ENFILE", "close other programs"), ("EAGAIN", "ulimit -u"), ("threads", "ulimit -u")],
)
def test_reaching_a_system_limit_is_not_a_failed_run(trouble: str, remedy: str, tmp_path: Path) -> None:
    home, console = tmp_path / "home", quiet()
    run_sweep(troubled_spec(tmp_path, times=2, trouble=trouble), RunOptions(home=home, engine="local"), console)
    assert statuses(home) == [Status.FINISHED] * 4
    lines = [line for line in printed(console).splitlines() if "Machine error (not a result)" in line]
    assert len(lines) == 2
    assert all(remedy in line for line in lines)


def test_a_permanent_machine_error_stops_the_sweep_which_can_be_resumed(tmp_path: Path) -> None:
    home, wanted = tmp_path / "home", troubled_spec(tmp_path, times=4)
    with pytest.raises(SweepError, match=r"the disk of /data/stream\.bin is full: free some space") as stopped:
        run_sweep(wanted, RunOptions(home=home, engine="local"), quiet())
    [sweep_id] = Home(home).sweep_ids()
    assert stopped.value.exit_code == 1
    assert str(stopped.value).endswith(f"Continue with\nthe same command and --resume {sweep_id}")
    before = statuses(home)
    assert set(before) == {Status.FINISHED}
    assert len(before) < 4
    run_sweep(wanted, RunOptions(home=home, engine="local", resume=sweep_id), quiet())
    assert statuses(home) == [Status.FINISHED] * 4


@pytest.mark.parametrize("local", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["local", "ray"])
def test_a_full_disk_stops_the_sweep_which_can_be_resumed(local: bool, small_disk: Path, tmp_path: Path) -> None:
    ballast = small_disk / "ballast"
    home, wanted = small_disk / "home", troubled_spec(tmp_path, times=1, ballast=str(ballast))
    with pytest.raises(SweepError, match="is full: free some space") as stopped:
        run_sweep(wanted, RunOptions(home=home, engine="local" if local else "ray"), quiet())
    [sweep_id] = Home(home).sweep_ids()
    assert f"the disk of {home}" in str(stopped.value)
    before = statuses(home)
    assert set(before) <= {Status.FINISHED}
    assert len(before) < 4
    ballast.unlink()
    console = quiet()
    run_sweep(wanted, RunOptions(home=home, engine="local", resume=sweep_id), console)
    assert statuses(home) == [Status.FINISHED] * 4
    assert "failed" not in printed(console)
    assert "cannot be read" not in printed(console)


def test_a_run_that_ends_on_a_full_disk_is_not_lost(small_disk: Path) -> None:
    campaign = make(Home(small_disk).sweep("logistic-1").journal)
    stack = campaign.next_stack()
    assert stack is not None
    [key, *_] = [ticket.key for ticket in stack.tickets]
    checkpoints = Checkpoints(Home(small_disk).sweep("logistic-1").checkpoints)
    with checkpoints.put(stack.id, stack.requests):
        pass
    before = Home(small_disk).sweep("logistic-1").journal.read_bytes()
    fill(small_disk / "ballast")
    campaign.ended(key, replace(GOOD, status=Status.FAILED, error="long " * 5000))
    assert campaign.done
    assert campaign.machine_error.endswith("is full: free some space")
    assert stack.tickets[0].request not in campaign.searcher.results
    assert campaign.next_stack() is None
    assert Home(small_disk).sweep("logistic-1").journal.read_bytes() == before
    campaign.stack_ended(stack.id)
    assert checkpoints.stacks() == [stack.id]  # The run continues from this checkpoint.


def test_retry_failed_trains_failed_runs_again(tmp_path: Path) -> None:
    home, wanted = tmp_path / "home", troubled_spec(tmp_path, times=2, trouble="bug")
    console = quiet()
    run_sweep(wanted, RunOptions(home=home, engine="local"), console)
    [sweep_id] = Home(home).sweep_ids()
    assert sorted(statuses(home)) == [Status.FAILED] * 2 + [Status.FINISHED] * 2
    assert f"--resume {sweep_id} --retry-failed\n" in printed(console)
    run_sweep(wanted, RunOptions(home=home, engine="local", resume=sweep_id), quiet())
    assert len(statuses(home)) == 4
    run_sweep(wanted, RunOptions(home=home, engine="local", resume=sweep_id, retry_failed=True), quiet())
    memory = recall(Home(home).sweep(sweep_id))
    assert memory.answered
    assert [entry.outcome.status for entry in memory.ended] == [Status.FINISHED] * 4
    assert len({entry.key for entry in memory.ended}) == 4


def test_retry_failed_needs_a_sweep(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--resume"):
        RunOptions(home=tmp_path, retry_failed=True).started()


@pytest.mark.parametrize("spoil", ["torn", "gone", "no members"])
def test_a_damaged_checkpoint_is_named_and_its_runs_begin_at_step_0(spoil: str, tmp_path: Path) -> None:
    wanted = spec(settings={"steps": 4}, resources={"checkpoint_every_s": 1e-9})
    sweep = create_sweep(wanted, Home(tmp_path))
    job = job_for(sweep, (Request("add", 16, 0), Request("add", 16, 1)))
    left = StackWorker(wanted, job)
    left.advance()
    left.close()
    checkpoints = Checkpoints(Home(tmp_path).sweep(sweep.id).checkpoints)
    directory = checkpoints.newest(job.stack_id)
    assert directory is not None
    file = {"torn": f"{CHECKPOINT}/step.json", "gone": f"{CHECKPOINT}/step.json", "no members": "members.json"}[spoil]
    if spoil == "gone":
        (directory / file).unlink()
    else:
        (directory / file).write_text('{"')
    worker = StackWorker(wanted, job)
    report = worker.advance()
    assert [run.evaluation.step for run in report.runs if run.evaluation is not None] == [1, 1]
    [message] = report.messages
    assert f"the checkpoint of {job.stack_id}" in message
    assert "its runs begin again at step 0" in message
    while not worker.done:
        worker.advance()
    worker.close()


@pytest.mark.parametrize("error", [MemoryError("no room"), OSError(errno.ESTALE, "stale")])
def test_a_checkpoint_survives_a_temporary_read_error(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = spec(settings={"steps": 4}, resources={"checkpoint_every_s": 1e-9})
    job = job_for(create_sweep(wanted, Home(tmp_path)), (Request("add", 16, 0),))
    left = StackWorker(wanted, job)
    left.advance()
    left.close()

    def restore(learner: Learner, directory: Path) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(LogisticLearner, "restore", restore)
        assert StackWorker(wanted, job).advance().machine_error
    assert steps_of(StackWorker(wanted, job).advance()) == [2]


def test_a_journal_entry_that_does_not_fit_on_disk_is_not_partly_written(tmp_path: Path) -> None:
    """The file size limit stands in for a full disk: both write a part and then raise."""
    entry = Ended("key", Request("add", 16, 0), Outcome(Status.FINISHED, 3, {"add": 0.5}, {"add": 0.1}))
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.append(entry)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            journal.append(entry)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    journal.append(entry)
    journal.close()
    assert path.read_bytes() == 2 * to_line(entry)


def test_a_full_disk_is_recognized_in_the_errors_of_every_writer(small_disk: Path) -> None:
    def caught(write: object) -> BaseException:
        assert callable(write)
        with pytest.raises(Exception) as raised:  # noqa: PT011 - its kind is the question
            write()
        return raised.value

    array = np.zeros(1000)
    fill(small_disk / "ballast")
    writers = {
        "plain": lambda: (small_disk / "a").write_bytes(array.tobytes()),
        "npz": lambda: np.savez(small_disk / "b.npz", array=array),
        "npy": lambda: np.save(small_disk / "c.npy", array),
        "safetensors": lambda: save_file({"array": array}, small_disk / "d"),
    }
    assert {name: trouble_in(caught(write)) for name, write in writers.items()} == dict.fromkeys(writers, errno.ENOSPC)


def test_the_full_disk_with_training_data_is_named(small_disk: Path) -> None:
    fill(small_disk / "ballast")
    with pytest.raises(Exception, match="No space left") as raised:
        load_dataset(TaskSettings(modulus=6, depth=1), Mix.parse("add"), 0, small_disk)
    assert trouble_words(raised.value, "/elsewhere").startswith(f"the disk of {small_disk}/listops-")


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOENT, errno.EPIPE])
def test_errors_that_the_user_can_fix_are_not_machine_errors(number: int) -> None:
    assert trouble_in(OSError(number, os.strerror(number))) is None
    assert trouble_in(ValueError("No space left on device (os error 28)")) is None


class ForgetfulLearner(LogisticLearner):
    """A learner with a bug in writing its checkpoints."""

    def save(self, directory: Path) -> None:
        raise ZeroDivisionError(str(directory))


class ForgetfulFamily(LogisticFamily):
    name = "forgetful"
    learner_type = ForgetfulLearner


@pytest.mark.parametrize(
    ("family", "raises"),
    [(LogisticFamily, nullcontext()), (ForgetfulFamily, pytest.raises(ZeroDivisionError))],
    ids=["the disk is full", "the family has a bug"],
)
def test_a_full_disk_while_a_trial_closes_is_reported_by_the_next_stack(
    family: type[LogisticFamily], raises: AbstractContextManager[Any], small_disk: Path
) -> None:
    """A bug in the family raises immediately instead."""
    mine = spec(family=f"{family.__module__}:{family.__name__}")
    sweep = create_sweep(mine, Home(small_disk))
    trial = StackTrial.__new__(StackTrial)  # Bypass __init__, which asks Ray for the trial's GPUs.
    trial._worker = StackWorker(mine, job_for(sweep, (Request("add", 16, 0),)))
    trial._worker.advance()
    if family is LogisticFamily:
        fill(small_disk / "ballast")
    with raises:
        trial.cleanup()
