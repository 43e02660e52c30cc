"""Checks of a GPU: its memory, its losses and bits against the CPU's and its own, and its sharing by processes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch

from orchestrator.doctor.finding import Check, Finding, ok, slow, wrong
from orchestrator.doctor.machine import GB, apart, at_once, trained, training
from orchestrator.engine.out_of_memory import is_out_of_memory
from orchestrator.search.base import Request
from orchestrator.space.spaces import load_space
from trainables.transformer.gpu_step import lacking

OLDEST_COMPUTE, BF16_UNITS = (7, 0), (8, 0)
"""Compute capability that Triton needs at least; that from which on NVIDIA's GPUs have matrix units for bf16."""
WIDTHS = (37, 64)
"""The first is padded, the second is not."""
NEAR = {"float32": 2e-3, "bf16": 4e-2}
"""Largest distance, in nats, of losses on the GPU from the CPU's in float32. float32: sums in another order, as in the
tests marked gpu. bf16: 2^-8 relative in each product, and its effect on a step. Neither was measured on a GPU."""
LARGE_BATCH = ("settings.training.batch=512", "settings.training.evaluate_every=10")
"""A step whose activations take far more memory than its parameters."""
SMALL, LARGE_SIZE = 16, 64
"""Widths of the stacks that are resumed and that share the GPU, and of the one that runs out of memory."""


def gpu_checks(home: Path) -> list[Check]:
    """Return the checks of this machine's first GPU. Those that need compiled steps come after one compilation of all
    forms and run at the same time. The one that fills memory runs alone: a small GPU has none left for others."""
    return [
        ("GPU", device),
        ("compiling", partial(compiling, home)),
        *at_once(
            [
                ("losses", partial(side_by_side, home)),
                ("resuming", partial(training, home, "cuda")),
                ("two processes", partial(two_processes, home)),
            ]
        ),
        ("memory's end", partial(memory_end, home)),
    ]


def device() -> Finding:
    """Kind, compute capability and free memory, and the tools for compiled steps."""
    properties = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info(0)
    capability = (properties.major, properties.minor)
    said = (
        f"{torch.cuda.device_count()} x {properties.name}, compute capability {capability[0]}.{capability[1]}, "
        f"{total / GB:.0f} GB, {free / GB:.0f} GB free"
    )
    if capability < OLDEST_COMPUTE:
        return wrong(said, "compiled steps need compute capability 7.0: train on the CPU, or elsewhere")
    if missing := lacking():
        return slow(f"{said}; steps run uncompiled: {', '.join(missing)} is missing", "install it")
    if free < 0.8 * total:
        return slow(said, "other processes hold memory here (nvidia-smi): stacks are smaller")
    if capability < BF16_UNITS:
        return slow(said, "it has no units for bf16: leave training.precision at float32")
    return ok(said)


def compiling(home: Path, on: str = "cuda") -> Finding:
    """Compile every step that the other checks take, each in a process of its own, a core each."""
    forms: list[tuple[int, Sequence[str]]] = [(SMALL, ()), (LARGE_SIZE, LARGE_BATCH)]
    forms += [(width, (f"settings.training.precision={precision}",)) for width in WIDTHS for precision in NEAR]
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix=".doctor-", dir=home) as aside,
        ThreadPoolExecutor(min(len(forms), len(os.sched_getaffinity(0)))) as threads,
    ):
        for each in [threads.submit(apart, made, aside, on, width, overrides) for width, overrides in forms]:
            each.result()
    return ok(f"{len(forms)} kinds of steps are compiled in {time.monotonic() - begun:.0f} s")


def made(place: str, device: str, size: int, overrides: Sequence[str]) -> None:
    """Make a learner of two runs of the smoke profile: its step is compiled in that."""
    spec = load_space("add_vs_add_prod", "smoke", overrides)
    runs = [spec.config(Request(mix.name, size, spec.seed)) for mix in spec.mixes]
    spec.make_family().learner(runs, device=device, cache=Path(place))


def side_by_side(home: Path, on: str = "cuda") -> Finding:
    """Losses on the GPU, as a sweep trains there (recorded, compiled, padded), against those of the CPU, at two widths
    and precisions."""
    farthest: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=home) as aside:
        for width in WIDTHS:
            plain = apart(trained, f"{aside}/cpu-{width}", "cpu", width).losses
            for precision in NEAR:
                place, chosen = f"{aside}/{precision}-{width}", (f"settings.training.precision={precision}",)
                here = apart(trained, place, on, width, chosen).losses
                farthest[f"{width} {precision}"] = max(abs(a - b) for a, b in zip(here, plain, strict=True))
    said = "losses are this far from the CPU's: " + ", ".join(f"{name} {far:.1g}" for name, far in farthest.items())
    off = [name for name, far in farthest.items() if not far <= NEAR[name.split()[1]]]
    if off:
        todo = "steps compute something else here: train on the CPU, and keep this file for a report"
        return wrong(f"{said}; too far: {', '.join(off)}", todo)
    return ok(said)


def memory_end(home: Path) -> Finding:
    """An end of memory in the middle of training is recognised, and half of the stack then trains."""
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=home) as aside:
        met = apart(out_of_memory, aside)
    if met == "":
        return slow("three quarters of its memory are enough for a stack of 32", "nothing: its memory did not end")
    if met != "recognised":
        todo = "an end of memory is not recognised: stacks would fail instead of being halved; give --stack"
        return wrong(f"with three quarters of its memory a stack of 32 ends with {met}", todo)
    return ok("with three quarters of its memory a stack of 32 meets the end of memory, and 16 train after it")


def out_of_memory(place: str) -> str:
    """``recognised``, the error that was not, or ``""`` if memory did not end; in a process of its own."""
    spec = load_space("add_vs_add_prod", "smoke", LARGE_BATCH)
    family = spec.make_family()
    runs = [spec.config(Request(spec.baseline.name, LARGE_SIZE, seed)) for seed in range(32)]
    family.learner(runs, device="cuda", cache=Path(place)).advance()
    held, total = torch.cuda.max_memory_allocated(), torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.75 * held / total)
    try:
        family.learner(runs, device="cuda", cache=Path(place)).advance()
        return ""
    except Exception as error:  # noqa: BLE001 - whatever it is, it must be recognised
        if not is_out_of_memory(error):
            return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    # Out here nothing holds the failed step's tensors any more.
    torch.cuda.empty_cache()
    family.learner(runs[:16], device="cuda", cache=Path(place)).advance()
    return "recognised"


def two_processes(home: Path, on: str = "cuda", gpu_share: float = 0.4) -> Finding:
    """Two processes that share the GPU end in the bits of one alone."""
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=home) as aside, ThreadPoolExecutor(2) as threads:
        alone = apart(trained, f"{aside}/alone", on).digest
        places = (f"{aside}/first", f"{aside}/second")
        both = [threads.submit(apart, trained, place, on, gpu_share=gpu_share) for place in places]
        digests = {each.result().digest for each in both}
    if digests != {alone}:
        todo = "processes on one GPU disturb one another: give --gpu-fraction 1, and keep this file for a report"
        return wrong("two processes at once end in other bits than one alone", todo)
    return ok("two processes at once end in the bits of one alone")
