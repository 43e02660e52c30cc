"""A sample stack trained in a process of its own: ``python -m orchestrator.doctor.fresh JSON`` prints JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from orchestrator.doctor.sample import Sample, digest

WARM_UP_STEPS = 6
"""Before steps are timed: on a GPU the step is compiled and recorded in them."""


@dataclass(frozen=True)
class Order:
    """What such a process is to do: train ``steps`` steps and, where ``seconds`` is positive, time more of them.

    ``share`` is the share of a GPU's memory it may take, ``compiled`` whether steps are compiled (None: as in a sweep).
    """

    sample: Sample
    steps: int
    seconds: float = 0.0
    share: float = 1.0
    compiled: bool | None = None


@dataclass(frozen=True)
class Done:
    """The state after those steps (:func:`orchestrator.doctor.sample.digest`), and runs x steps a second (0: not
    timed)."""

    digest: str
    rate: float


class FreshError(RuntimeError):
    """A process of its own died."""


def fresh(orders: Sequence[Order], timeout_s: float = 300.0) -> list[Done]:
    """Carry out each order in a new process, all at once. Raises :class:`FreshError` where one fails or is not done
    within ``timeout_s``."""
    words = [[sys.executable, "-m", __name__, json.dumps(asdict(order))] for order in orders]
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
    started = [
        subprocess.Popen(
            each, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}
        )
        for each in words
    ]
    deadline = time.monotonic() + timeout_s
    try:
        return [_answer(process, deadline) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def _answer(process: subprocess.Popen[str], deadline: float) -> Done:
    try:
        out, err = process.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise FreshError("a process of its own was not done in time") from error
    if process.returncode:
        last = next(reversed(err.strip().splitlines()), "")
        raise FreshError(f"a process of its own ended with exit code {process.returncode}: {last}")
    return Done(**json.loads(out.splitlines()[-1]))


def carry_out(order: Order) -> Done:
    """What one order comes to, in this process."""
    device = order.sample.device
    if device == "cuda" and order.share < 1:
        torch.cuda.set_per_process_memory_fraction(order.share)
    trainer = order.sample.trainer(order.compiled)
    trainer.run(0, order.steps)
    found, step = digest(trainer), order.steps
    if not order.seconds:
        return Done(found, 0.0)
    trainer.run(step, step + WARM_UP_STEPS)
    step += WARM_UP_STEPS
    _wait(device)
    begun = time.perf_counter()
    first = step
    while (spent := time.perf_counter() - begun) < order.seconds or step == first:
        trainer.run(step, step + 1)
        step += 1
        if (step - first) % 10 == 0:
            _wait(device)
    _wait(device)
    spent = time.perf_counter() - begun
    return Done(found, order.sample.runs * (step - first) / spent)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _order(text: str) -> Order:
    given = json.loads(text)
    return Order(**given | {"sample": Sample(**given["sample"])})


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(asdict(carry_out(_order(sys.argv[1])))))  # noqa: T201 - its answer to who started it
