"""What is set on a device, who computes on it, and that the tests marked gpu can end: in the emulation."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
import torch

from orchestrator.doctor.gpu.together import BRIEF
from orchestrator.engine.gpu_turns import this_gpu
from orchestrator.engine.timing import time_stacks
from orchestrator.engine.worker import StackWorker
from orchestrator.search.base import Request
from orchestrator.space.resources import Resources
from orchestrator.space.spaces import load_space
from orchestrator.store import lifecycle
from orchestrator.store.files import Home
from tests.drive.sweeps import spec
from tests.emulation.emulated import Emulation
from tests.engine.test_gpu_turns import Other
from tests.engine.test_worker import job_for

pytestmark = [pytest.mark.emulated, pytest.mark.timeout(600), pytest.mark.usefixtures("emulation")]

ROOT = Path(__file__).resolve().parents[2]
LONG_S, VERY_LONG_S = 3.0, 120.0


@pytest.fixture
def all_memory() -> Iterator[None]:
    """A worker takes a share of its device's memory, for the whole process."""
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.fixture
def reduced() -> Iterator[None]:
    """Sums in bf16, as torch has it unless told otherwise."""
    before = torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True
    yield
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = before


def waits_for(turn: str, work: Callable[[], object]) -> None:
    """Some work does not end while another process has such a turn on the GPU, and does after it."""
    other = Other(turn, this_gpu())
    other.is_in()
    thread = Thread(target=work)
    thread.start()
    thread.join(LONG_S)
    waited = thread.is_alive()
    other.let_go()
    thread.join(VERY_LONG_S)
    assert waited
    assert not thread.is_alive()


@pytest.mark.usefixtures("all_memory")
def test_a_stack_is_timed_when_nothing_trains_on_its_gpu(tmp_path: Path) -> None:
    family = load_space("add_vs_add_prod", "smoke").make_family()
    waits_for("training_on", lambda: time_stacks(family, [], (), Resources(gpu_per_stack=1.0), tmp_path))


@pytest.mark.usefixtures("all_memory")
def test_a_stack_trains_when_nothing_is_timed_on_its_gpu(tmp_path: Path) -> None:
    sweep = lifecycle.create(spec(resources={"gpu_per_stack": 1.0, "max_stack": 1}), Home(tmp_path))
    worker = StackWorker(job_for(Home(tmp_path), sweep, (Request("add", 16, 0),)))
    waits_for("timing_on", worker.advance)


@pytest.mark.usefixtures("reduced")
def test_a_learner_sums_its_weights_gradients_in_float32(tmp_path: Path) -> None:
    asked = load_space("add_vs_add_prod", "smoke", ["settings.training.precision=bf16"])
    family = asked.make_family()
    family.learner([family.config(asked.baseline, 8, 0)], device="cuda", cache=tmp_path)
    assert not torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction


def test_tests_marked_gpu_end_without_an_error(emulation: Emulation) -> None:
    """What they find is worth nothing here; that they come to an end is."""
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "gpu",
        "-k",
        "less_precision and tf32",
        "-p",
        "no:cacheprovider",
        *BRIEF,
    ]
    words.append("tests/trainables/test_stack_capture.py")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    [*_, last] = done.stdout.strip().splitlines()
    assert "error" not in last
    assert "1 passed" in last or "1 failed" in last
    assert len(emulation.recordings()) == 2
