"""Runs x steps per second: the project's steps against plain PyTorch, with one process or several on a device.

    python -m tests.bench.throughput --device cuda        # the paper's shape on one GPU
    python -m tests.bench.throughput --device cuda --precision bf16 --within 300 --json rates.json
    python -m tests.bench.throughput --device cpu --quick # flat sums, one thread, a few minutes
    python -m tests.bench.throughput --device cpu --shape nested --widths 12 24 48

Forms: ``a1`` is a plain eager process; ``a2`` is the same, compiled (on a GPU with a CUDA graph; on a CPU not with
``--quick``); ``b`` is k plain processes at once (compiled on a GPU); ``stack of S`` is torch's step of S runs;
``native`` is the step of one run in native code. On a CPU every rate is per core: runs x steps per second of that
core's computing time. All forms except ``b`` then take turns in one process, and the best of many short bursts counts,
because other programs on the machine can only slow a burst down.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, cast, get_args

import torch

from tests.bench.machine import clock, core_ceiling, describe, matmul_ceiling, peak_memory_gb, steps_a_second
from tests.bench.plain import SHAPES, Case, make_run
from trainables.contract.files import write_whole
from trainables.transformer.gpu_step import WARM_UP_CALLS
from trainables.transformer.native.trainer import NativeTrainer
from trainables.transformer.stack import StackTrainer
from trainables.transformer.training_settings import Precision

WIDTHS = (64, 16, 256, 32, 128)
"""Widths in the order of measurement, the most important first."""
ROUNDS = 3
BURST_S = 0.01
"""Approximate computing time of a burst, in seconds."""
_all_ready: Barrier
HEAD = "| n_embed | form | runs x steps/s | / best plain | tokens/s | of ceiling | peak GB | prepare s |"


@dataclass(frozen=True)
class Measured:
    """The rate of a form: the median of its rounds, or the rate of the best burst."""

    rate: float
    peak_gb: float
    prepare_s: float


def stack(case: Case, runs: int, seconds: float) -> Measured:
    if case.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    measured = _measured(_counted(case.stack(runs)), case, seconds, begun, lambda: None)
    return Measured(runs * measured.rate, measured.peak_gb, measured.prepare_s)


def plain(case: Case, processes: int, seconds: float, *, compiled: bool) -> Measured:
    """Measure one plain run in each of several processes at once."""
    context = multiprocessing.get_context("spawn")
    meeting = (context.Barrier(processes),)
    with ProcessPoolExecutor(processes, context, initializer=_begin, initargs=meeting) as pool:
        futures = [pool.submit(_work, case, seconds, compiled) for _ in range(processes)]
        results = [future.result() for future in futures]
    rate = sum(result.rate for result in results) / (processes if case.device == "cpu" else 1)
    return Measured(rate, sum(result.peak_gb for result in results), max(result.prepare_s for result in results))


@cache
def in_turns(case: Case, seconds: float, *, compiled: bool) -> dict[str, Measured]:
    """Measure the single-process forms on a CPU, each for about ``seconds``."""
    begun = time.perf_counter()
    runs = {"a1": make_run(case, compiled=False).train} | (
        {"a2": make_run(case, compiled=True).train} if compiled else {}
    )
    trains: dict[str, tuple[int, Callable[[int], None]]] = {name: (1, train) for name, train in runs.items()}
    trains |= {f"stack of {size}": (size, _counted(case.stack(size))) for size in (1, 4)}
    trains["native"] = 1, _counted(case.native())
    steps, best = {}, dict.fromkeys(trains, math.inf)
    for name, (_, train) in trains.items():
        train(2)
        steps[name] = max(1, int(BURST_S / _burst_s(train, 1)))
    prepare_s, end = time.perf_counter() - begun, time.process_time() + len(trains) * seconds
    while time.process_time() < end:
        for name, (_, train) in trains.items():
            best[name] = min(best[name], _burst_s(train, steps[name]) / steps[name])
    return {
        name: Measured(size / best[name], peak_memory_gb(case.device), prepare_s) for name, (size, _) in trains.items()
    }


def _burst_s(train: Callable[[int], None], steps: int) -> float:
    """Return the computing seconds of this thread for some steps."""
    begun = time.thread_time()
    train(steps)
    return time.thread_time() - begun


def _counted(trainer: StackTrainer | NativeTrainer) -> Callable[[int], None]:
    """Return a function that trains this many further steps."""
    done = 0

    def train(steps: int) -> None:
        nonlocal done
        trainer.run(done, done + steps)
        done += steps

    return train


def _begin(meeting: Barrier) -> None:
    global _all_ready
    _all_ready = meeting


def _work(case: Case, seconds: float, compiled: bool) -> Measured:
    """Measure a plain run once all processes are ready."""
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


@dataclass(frozen=True)
class Form:
    """One cell of the table. ``measure`` takes the number of seconds for the measurement."""

    case: Case
    name: str
    measure: Callable[[float], Measured]
    is_plain: bool = False


def forms_of(case: Case, *, quick: bool) -> list[Form]:
    """Return all forms of a case, with the plain forms first, because the others are compared with them."""
    if case.device == "cpu":
        names = (
            ("a1", "stack of 1", "stack of 4", "native")
            if quick
            else ("a1", "a2", "stack of 1", "stack of 4", "native")
        )
        forms = [
            Form(case, name, partial(_of_turns, case, name, compiled=not quick), is_plain=name[0] == "a")
            for name in names
        ]
        return [*forms, Form(case, "b, k = 2", partial(plain, case, 2, compiled=False), is_plain=True)]
    forms = [
        Form(case, "a2" if compiled else "a1", partial(plain, case, 1, compiled=compiled), is_plain=True)
        for compiled in (False, True)
    ]
    forms += [
        Form(case, f"b, k = {count}", partial(plain, case, count, compiled=True), is_plain=True)
        for count in (2, 4, 8, 16)
    ]
    return forms + [Form(case, f"stack of {runs}", partial(stack, case, runs)) for runs in (1, 4, 16, 64, 256)]


def _of_turns(case: Case, name: str, seconds: float, *, compiled: bool) -> Measured:
    return in_turns(case, seconds, compiled=compiled)[name]


class Table:
    """Prints a Markdown row as soon as a form is measured, and writes all rows to a JSON file if one is named.

    A form too large for the device has no numbers.
    """

    def __init__(self, machine: dict[str, Any], ceiling: float, file: Path | None) -> None:
        self._machine = machine
        self._ceiling = ceiling
        self._file = file
        self._rows: list[dict[str, Any]] = []

    def add(self, form: Form, seconds: float) -> None:
        begun = time.monotonic()
        row: dict[str, Any] = {"n_embed": form.case.width, "form": form.name, "plain": form.is_plain}
        try:
            measured = form.measure(seconds)
        except torch.OutOfMemoryError:
            row["why"] = "more memory than the device has"
        else:
            row |= asdict(measured) | {"flops": form.case.flops_a_step, "tokens": form.case.shape.tokens_a_step}
        finally:
            gc.collect()
        row["took_s"] = round(time.monotonic() - begun, 1)
        self._rows.append(row)
        print(self._line(row), flush=True)
        if self._file is not None:
            content = {"machine": self._machine, "matmul_flops": self._ceiling, "rows": self._rows}
            write_whole(self._file, json.dumps(content, indent=1) + "\n")

    def longest_s(self, kind: str) -> float:
        """Return the seconds that the slowest form of a kind took so far, including compilation."""
        return max((row["took_s"] for row in self._rows if row["form"][0] == kind), default=0.0)

    def _line(self, row: dict[str, Any]) -> str:
        """Return a row as text. Its ratio is to the best plain form measured so far at this width."""
        if "why" in row:
            return f"| {row['n_embed']} | {row['form']} | {row['why']} |"
        plain = [
            old["rate"] for old in self._rows if old["plain"] and old["n_embed"] == row["n_embed"] and "rate" in old
        ]
        ratio = f"{row['rate'] / max(plain):.2f}" if plain else "-"
        numbers = (f"{row['rate']:.4g}", ratio, f"{row['rate'] * row['tokens']:.3g}")
        rest = (f"{row['rate'] * row['flops'] / self._ceiling:.1%}", f"{row['peak_gb']:.2f}", f"{row['prepare_s']:.1f}")
        return f"| {' | '.join((str(row['n_embed']), row['form'], *numbers, *rest))} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--quick", action="store_true", help="n_embed 16, 32 and 64, short measurements")
    parser.add_argument("--shape", choices=tuple(SHAPES), help="default: flat on a CPU, paper on a GPU")
    parser.add_argument("--precision", choices=get_args(Precision), default="float32", help="of matrix products")
    parser.add_argument("--widths", type=int, nargs="+")
    parser.add_argument("--seconds", type=float, help="length of one measurement")
    parser.add_argument(
        "--within", type=float, metavar="SECONDS", help="skip forms that may not finish within this time"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the rows to this file as they are measured"
    )
    given = parser.parse_args(arguments)
    end = math.inf if given.within is None else time.monotonic() + given.within
    gpu, precision = given.device == "cuda", cast(Precision, given.precision)
    if precision == "tf32" and not gpu:
        parser.error("--precision tf32 needs a GPU")
    seconds = given.seconds or (0.5 if given.quick else 1.0 if gpu else 3.0)
    torch.set_num_threads(1)
    ceiling = matmul_ceiling(given.device, precision) if gpu else core_ceiling()
    machine = {**describe(given.device), "precision": precision, "ceiling in GFLOP/s": f"{ceiling / 1e9:.1f}"}
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(HEAD + "\n" + "|---" * 8 + "|")
    widths = given.widths or ((16, 32, 64) if given.quick or not gpu else WIDTHS)
    shape = SHAPES[given.shape or ("paper" if gpu else "flat")]
    cases = [Case(shape, width, precision, given.device) for width in widths]
    forms = [form for case in cases for form in forms_of(case, quick=given.quick)]
    if given.within is not None:  # Parallel processes take longest and matter least.
        forms.sort(key=lambda form: form.name.startswith("b"))
    table = Table(machine, ceiling, given.json)
    left_out = 0
    for form in forms:
        if end - time.monotonic() < max(table.longest_s(form.name[0]), (ROUNDS + 1) * seconds):
            left_out += 1
        else:
            table.add(form, seconds)
    if left_out:
        print(f"skipped {left_out} of {len(forms)} forms for lack of time (--within)")


if __name__ == "__main__":
    main()
