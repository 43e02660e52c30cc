"""How many runs x steps a second: stacks against one process per run and against processes that share the device.

    python -m tests.bench.throughput --device cuda        # the paper's shape on one GPU
    python -m tests.bench.throughput --device cuda --precision bf16 --within 300 --json rates.json
    python -m tests.bench.throughput --device cpu --quick # the laptop profile's shape, one thread, a few minutes

Forms: ``a1`` a plain eager process, ``a2`` the same compiled (on a GPU with a CUDA graph; on a CPU not with
``--quick``), ``b`` k plain processes at once (on a GPU compiled ones), ``stack of S`` the project's own. On a CPU every
rate is per core: runs x steps per second of that core's computing time.
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
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, cast, get_args

import torch

from tests.bench.machine import clock, describe, matmul_ceiling, peak_memory_gb, steps_a_second
from tests.bench.plain import SHAPES, Case, make_run
from trainables.files import write_whole
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


@dataclass(frozen=True)
class Form:
    """One cell of the table: ``measure`` takes the seconds that the measurement itself may last."""

    case: Case
    name: str
    measure: Callable[[float], Measured]
    is_plain: bool = False


def forms_of(case: Case, *, quick: bool) -> list[Form]:
    """Return all forms of a case: the plain ones first, which the others are compared with."""
    gpu = case.device == "cuda"
    forms = [
        Form(case, "a2" if compiled else "a1", partial(plain, case, 1, compiled=compiled), is_plain=True)
        for compiled in ((False, True) if gpu or not quick else (False,))
    ]
    forms += [
        Form(case, f"b, k = {count}", partial(plain, case, count, compiled=gpu), is_plain=True)
        for count in ((2, 4, 8, 16) if gpu else (2,))
    ]
    counts = (1, 4, 16, 64, 256) if gpu else (1, 2, 4, 8)
    return forms + [Form(case, f"stack of {runs}", partial(stack, case, runs)) for runs in counts]


class Table:
    """Prints a row a form, as Markdown, as soon as it is measured, and keeps all rows in a JSON file if one is named.
    A form too large for the device has no numbers."""

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
            kept = {"machine": self._machine, "matmul_flops": self._ceiling, "rows": self._rows}
            write_whole(self._file, json.dumps(kept, indent=1) + "\n")

    def longest_s(self, kind: str) -> float:
        """Return the seconds that the slowest form of a kind took so far, its compilation included."""
        return max((row["took_s"] for row in self._rows if row["form"][0] == kind), default=0.0)

    def _line(self, row: dict[str, Any]) -> str:
        """A row as text. Its ratio is to the best plain form measured so far at this width."""
        if "why" in row:
            return f"| {row['n_embed']} | {row['form']} | {row['why']} |"
        plain = [
            one["rate"] for one in self._rows if one["plain"] and one["n_embed"] == row["n_embed"] and "rate" in one
        ]
        ratio = f"{row['rate'] / max(plain):.2f}" if plain else "-"
        numbers = (f"{row['rate']:.4g}", ratio, f"{row['rate'] * row['tokens']:.3g}")
        rest = (f"{row['rate'] * row['flops'] / self._ceiling:.1%}", f"{row['peak_gb']:.2f}", f"{row['prepare_s']:.1f}")
        return f"| {' | '.join((str(row['n_embed']), row['form'], *numbers, *rest))} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every form at every width."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--quick", action="store_true", help="laptop shape, n_embed 16, 32 and 64, short measurements")
    parser.add_argument("--precision", choices=get_args(Precision), default="float32", help="of matrix products")
    parser.add_argument("--widths", type=int, nargs="+")
    parser.add_argument("--seconds", type=float, help="length of one measurement")
    parser.add_argument("--within", type=float, metavar="SECONDS", help="begin no form that may not end in this time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all rows here too, from the first one on")
    given = parser.parse_args(arguments)
    end = math.inf if given.within is None else time.monotonic() + given.within
    gpu, precision = given.device == "cuda", cast(Precision, given.precision)
    if precision == "tf32" and not gpu:
        parser.error("--precision tf32 needs a GPU")
    seconds = given.seconds or (0.5 if given.quick else 1.0 if gpu else 3.0)
    torch.set_num_threads(1)
    ceiling = matmul_ceiling(given.device, precision)
    machine = {**describe(given.device), "precision": precision, "matmul GFLOP/s": f"{ceiling / 1e9:.1f}"}
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(HEAD + "\n" + "|---" * 8 + "|")
    widths = given.widths or ((16, 32, 64) if given.quick or not gpu else WIDTHS)
    shape = SHAPES["laptop" if given.quick else "paper"]
    cases = [Case(shape, width, precision, given.device) for width in widths]
    forms = [form for case in cases for form in forms_of(case, quick=given.quick)]
    if given.within is not None:  # Processes side by side take longest and are asked about least.
        forms.sort(key=lambda form: form.name.startswith("b"))
    table = Table(machine, ceiling, given.json)
    left_out = 0
    for form in forms:
        if end - time.monotonic() < max(table.longest_s(form.name[0]), (ROUNDS + 1) * seconds):
            left_out += 1
        else:
            table.add(form, seconds)
    if left_out:
        print(f"no time for {left_out} of {len(forms)} forms")


if __name__ == "__main__":
    main()
