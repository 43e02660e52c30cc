"""How many runs x steps a second: stacks against one process per run and against processes that share the device.

    python -m tests.bench.throughput --device cuda        # the paper's shape, bf16, on one GPU
    python -m tests.bench.throughput --device cpu --quick # the laptop profile's shape, one thread, a few minutes

Forms: ``a1`` a plain eager process, ``a2`` the same compiled (on a GPU with a CUDA graph; on a CPU not with
``--quick``), ``b`` the better of them in k processes at once, ``stack of S`` the project's own. On a CPU every rate is
per core: runs x steps per second of that core's computing time.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing.synchronize import Barrier

import torch

from tests.bench.machine import clock, describe, matmul_ceiling, peak_memory_gb, steps_a_second
from tests.bench.plain import SHAPES, Case, make_run
from trainables.transformer.gpu_step import WARM_UP_CALLS
from trainables.transformer.training_settings import Precision

WIDTHS = (64, 16, 256, 32, 128)
"""In the order they are measured: what matters most comes first."""
ROUNDS = 3
_all_ready: Barrier
HEAD = "| n_embed | form | runs x steps/s | / best plain | tokens/s | of ceiling | peak GB | prepare s |"


@dataclass(frozen=True)
class Measured:
    """The median rate of a form."""

    rate: float
    peak_gb: float
    prepare_s: float


def stack(case: Case, runs: int, seconds: float) -> Measured:
    """A stack of runs in this process."""
    if case.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    torch.backends.cuda.matmul.allow_tf32 = case.precision == "tf32"
    begun, step = time.perf_counter(), 0
    trainer = case.stack(runs)

    def train(steps: int) -> None:
        nonlocal step
        trainer.run(step, step + steps)
        step += steps

    found = _measured(train, case, seconds, begun, lambda: None)
    return Measured(runs * found.rate, found.peak_gb, found.prepare_s)


def plain(case: Case, processes: int, seconds: float, *, compiled: bool) -> Measured:
    """One plain run in each of some processes, all at work at once."""
    context = multiprocessing.get_context("spawn")
    meeting = (context.Barrier(processes),)
    with ProcessPoolExecutor(processes, context, initializer=_begin, initargs=meeting) as pool:
        asked = [pool.submit(_work, case, seconds, compiled) for _ in range(processes)]
        each = [one.result() for one in asked]
    rate = sum(one.rate for one in each) / (processes if case.device == "cpu" else 1)
    return Measured(rate, sum(one.peak_gb for one in each), max(one.prepare_s for one in each))


def _begin(meeting: Barrier) -> None:
    global _all_ready
    _all_ready = meeting


def _work(case: Case, seconds: float, compiled: bool) -> Measured:
    """A plain run, measured once all processes are ready."""
    torch.set_num_threads(1)
    begun = time.perf_counter()
    try:
        return _measured(make_run(case, compiled=compiled).train, case, seconds, begun, _all_ready.wait)
    except BaseException:
        _all_ready.abort()
        raise


def _measured(
    train: Callable[[int], None], case: Case, seconds: float, begun: float, ready: Callable[[], object]
) -> Measured:
    train(WARM_UP_CALLS + 2)
    clock(case.device)
    prepare_s = time.perf_counter() - begun
    ready()
    rate = statistics.median(steps_a_second(train, case.device, seconds) for _ in range(ROUNDS))
    return Measured(rate, peak_memory_gb(case.device), prepare_s)


class Table:
    """Prints a row a form, as Markdown, as soon as it is measured. A form too large for the device has none."""

    def __init__(self, case: Case, ceiling: float) -> None:
        self._case = case
        self._ceiling = ceiling
        self.plain: dict[str, float] = {}

    def add(self, form: str, measure: Callable[[], Measured], *, is_plain: bool = False) -> None:
        try:
            found = measure()
        except torch.OutOfMemoryError:
            print(f"| {self._case.width} | {form} | more memory than the device has |", flush=True)
            return
        finally:
            gc.collect()
        if is_plain:
            self.plain[form] = found.rate
        ratio, ceiling = found.rate / max(self.plain.values()), found.rate * self._case.flops_a_step / self._ceiling
        numbers = (f"{found.rate:.4g}", f"{ratio:.2f}", f"{found.rate * self._case.shape.tokens_a_step:.3g}")
        rest = (f"{ceiling:.1%}", f"{found.peak_gb:.2f}", f"{found.prepare_s:.1f}")
        print(f"| {' | '.join((str(self._case.width), form, *numbers, *rest))} |", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every form at every width."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--quick", action="store_true", help="laptop shape, n_embed 16, 32 and 64, short measurements")
    parser.add_argument("--widths", type=int, nargs="+")
    parser.add_argument("--seconds", type=float, help="length of one measurement")
    given = parser.parse_args(arguments)
    gpu = given.device == "cuda"
    precision: Precision = "bf16" if gpu else "float32"
    seconds = given.seconds or (0.5 if given.quick else 1.0 if gpu else 3.0)
    torch.set_num_threads(1)
    ceiling = matmul_ceiling(given.device, precision)
    machine = {**describe(given.device), "precision": precision, "matmul GFLOP/s": f"{ceiling / 1e9:.1f}"}
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(HEAD + "\n" + "|---" * 8 + "|")
    for width in given.widths or ((16, 32, 64) if given.quick or not gpu else WIDTHS):
        case = Case(SHAPES["laptop" if given.quick else "paper"], width, precision, given.device)
        table = Table(case, ceiling)
        for compiled in (False, True) if gpu or not given.quick else (False,):
            form = "a2" if compiled else "a1"
            table.add(form, partial(plain, case, 1, seconds, compiled=compiled), is_plain=True)
        best = table.plain.get("a2", 0.0) > table.plain.get("a1", 0.0)
        for count in (2, 4, 8, 16) if gpu else (2,):
            table.add(f"b, k = {count}", partial(plain, case, count, seconds, compiled=best), is_plain=True)
        for runs in (1, 4, 16, 64, 256) if gpu else (1, 2, 4, 8):
            table.add(f"stack of {runs}", partial(stack, case, runs, seconds))


if __name__ == "__main__":
    main()
