"""Checks of a GPU: losses compared with the CPU, resuming, sharing, and running out of memory."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch

from orchestrator.doctor.machine import GB, Check, CheckResult, apart, at_once, ok, slow, trained, training, wrong
from orchestrator.engine.device_errors import is_out_of_memory
from orchestrator.search.base import Request
from orchestrator.space.spaces import load_space
from orchestrator.system.environment import temporary_directory
from trainables.transformer.gpu_step import lacking

OLDEST_COMPUTE = (7, 0)
"""Minimum compute capability for Triton."""
BF16_UNITS = (8, 0)
"""Minimum compute capability with matrix units for bf16."""
COMPARED_WIDTHS = (37, 64)
"""Widths to compare: the first is padded, the second is not."""
NEAR = {"float32": 2e-3, "bf16": 4e-2}
"""Largest allowed difference in nats from float32 losses on the CPU. In float32, a GPU sums in another order. In bf16,
each product has a relative error of 2^-8, so losses differ more. On an H100 they differed by up to 0.0009 (float32) and
0.007 (bf16)."""
LARGE_BATCH = ("settings.training.batch=512", "settings.training.evaluate_every=10")
"""Settings of a step whose activations need far more memory than its parameters."""
SMALL_SIZE = 16
"""Width of the stacks that share the GPU."""
LARGE_SIZE = 64
"""Width of the stack that runs out of memory."""


def gpu_checks(home: Path) -> list[Check]:
    """Return the checks of this machine's first GPU.

    First, all steps are compiled. Then the checks that use them run at the same time. The check that fills the memory
    runs alone, because a small GPU has no room for others.
    """
    parallel: list[Check] = [
        ("losses", partial(side_by_side, home)),
        ("resuming", partial(training, home, "cuda")),
        ("two processes", partial(two_processes, home)),
    ]
    return [
        ("GPU", device),
        ("compiling", partial(compiling, home)),
        *at_once(parallel),
        ("GPU memory", partial(memory_end, home)),
    ]


def device() -> CheckResult:
    """Check the compute capability, the free memory and the tools for compiled steps."""
    properties = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info(0)
    text = (
        f"{torch.cuda.device_count()} x {properties.name}, compute capability {properties.major}.{properties.minor}, "
        f"{total / GB:.0f} GB, {free / GB:.0f} GB free"
    )
    capability = (properties.major, properties.minor)
    if capability < OLDEST_COMPUTE:
        return wrong(text, "compiled steps need compute capability 7.0: train on the CPU, or elsewhere")
    if missing := lacking():
        return slow(f"{text}; steps run uncompiled: {', '.join(missing)} is missing", "install it")
    if free < 0.8 * total:
        return slow(text, "other processes use its memory (see nvidia-smi): stacks will be smaller")
    if capability < BF16_UNITS:
        return slow(text, "it does not support bf16: keep training.precision float32")
    return ok(text)


def compiling(home: Path, on: str = "cuda") -> CheckResult:
    """Compile every step that the other checks need, each in a separate process, one per core."""
    forms: list[tuple[int, Sequence[str]]] = [(SMALL_SIZE, ()), (LARGE_SIZE, LARGE_BATCH)]
    forms += [(width, (f"settings.training.precision={precision}",)) for width in COMPARED_WIDTHS for precision in NEAR]
    begun = time.monotonic()
    with (
        temporary_directory(".doctor-", home) as aside,
        ThreadPoolExecutor(min(len(forms), len(os.sched_getaffinity(0)))) as threads,
    ):
        place = str(aside)
        compilations = [threads.submit(apart, compiled, place, on, size, overrides) for size, overrides in forms]
        for compilation in compilations:
            compilation.result()
    return ok(f"{len(forms)} kinds of steps are compiled in {time.monotonic() - begun:.0f} s")


def compiled(place: str, on: str, size: int, overrides: Sequence[str]) -> None:
    """Make a learner for two runs of the smoke profile, which compiles its step."""
    spec = load_space("add_vs_add_prod", "smoke", overrides)
    runs = [spec.config(Request(mix.name, size, spec.seed)) for mix in spec.mixes]
    spec.make_family().learner(runs, device=on, cache=Path(place))


def two_processes(home: Path, on: str = "cuda", gpu_share: float = 0.4) -> CheckResult:
    """Check that two processes that share the GPU end with the same weights, bit by bit, as one process alone."""
    with temporary_directory(".doctor-", home) as aside, ThreadPoolExecutor(2) as threads:
        alone = apart(trained, f"{aside}/alone", on).digest
        places = (f"{aside}/first", f"{aside}/second")
        both = [threads.submit(apart, trained, place, on, gpu_share=gpu_share) for place in places]
        digests = {process.result().digest for process in both}
    if digests != {alone}:
        text = "two processes on this GPU affect each other: their results differ in bits from a single process"
        return wrong(text, "pass --gpu-fraction 1, and report this")
    return ok("two processes at once give the same bits as a single process")


def side_by_side(home: Path, on: str = "cuda") -> CheckResult:
    """Compare losses on the GPU (compiled, padded, a CUDA graph) with losses on the CPU, at two widths and two
    precisions."""
    farthest: dict[str, float] = {}
    with temporary_directory(".doctor-", home) as aside:
        for width in COMPARED_WIDTHS:
            plain = apart(trained, f"{aside}/cpu-{width}", "cpu", width).losses
            for precision in NEAR:
                place = f"{aside}/{precision}-{width}"
                chosen = (f"settings.training.precision={precision}",)
                here = apart(trained, place, on, width, chosen).losses
                farthest[f"{width} {precision}"] = max(abs(a - b) for a, b in zip(here, plain, strict=True))
    text = "differences from the losses on the CPU: " + ", ".join(f"{name} {far:.1g}" for name, far in farthest.items())
    if off := [name for name, far in farthest.items() if not far <= NEAR[name.split()[1]]]:
        todo = "training is wrong on this GPU: train on the CPU, and report these numbers"
        return wrong(f"{text}; too large: {', '.join(off)}", todo)
    return ok(text)


def memory_end(home: Path) -> CheckResult:
    """Check that an out-of-memory error during training is recognized, and that half of the stack then trains."""
    with temporary_directory(".doctor-", home) as aside:
        error = apart(out_of_memory, str(aside))
    if error == "":
        return slow("a stack of 32 trained in three quarters of its memory", "nothing to do: the memory sufficed")
    if error != "recognized":
        todo = "this error is not recognized, so stacks would fail instead of being halved: limit them with --stack"
        return wrong(f"a stack of 32 in three quarters of its memory ends with {error}", todo)
    return ok("a stack of 32 with three quarters of its memory runs out of memory, as expected, and 16 then train")


def out_of_memory(place: str) -> str:
    """Return ``recognized``, the text of an unrecognized error, or an empty string if the memory sufficed. Call it in a
    separate process."""
    spec = load_space("add_vs_add_prod", "smoke", LARGE_BATCH)
    family = spec.make_family()
    runs = [spec.config(Request(spec.baseline.name, LARGE_SIZE, seed)) for seed in range(32)]
    family.learner(runs, device="cuda", cache=Path(place)).advance()
    used = torch.cuda.max_memory_allocated()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.75 * used / total)
    try:
        family.learner(runs, device="cuda", cache=Path(place)).advance()
        return ""
    except Exception as error:  # noqa: BLE001 - any error must be recognized
        if not is_out_of_memory(error):
            return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    # Not in the handler: there, the exception's traceback would keep the tensors of the failed step alive.
    torch.cuda.empty_cache()
    family.learner(runs[:16], device="cuda", cache=Path(place)).advance()
    return "recognized"
