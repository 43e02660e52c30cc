"""The ways of training many runs that the throughput benchmark compares.

Each is made ready, measured a few times and closed. A rate is runs x steps a second.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from tests.bench.machine import clock, peak_memory_gb, steps_a_second
from tests.bench.plain import Case
from trainables.transformer.gpu_step import WARM_UP_CALLS
from trainables.transformer.stack import StackTrainer

ROOT = Path(__file__).parents[2]


class Worker:
    """A process that trains one plain run at a time (plain.py). Its first answer says that it has started."""

    def __init__(self, device: str, shape: str, precision: str) -> None:
        arguments = ["--device", device, "--shape", shape, "--precision", precision]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.plain", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def ask(self, wish: dict[str, Any]) -> None:
        """Send a wish without waiting for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(wish) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The answer to the earliest wish not yet answered. Raises ``RuntimeError`` where the process has died."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended with exit code {self._process.wait()}; its last words are above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def dismiss(self) -> None:
        """Let the process end."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> None:
        """Until the process has ended."""
        self._process.wait()


class Form(ABC):
    """One way of training. ``runs`` is how many it trains at once."""

    name: str
    runs: int
    prepare_s: float = 0.0
    peak_gb: float = 0.0

    def __enter__(self) -> Form:
        begun = time.perf_counter()
        self.prepare()
        self.prepare_s = time.perf_counter() - begun
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def prepare(self) -> None:
        """Build, compile and warm up."""

    @abstractmethod
    def measure(self, seconds: float) -> float:
        """Train for about ``seconds``; runs x steps a second."""

    def close(self) -> None:
        """Give memory back."""
        gc.collect()


class Plain(Form):
    """One plain run in each of some processes, all at work at once."""

    def __init__(self, name: str, case: Case, workers: Sequence[Worker], *, compiled: bool) -> None:
        self.name, self.runs = name, len(workers)
        self._case, self._workers, self._compiled = case, workers, compiled

    def prepare(self) -> None:
        # The first by itself: the others find what it compiled in the compiler's cache.
        for group in (self._workers[:1], self._workers[1:]):
            self._ask_all(group, {"width": self._case.width, "compiled": self._compiled})

    def measure(self, seconds: float) -> float:
        answers = self._ask_all(self._workers, {"seconds": seconds})
        self.peak_gb = sum(answer["peak_gb"] for answer in answers)
        return sum(float(answer["rate"]) for answer in answers)

    @staticmethod
    def _ask_all(workers: Sequence[Worker], wish: dict[str, Any]) -> list[dict[str, Any]]:
        for worker in workers:
            worker.ask(wish)
        return [worker.answer() for worker in workers]


class Stack(Form):
    """A stack of runs in this process."""

    def __init__(self, case: Case, runs: int, compile_step: bool | None) -> None:
        self.name, self.runs = f"stack of {runs}", runs
        self._case, self._compile_step = case, compile_step
        self._trainer: StackTrainer | None = None
        self._step = 0

    def prepare(self) -> None:
        if self._case.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            torch.backends.cuda.matmul.allow_tf32 = self._case.precision == "tf32"
        self._trainer = self._case.stack(self.runs, self._compile_step)
        self._train(WARM_UP_CALLS + 2)
        clock(self._case.device)

    def measure(self, seconds: float) -> float:
        rate = self.runs * steps_a_second(self._train, self._case.device, seconds)
        self.peak_gb = peak_memory_gb(self._case.device)
        return rate

    def close(self) -> None:
        self._trainer = None
        super().close()
        if self._case.device == "cuda":
            torch.cuda.empty_cache()

    def _train(self, steps: int) -> None:
        assert self._trainer is not None
        self._trainer.run(self._step, self._step + steps)
        self._step += steps
