"""How many runs x steps a second: stacks against one process per run and against processes that share the device.

    python -m tests.bench.throughput --device cuda        # the paper's shape, bf16, under 8 minutes on one GPU
    python -m tests.bench.throughput --device cpu --quick # the laptop profile's shape, one thread, a few minutes

Forms: ``a1`` a plain eager process, ``a2`` the same compiled (on a GPU with a CUDA graph), ``b`` the better of them in
k processes at once, ``stack of S`` the project's own. On a CPU every rate is per core: runs x steps per second of
that core's computing time, processes and stacks being measured in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from tests.bench.forms import Form, Plain, Stack, Worker
from tests.bench.machine import describe, matmul_ceiling, write_json
from tests.bench.plain import SHAPES, Case

WIDTHS = (64, 16, 256, 32, 128)
"""In the order they are measured: if time runs out, what matters most is there."""
ROUNDS = 3


@dataclass(frozen=True)
class Row:
    """One form at one width. Ratios to forms that were not measured are None; ``share`` is of the matmul ceiling."""

    n_embed: int
    form: str
    rate: float
    to_a1: float | None
    to_a2: float | None
    to_b: float | None
    tokens_a_second: float
    share: float
    peak_gb: float
    prepare_s: float


@dataclass(frozen=True)
class Options:
    """What to measure and for how long (``seconds`` a measurement, ``minutes`` in all)."""

    device: str
    shape: str
    precision: str
    widths: Sequence[int]
    stacks: Sequence[int]
    shares: Sequence[int]
    seconds: float
    minutes: float
    compile_step: bool | None
    compile_plain: bool


class Benchmark:
    """Measures every form at every width. ``notes`` say what was left out and why."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.rows: list[Row] = []
        self.notes: list[str] = []
        self.failed = False
        self.startup_s: list[float] = []
        self.ceiling = matmul_ceiling(options.device, options.precision)
        self._deadline = time.monotonic() + 60 * options.minutes
        self._workers: list[Worker] = []

    def run(self) -> Iterator[int]:
        """Measure all there is time for, one width after another."""
        try:
            for width in self.options.widths:
                self._run_width(width)
                yield width
        finally:
            for worker in self._workers:
                worker.dismiss()
            for worker in self._workers:
                worker.wait()

    def _run_width(self, width: int) -> None:
        o = self.options
        case = Case(SHAPES[o.shape], width, o.precision, o.device)  # type: ignore[arg-type]
        plain: list[Form] = [Plain("a1", case, self._take_workers(1), compiled=False)]
        if o.compile_plain:
            # On a CPU it takes turns with a1, so it needs a process of its own.
            plain.append(Plain("a2", case, self._take_workers(2)[-1:], compiled=True))
        stacks: list[Form] = [Stack(case, size, o.compile_step) for size in o.stacks]
        if o.device == "cpu":
            rates = self._in_turns([*plain, *stacks])
            shared = self._one_by_one(self._shared(case, rates))
        else:
            rates = self._one_by_one(plain)
            shared = self._one_by_one(self._shared(case, rates))
            rates |= self._one_by_one(stacks)
        self._add_rows(case, rates, {form: self._per_core(form, rate) for form, rate in shared.items()})

    def _take_workers(self, count: int) -> list[Worker]:
        """So many processes; those that are missing are started together."""
        o, begun = self.options, time.perf_counter()
        new = [Worker(o.device, o.shape, o.precision) for _ in range(count - len(self._workers))]
        self._workers += new
        for worker in new:
            worker.answer()
        if new:
            self.startup_s.append(time.perf_counter() - begun)
        return self._workers[:count]

    def _shared(self, case: Case, rates: dict[Form, float]) -> Iterator[Form]:
        plain = {form.name: rate for form, rate in rates.items() if form.name in ("a1", "a2")}
        for count in self.options.shares if plain else ():
            if self._late(f"b, k = {count}"):
                continue
            compiled = plain.get("a2", 0.0) > plain.get("a1", 0.0)
            yield Plain(f"b, k = {count}", case, self._take_workers(count), compiled=compiled)

    def _per_core(self, form: Form, rate: float) -> float:
        return rate / form.runs if self.options.device == "cpu" else rate

    def _in_turns(self, forms: Sequence[Form]) -> dict[Form, float]:
        """The median rate of each, all of them ready at once and measured in turns."""
        with contextlib.ExitStack() as open_forms:
            ready = [open_forms.enter_context(form) for form in forms]
            rounds = [[form.measure(self.options.seconds) for form in ready] for _ in range(ROUNDS)]
        return {form: statistics.median(rates) for form, rates in zip(forms, zip(*rounds, strict=True), strict=True)}

    def _one_by_one(self, forms: Iterator[Form] | Sequence[Form]) -> dict[Form, float]:
        """The median rate of each, until memory or time ends."""
        rates: dict[Form, float] = {}
        for form in forms:
            if self._late(form.name):
                continue
            failure = self._measure(form, rates)
            if failure:
                form.close()  # Not before the failure has let go of what it held.
                self.notes.append(f"{form.name}: {failure}")
            print(f"  {form.name}: {failure or f'{rates[form]:.1f}'}", file=sys.stderr, flush=True)
        return rates

    def _measure(self, form: Form, rates: dict[Form, float]) -> str:
        """Add the form's median rate to ``rates``; what went wrong if something did, for one form must not cost the
        others."""
        try:
            with form:
                rates[form] = statistics.median(form.measure(self.options.seconds) for _ in range(ROUNDS))
        except torch.OutOfMemoryError:
            return "more memory than the device has"
        except (RuntimeError, OSError) as error:  # The device's, the compiler's, a process that has died.
            self.failed = True
            return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        return ""

    def _late(self, name: str) -> bool:
        """Whether there is no time left; noted."""
        late = time.monotonic() > self._deadline
        if late:
            self.notes.append(f"{name}: not measured, {self.options.minutes:g} minutes were over")
        return late

    def _add_rows(self, case: Case, rates: dict[Form, float], shared: dict[Form, float]) -> None:
        by_name = {form.name: rate for form, rate in rates.items()}
        bests = (by_name.get("a1"), by_name.get("a2"), max(shared.values(), default=None))
        for form, rate in (rates | shared).items():
            to_a1, to_a2, to_b = (None if best is None else rate / best for best in bests)
            tokens = rate * case.shape.tokens_a_step
            share = rate * case.flops_a_step / self.ceiling
            self.rows.append(
                Row(case.width, form.name, rate, to_a1, to_a2, to_b, tokens, share, form.peak_gb, form.prepare_s)
            )
        self.rows.sort(key=lambda row: row.n_embed)


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""

    def ratio(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    head = (
        "n_embed",
        "form",
        "runs x steps/s",
        "/ a1",
        "/ a2",
        "/ best b",
        "tokens/s",
        "of ceiling",
        "peak GB",
        "prepare s",
    )
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        ratios = (ratio(row.to_a1), ratio(row.to_a2), ratio(row.to_b))
        numbers = (f"{row.tokens_a_second:.3g}", f"{row.share:.1%}", f"{row.peak_gb:.2f}", f"{row.prepare_s:.1f}")
        lines.append(f"| {' | '.join((str(row.n_embed), row.form, f'{row.rate:.4g}', *ratios, *numbers))} |")
    return "\n".join(lines)


def parse(arguments: Sequence[str] | None = None) -> tuple[Options, Path]:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--quick", action="store_true", help="laptop shape, n_embed 16, 32 and 64, short measurements")
    parser.add_argument("--shape", choices=SHAPES)
    parser.add_argument("--precision", choices=("float32", "tf32", "bf16"))
    parser.add_argument("--widths", type=int, nargs="+")
    parser.add_argument("--stacks", type=int, nargs="+")
    parser.add_argument("--shares", type=int, nargs="*", help="numbers of processes that share the device")
    parser.add_argument("--seconds", type=float, help="length of one measurement")
    parser.add_argument("--minutes", type=float, default=6.0, help="no measurement starts later than this")
    parser.add_argument("--eager", action="store_true", help="leave stacks uncompiled, on a GPU too")
    parser.add_argument("--no-a2", action="store_true", help="leave out the compiled plain process")
    parser.add_argument("--json", type=Path, default=Path("results/bench/throughput.json"))
    given = parser.parse_args(arguments)
    gpu = given.device == "cuda"
    options = Options(
        device=given.device,
        shape=given.shape or ("laptop" if given.quick else "paper"),
        precision=given.precision or ("bf16" if gpu else "float32"),
        widths=given.widths or ((16, 32, 64) if given.quick or not gpu else WIDTHS),
        stacks=given.stacks or ((1, 4, 16, 64, 256) if gpu else (1, 2, 4, 8)),
        shares=given.shares if given.shares is not None else ((2, 4, 8, 16) if gpu else (2,)),
        seconds=given.seconds or (0.5 if given.quick else 1.0 if gpu else 3.0),
        minutes=given.minutes,
        compile_step=False if given.eager else None,
        compile_plain=not given.no_a2,
    )
    return options, given.json


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print the table and write the JSON."""
    options, path = parse(arguments)
    torch.set_num_threads(1)
    benchmark = Benchmark(options)
    machine = describe(options.device)
    for width in benchmark.run():
        print(f"n_embed {width} measured", file=sys.stderr, flush=True)
        result = {
            "machine": machine,
            "options": asdict(options),
            "ceiling_flops": benchmark.ceiling,
            "process_start_s": benchmark.startup_s,
            "rows": [asdict(row) for row in benchmark.rows],
            "notes": benchmark.notes,
        }
        write_json(path, result)
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(", ".join(f"{key} {value}" for key, value in asdict(options).items()))
    print(
        f"matmul ceiling {benchmark.ceiling / 1e9:.1f} GFLOP/s; start of one process {benchmark.startup_s[0]:.1f} s\n"
    )
    print(table(benchmark.rows))
    print("\n".join(benchmark.notes))
    if benchmark.failed:
        sys.exit("a form failed; the notes above say which")
    return benchmark.rows


if __name__ == "__main__":
    main()
