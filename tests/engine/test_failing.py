"""Machine errors are distinguished from failed runs by the type and the message of Ray's error."""

from __future__ import annotations

from pathlib import Path

import pytest
from ray.core.generated.common_pb2 import ActorDiedErrorContext  # type: ignore[attr-defined] # made by protoc
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    ObjectLostError,
    OutOfMemoryError,
    RayError,
    RayTaskError,
)

from orchestrator.engine.ray.failures import machine_error_behind, machine_error_text
from orchestrator.jobs.resources import Resources
from orchestrator.system.errors import SweepError
from tests.engine.test_trouble import statuses, troubled_spec
from tests.scripted import begun
from tests.sweep.sweeps import only_sweep, printed, quiet, run_here
from trainables.base import Status

pytestmark = pytest.mark.usefixtures("undrawn")

EXITED = "The actor is dead because its worker process has died. Worker exit type: {} Worker exit detail: {}"
MONITOR = (
    "1 worker(s) were killed due to the node running low on memory. Memory on the node (IP: 10.77.0.3, ID: ca5b) was "
    "1.52GB used / 23.54GB limit (0.064711)\nOOM kill reason: Memory usage 1639079936B exceeded threshold"
)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.engine.retries.WAITS_S", (0.0, 0.0))


def died(reason: str) -> ActorDiedError:
    """Return the error of an actor that ended for this reason on the node 10.77.0.3."""
    context = ActorDiedErrorContext(
        error_message=reason, actor_id=b"0" * 16, class_name="StackTrial", pid=301, node_ip_address="10.77.0.3"
    )
    return ActorDiedError(cause=context)


def raised(cause: Exception) -> RayTaskError:
    """Return the error of a task whose code raised an exception."""
    return RayTaskError(
        "train", f"Traceback\n{type(cause).__name__}: {cause}", cause, proctitle="ray::", pid=301, ip="::1"
    )


@pytest.mark.parametrize(
    ("error", "begins"),
    [
        (
            died("the actor's node was terminated unexpectedly: health check failed due to missing heartbeats"),
            "the node 10.77.0.3 was lost (health check failed due to missing heartbeats)",
        ),
        (
            ActorUnavailableError("The actor is temporarily unavailable: RPC error: Socket closed", b"0" * 16),
            "Ray lost a process that trained on a node (The actor",
        ),
        (
            OutOfMemoryError(MONITOR),
            "the node 10.77.0.3 ran short of memory, and Ray ended a process that trained there: close other programs",
        ),
        (
            died(EXITED.format("SYSTEM_ERROR", "End of file. killed by SIGKILL by OOM killer due to high memory")),
            "a training process on the node 10.77.0.3 died. Either the system ran out of memory (check dmesg",
        ),
        (raised(ObjectLostError("00ff", None, "")), "Ray lost a process that trained on a node ("),
    ],
)
def test_a_death_that_ray_reports_is_a_machine_error(error: RayError, begins: str) -> None:
    assert machine_error_text(error, str(error)).startswith(begins)


@pytest.mark.parametrize(
    "error",
    [
        raised(ValueError("the actor's patience")),
        raised(raised(ValueError("in a task of the family's own"))),
        ActorDiedError.from_task_error(raised(ImportError("No module named 'mine'"))),
        died(EXITED.format("INTENDED_USER_EXIT", "Worker exits by an user request. Worker exits with an exit code 0.")),
        died(EXITED.format("SYSTEM_ERROR", "Worker exits unexpectedly. Worker exits with an exit code 3.")),
    ],
)
def test_errors_in_a_stacks_own_code_are_not_machine_errors(error: RayError) -> None:
    assert machine_error_text(error, str(error)) == ""


def test_the_machine_error_that_ended_tune_is_found_in_its_causes() -> None:
    with pytest.raises(RuntimeError) as unexpected:
        raise RuntimeError("Caught unexpected exception") from OutOfMemoryError(MONITOR)
    assert machine_error_behind(unexpected.value).startswith("the node 10.77.0.3 ran short of memory")
    assert machine_error_behind(RuntimeError("a bug")) == ""


@pytest.mark.night
@pytest.mark.timeout(600)
def test_a_process_ended_by_rays_memory_monitor_is_not_a_failed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monitor ends every training process, and the sweep stops. The printed command resumes it with the finished
    runs."""
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.01")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "3000")
    home, wanted, console = tmp_path / "home", troubled_spec(tmp_path, pace_s=2.0), quiet()
    with pytest.raises(SweepError, match="ran short of memory, and Ray ended") as stopped:
        run_here(wanted, home, engine="ray", console=console)
    sweep_id = only_sweep(home).id
    assert str(stopped.value).endswith(f"Continue with\nthe same command and --resume {sweep_id}")
    assert "The machine failed, not the run: the node 127.0.0.1 ran short of memory" in printed(console)
    assert "failed" not in printed(console)
    run_here(wanted, home, resume=sweep_id)
    assert statuses(home) == [Status.FINISHED] * 4


@pytest.mark.night
def test_a_process_killed_by_hand_is_not_a_failed_run(tmp_path: Path) -> None:
    """``retries: 0``: a single failure of a stack would end the sweep."""
    (tmp_path / "log.dies").write_text("2")
    home, console = tmp_path / "home", quiet()
    wanted = troubled_spec(tmp_path).model_copy(update={"resources": Resources(max_stack=1, retries=0)})
    run_here(wanted, home, engine="ray", console=console)
    assert statuses(home) == [Status.FINISHED] * 4
    assert "The machine failed, not the run: a training process on the node" in printed(console)


@pytest.mark.night
def test_a_stack_leaves_the_process_whose_gpu_is_lost(tmp_path: Path) -> None:
    """``retries: 0``: a single failure of a stack would end the sweep."""
    home, console = tmp_path / "home", quiet()
    wanted = troubled_spec(tmp_path, times=2, trouble="ECC").model_copy(
        update={"resources": Resources(max_stack=1, retries=0)}
    )
    run_here(wanted, home, engine="ray", console=console)
    assert statuses(home) == [Status.FINISHED] * 4
    assert "The machine failed, not the run: the GPU of" in printed(console)
    started = [event for event in begun(tmp_path / "log") if event.size == 16]
    assert len(started) == 4
    assert len({event.process for event in started}) >= 3
