"""On one GPU several stacks train at a time, or one is timed."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from orchestrator.engine.gpu_turns import timing_on, training_on

ROOT = Path(__file__).resolve().parents[2]
HOLD = """
import sys, time
from orchestrator.engine import gpu_turns
turn = getattr(gpu_turns, sys.argv[1])
with turn(sys.argv[2]):
    print("in", flush=True)
    sys.stdin.readline()
"""
Turn = Callable[[str], AbstractContextManager[None]]


class Other:
    """Another process that takes its turn on a GPU, and keeps it until it is let go."""

    def __init__(self, turn: str, gpu: str) -> None:
        words = [sys.executable, "-c", HOLD, turn, gpu]
        self._process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def is_in(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "in\n"

    def ended(self) -> bool:
        return self._process.poll() is not None

    def let_go(self) -> None:
        self._process.communicate("\n", timeout=60)


@pytest.fixture
def gpu() -> str:
    return f"GPU-{uuid.uuid4()}"


def test_stacks_train_together_and_another_gpu_is_another_matter(gpu: str) -> None:
    other = Other("training_on", gpu)
    other.is_in()
    with training_on(gpu), timing_on(f"{gpu}-2"), timing_on(""):
        assert not other.ended()
    other.let_go()


def test_who_times_waits_for_those_who_train_and_is_next(gpu: str) -> None:
    first, timer = Other("training_on", gpu), None
    first.is_in()
    timer = Other("timing_on", gpu)
    time.sleep(3.0)  # Time to import torch and to stand at the door.
    late = Other("training_on", gpu)
    first.let_go()
    timer.is_in()
    timer.let_go()
    late.is_in()
    late.let_go()


def test_a_turn_ends_with_its_process(gpu: str) -> None:
    other = Other("timing_on", gpu)
    other.is_in()
    other._process.kill()
    other._process.wait()
    with timing_on(gpu):
        pass
