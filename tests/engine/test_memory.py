"""Out of memory: the stack is halved until it fits, continues from its checkpoint, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import torch

from orchestrator.engine import device
from orchestrator.engine.device_errors import is_out_of_memory, lost_device
from orchestrator.jobs.resources import Resources
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import SweepError
from tests.scripted import events
from tests.sweep.sweeps import ended, only_sweep, printed, quiet, run_here, scripted, spec
from trainables.base import Status
from trainables.transformer import gpu_step

pytestmark = pytest.mark.usefixtures("undrawn")


def stack_spec(log: Path, **settings: int) -> SweepSpec:
    """Return a spec of eight runs of one size, which start as a single stack."""
    resources = {"max_stack": 8, "cpu_per_stack": 1, "checkpoint_every_s": 1e-9}
    return scripted(log, {"steps": 4, **settings}, sizes=[16], seeds=8, resources=resources)


def sweep(home: Path, **settings: int) -> tuple[Counter[tuple[int, int]], str]:
    """Train them. Return the number of runs by stack size and evaluation, and the printed text."""
    log, console = home / "log", quiet()
    run_here(stack_spec(log, **settings), home, console=console)
    entries = ended(home)
    assert {entry.request.seed for entry in entries} == set(range(8))
    assert len(entries) == 8
    assert {entry.outcome.status for entry in entries} == {Status.FINISHED}
    assert not list(only_sweep(home).stacks.iterdir())
    return Counter((item.runs, item.step) for item in events(log)), printed(console)


def test_a_stack_is_halved_until_it_fits_and_continues_from_its_checkpoint(tmp_path: Path) -> None:
    reached, output = sweep(tmp_path, room=2, grows_at=2)
    # All eight runs reached the first evaluation together, once; they reached the others in four pairs.
    assert reached == {(8, 1): 8, (2, 2): 8, (2, 3): 8, (2, 4): 8}
    assert "out of memory at units 16: its stacks now have at most 2 runs" in output


def test_without_a_checkpoint_the_halves_start_over(tmp_path: Path) -> None:
    reached, _ = sweep(tmp_path, room=2, grows_at=1)
    assert reached == {(2, step): 8 for step in (1, 2, 3, 4)}


def test_a_single_run_that_does_not_fit_stops_the_sweep_without_an_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.engine.retries.WAITS_S", (0.0,))
    wanted = scripted(tmp_path / "log", {"room": 0, "grows_at": 1}, sizes=[16, 32])
    with pytest.raises(SweepError, match="even one run at units 16 does not fit in memory"):
        run_here(wanted, tmp_path)
    assert ended(tmp_path) == []


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("shapes do not match"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_out_of_memory_is_distinguished_from_other_errors(error: Exception, is_one: bool) -> None:
    assert is_out_of_memory(error) is is_one


def test_out_of_memory_is_found_in_the_causes_of_an_error() -> None:
    recording = RuntimeError("CUDA error: operation failed due to a previous error during capture")
    recording.__context__ = torch.OutOfMemoryError("CUDA out of memory")
    assert is_out_of_memory(recording)
    recording.__suppress_context__ = True  # Like "raise ... from None": the earlier error was handled.
    assert not is_out_of_memory(recording)
    recording.__suppress_context__ = False
    recording.__context__ = ValueError("shapes do not match")
    assert not is_out_of_memory(recording)


@pytest.mark.parametrize(
    ("message", "is_lost"),
    [
        ("CUDA error: uncorrectable ECC error encountered", True),
        ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", True),
        ("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`", True),
        ("No CUDA GPUs are available", True),
        ("Torch not compiled with CUDA enabled", True),
        ("CUDA error: device-side assert triggered", False),
        ("CUDA error: an illegal memory access was encountered", False),
        ("CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasSgemm(...)`", False),
        ("CUDA error: operation not permitted when stream is capturing", False),
        ("CUDA error: out of memory", False),
        ("shapes do not match", False),
    ],
)
def test_an_unusable_gpu_is_distinguished_from_errors_of_its_code(message: str, is_lost: bool) -> None:
    error = ValueError("evaluation failed")
    error.__cause__ = RuntimeError(message)
    assert bool(lost_device(error)) is is_lost


def test_uncompiled_gpu_steps_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_step, "lacking", lambda: ("Triton",))
    family = load_space("add_vs_add_prod", "smoke").make_family()
    assert device.slowness(family, Resources()) == ()
    monkeypatch.setattr(torch, "cuda", MagicMock())
    [output] = device.slowness(family, Resources(gpu_per_stack=1))
    assert output.endswith("training on a GPU is not compiled, so it is slower: install Triton")


@pytest.mark.parametrize("space", ["tests", "reparametrization_heat"])
def test_families_without_compiled_steps_are_not_warned_of_them(space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_step, "lacking", lambda: ("Triton",))
    monkeypatch.setattr(torch, "cuda", MagicMock())
    one = spec() if space == "tests" else load_space(space, "smoke", variant="work")
    assert device.slowness(one.make_family(), Resources(gpu_per_stack=1)) == ()


@pytest.mark.night
def test_a_stack_is_halved_under_ray(tmp_path: Path) -> None:
    import ray

    if ray.is_initialized():
        ray.shutdown()
    log = tmp_path / "log"
    run_here(stack_spec(log, room=1), tmp_path, engine="ray")
    entries = ended(tmp_path)
    assert {(entry.request.seed, entry.outcome.status) for entry in entries} == {(s, Status.FINISHED) for s in range(8)}
    assert Counter(item.step for item in events(log) if item.runs == 1) == {2: 8, 3: 8, 4: 8}
