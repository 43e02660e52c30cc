"""A machine error is never an outcome: the stack is retried, then the sweep stops and can be resumed."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from orchestrator.engine.ray.trial import StackTrial
from orchestrator.engine.worker import StackWorker
from orchestrator.history.journal import Ended, Journal, to_line
from orchestrator.history.sweeps import create_sweep
from orchestrator.home.checkpoints import LEARNER_DIRECTORY, Checkpoints
from orchestrator.home.directories import Home
from orchestrator.search.base import Request
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.run_options import RunOptions
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.machine_errors import machine_errno, machine_error_text
from tests.disks import mounted
from tests.engine.jobs import job_for
from tests.engine.test_campaign import GOOD, make, plan_of
from tests.engine.test_worker import stack_of, steps_of
from tests.families import LogisticLearner
from tests.scripted import fill
from tests.sweep.sweeps import ended, only_sweep, printed, quiet, remembered, run_here, scripted, spec
from trainables.base import Learner, Mix, Status
from trainables.contract.torch_checkpoints import OtherStepError
from trainables.tasks.listops import TaskSettings
from trainables.tasks.texts import load_dataset

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.engine.retries.WAITS_S", (0.0, 0.0))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    with mounted(tmp_path / "disk", "-o", "size=8m") as place:
        yield place


def troubled_spec(tmp_path: Path, **settings: object) -> SweepSpec:
    """Return a spec of four runs of two sizes, each alone in its stack."""
    return scripted(tmp_path / "log", settings, seeds=2, resources={"max_stack": 1})


def statuses(home: Path) -> list[Status]:
    return [entry.outcome.status for entry in ended(home)]


@pytest.mark.parametrize(("trouble", "message"), [("ESTALE", "the disk of /data/stream.bin"), ("threads", "ulimit -u")])
def test_a_temporary_machine_error_is_not_a_failed_run(trouble: str, message: str, tmp_path: Path) -> None:
    home, console = tmp_path / "home", quiet()
    run_here(troubled_spec(tmp_path, times=2, trouble=trouble), home, console=console)
    assert statuses(home) == [Status.FINISHED] * 4
    lines = [line for line in printed(console).splitlines() if "The machine failed, not the run" in line]
    assert len(lines) == 2
    assert all(message in line for line in lines)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "", "/data/x"), "the disk of /data/x is full: free some space"),
        (OSError(errno.ENOTCONN, ""), "the disk of /home is disconnected from its server: mount it again"),
        (OSError(errno.EMFILE, ""), "too many files are open in one process: raise the limit (`ulimit -n`)"),
        (OSError(errno.ENFILE, ""), "too many files are open on this machine: close other programs"),
        (OSError(errno.EAGAIN, ""), "no more processes or threads can be started: raise the limit (`ulimit -u`, or "),
        (OSError(errno.EACCES, ""), "/home cannot be opened by this user: change its permissions, or renew the login"),
        (OSError(errno.EKEYEXPIRED, ""), "the login to the disk of /home has expired: renew it (`kinit`, for example)"),
        (OSError(errno.EPERM, ""), ""),
        (OSError(errno.ENOENT, ""), ""),
        (OSError(errno.EPIPE, ""), ""),
        (ValueError("No space left on device (os error 28)"), ""),
    ],
)
def test_a_machine_error_has_a_remedy_unless_the_user_can_fix_it(error: Exception, message: str) -> None:
    assert machine_error_text(error, "/home").startswith(message)
    assert (machine_errno(error) is None) is (message == "")


def test_a_permanent_machine_error_stops_the_sweep_which_can_be_resumed(tmp_path: Path) -> None:
    home, wanted = tmp_path / "home", troubled_spec(tmp_path, times=4)
    with pytest.raises(SweepError, match=r"the disk of /data/stream\.bin is full: free some space") as stopped:
        run_here(wanted, home)
    sweep_id = only_sweep(home).id
    assert stopped.value.exit_code == 1
    assert str(stopped.value).endswith(f"Continue with\nthe same command and --resume {sweep_id}")
    before = statuses(home)
    assert set(before) == {Status.FINISHED}
    assert len(before) < 4
    run_here(wanted, home, resume=sweep_id)
    assert statuses(home) == [Status.FINISHED] * 4


def test_a_broken_gpu_stops_a_local_sweep_without_an_outcome(tmp_path: Path) -> None:
    """Nothing can train in a process that has lost its GPU, so it does not retry."""
    home, wanted = tmp_path / "home", troubled_spec(tmp_path, times=1, trouble="ECC")
    with pytest.raises(SweepError, match=r"cannot be used \(CUDA error: uncorrectable ECC error encountered\): check"):
        run_here(wanted, home)
    before = statuses(home)
    assert set(before) <= {Status.FINISHED}
    assert len(before) < 4
    run_here(wanted, home, resume="")
    assert statuses(home) == [Status.FINISHED] * 4


def test_a_run_that_exits_the_program_has_failed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run_here(troubled_spec(tmp_path, times=1, trouble="exit"), home)
    assert sorted(statuses(home)) == [Status.FAILED] + [Status.FINISHED] * 3
    (error,) = [entry.outcome.error for entry in ended(home) if entry.outcome.status is Status.FAILED]
    assert "training called sys.exit(0)" in error


def test_after_a_failed_assertion_on_the_gpu_a_local_sweep_stops(tmp_path: Path) -> None:
    """The run has failed, but later runs of the process would fail, too."""
    home, wanted = tmp_path / "home", troubled_spec(tmp_path, times=1, trouble="assert")
    with pytest.raises(SweepError, match="after the error of a run, this process lost its GPU"):
        run_here(wanted, home)
    before = statuses(home)
    assert before[-1] is Status.FAILED
    assert len(before) < 4
    run_here(wanted, home, resume="")
    assert sorted(statuses(home)) == [Status.FAILED] + [Status.FINISHED] * 3


def test_a_full_disk_stops_the_sweep_which_can_be_resumed(small_disk: Path, tmp_path: Path) -> None:
    ballast = small_disk / "ballast"
    home, wanted = small_disk / "home", troubled_spec(tmp_path, times=1, ballast=str(ballast))
    with pytest.raises(SweepError, match="is full: free some space") as stopped:
        run_here(wanted, home)
    assert f"the disk of {home}" in str(stopped.value)
    before = statuses(home)
    assert set(before) <= {Status.FINISHED}
    assert len(before) < 4
    ballast.unlink()
    console = quiet()
    run_here(wanted, home, resume="", console=console)
    assert statuses(home) == [Status.FINISHED] * 4
    assert "failed" not in printed(console)
    assert "cannot be read" not in printed(console)


def test_a_run_that_ends_on_a_full_disk_is_not_lost(small_disk: Path) -> None:
    campaign = make(Home(small_disk).sweep("logistic-1").journal)
    stack = campaign.next_stack()
    assert stack is not None
    [key, *_] = [job.key for job in stack.jobs]
    checkpoints = Checkpoints(Home(small_disk).sweep("logistic-1").checkpoints)
    with checkpoints.put(stack.id, campaign.job(stack).members):
        pass
    before = Home(small_disk).sweep("logistic-1").journal.read_bytes()
    fill(small_disk / "ballast")
    campaign.ended(key, replace(GOOD, status=Status.FAILED, error="long " * 5000))
    assert campaign.done
    assert campaign.machine_error.endswith("is full: free some space")
    assert plan_of(campaign).searcher.results == {}
    assert campaign.next_stack() is None
    assert Home(small_disk).sweep("logistic-1").journal.read_bytes() == before
    campaign.stack_ended(stack.id)
    assert checkpoints.stacks() == [stack.id]  # The run continues from this checkpoint.


def test_retry_failed_trains_failed_runs_again(tmp_path: Path) -> None:
    home, wanted = tmp_path / "home", troubled_spec(tmp_path, times=2, trouble="bug")
    console = quiet()
    run_here(wanted, home, console=console)
    sweep_id = only_sweep(home).id
    assert sorted(statuses(home)) == [Status.FAILED] * 2 + [Status.FINISHED] * 2
    assert f"--resume {sweep_id} --retry-failed\n" in printed(console)
    run_here(wanted, home, resume=sweep_id)
    assert len(statuses(home)) == 4
    run_here(wanted, home, resume=sweep_id, retry_failed=True)
    with pytest.raises(UserError, match="name the sweep with --resume"):
        RunOptions(home=home, retry_failed=True).checked()
    memory = remembered(home)
    assert memory.answered
    assert [entry.outcome.status for entry in memory.ended] == [Status.FINISHED] * 4
    assert len({entry.key for entry in memory.ended}) == 4


def leave(worker: StackWorker) -> None:
    """Train to the first evaluation, and write a checkpoint."""
    worker.advance()
    worker.close()


@pytest.mark.parametrize("spoil", ["torn", "gone", "no members"])
def test_a_damaged_checkpoint_is_named_and_its_runs_begin_at_step_0(spoil: str, tmp_path: Path) -> None:
    job = stack_of(tmp_path, Request("add", 16, 0), Request("add", 16, 1), every_s=1e-9)
    leave(StackWorker(job))
    checkpoints = Checkpoints(Home(tmp_path).sweep(job.setup.sweep_id).checkpoints)
    directory = checkpoints.newest(job.stack_id)
    assert directory is not None
    file = {
        "torn": f"{LEARNER_DIRECTORY}/step.json",
        "gone": f"{LEARNER_DIRECTORY}/step.json",
        "no members": "members.json",
    }[spoil]
    if spoil == "gone":
        (directory / file).unlink()
    else:
        (directory / file).write_text('{"')
    report = StackWorker(job).advance()
    assert [run.evaluation.step for run in report.runs if run.evaluation is not None] == [1, 1]
    [message] = report.messages
    assert f"the checkpoint of {job.stack_id}" in message
    assert "its runs begin again at step 0" in message


@pytest.mark.parametrize("error", [MemoryError("no room"), OSError(errno.ESTALE, "stale"), OtherStepError("native")])
def test_a_checkpoint_survives_a_temporary_read_error(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = stack_of(tmp_path, Request("add", 16, 0), every_s=1e-9)
    leave(StackWorker(stack))

    def restore(learner: Learner, directory: Path) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(LogisticLearner, "restore", restore)
        assert StackWorker(stack).advance().machine_error
    assert steps_of(StackWorker(stack).advance()) == [2]


def test_a_journal_entry_that_does_not_fit_on_disk_is_not_partly_written(tmp_path: Path) -> None:
    """The file size limit stands in for a full disk: both write a part and then raise."""
    entry = Ended("key", Request("add", 16, 0))
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
    assert {name: machine_errno(caught(write)) for name, write in writers.items()} == dict.fromkeys(
        writers, errno.ENOSPC
    )


def test_the_full_disk_with_training_data_is_named(small_disk: Path) -> None:
    fill(small_disk / "ballast")
    with pytest.raises(Exception, match="No space left") as raised:
        load_dataset(TaskSettings(modulus=6, depth=1), Mix.parse("add"), 0, small_disk)
    assert machine_error_text(raised.value, "/elsewhere").startswith(f"the disk of {small_disk}/listops-")


def test_a_full_disk_while_a_trial_closes_is_reported_by_the_next_stack(small_disk: Path) -> None:
    sweep = create_sweep(spec(), Home(small_disk))
    trial = StackTrial.__new__(StackTrial)  # Bypass __init__, which asks Ray for the trial's GPUs.
    trial._worker = StackWorker(job_for(sweep, (Request("add", 16, 0),)))
    trial._worker.advance()
    trial.confirm()
    fill(small_disk / "ballast")
    trial.cleanup()
