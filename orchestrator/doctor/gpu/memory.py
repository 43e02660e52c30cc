"""Whether memory comes back: while a stack shrinks, and after it has run out in the middle of a recording."""

from __future__ import annotations

from dataclasses import replace

import torch

from orchestrator.doctor.findings import Finding, ok, slow, wrong
from orchestrator.doctor.sample import Sample
from orchestrator.engine.device import is_out_of_memory
from trainables.gpu_step import WARM_UP_CALLS

STEPS = 6
"""Enough for a step to be recorded and replayed."""
SAMPLE = Sample(n_embed=64, runs=64, device="cuda", precision="bf16", block=128, batch=64)
GROWTH = 1.15
"""A stack that lost a run may hold so many times what it held before, at its peak."""
MIB = float(1 << 20)


def shrinking() -> Finding:
    """The peak of memory while a stack of 64 goes on as 63."""
    trainer = SAMPLE.trainer()
    trainer.run(0, STEPS)
    before = torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    trainer.keep(_rows(SAMPLE.runs - 1))
    trainer.run(STEPS, 2 * STEPS)
    after = torch.cuda.max_memory_reserved()
    said = f"a stack of 64 holds {before / MIB:.0f} MiB, and at its peak {after / MIB:.0f} MiB as it goes on as 63"
    figures = {"before_bytes": before, "peak_bytes": after}
    if after > GROWTH * before:
        todo = "memory of the larger stack is held too long: use smaller stacks, --stack 32"
        return slow(said, todo, **figures)
    return ok(said, **figures)


def running_out() -> Finding:
    """Memory that ends while a step is being recorded is recognised, and half of the stack then trains."""
    sample = replace(SAMPLE, runs=32)
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.reset_peak_memory_stats()  # Earlier checks held more, with which this stack would not meet the end.
    trainer = sample.trainer()
    trainer.run(0, WARM_UP_CALLS)
    held = torch.cuda.max_memory_allocated()
    met: BaseException | None = None
    try:
        # What is cached goes when recording begins, so that the recording itself meets the end of memory.
        torch.cuda.set_per_process_memory_fraction(0.75 * held / total)
        trainer.run(WARM_UP_CALLS, STEPS)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must be recognised
        met = error.with_traceback(None)
    del trainer
    torch.cuda.empty_cache()
    said = f"with three quarters of {held / MIB:.0f} MiB"
    try:
        if met is None:
            return slow(f"{said} a stack of 32 is recorded all the same", "nothing: memory was not what ended here")
        if not is_out_of_memory(met):
            todo = "it is not seen that memory has ended: stacks would fail instead of being halved; give --stack"
            return wrong(f"{said} recording ends with {type(met).__name__}: {str(met).splitlines()[0]}", todo)
        half = replace(sample, runs=16).trainer()
        half.run(0, STEPS)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    return ok(f"{said} recording a stack of 32 meets the end of memory, and 16 train after it", held_bytes=held)


def many_rows() -> Finding:
    """A stack with more rows a step than a grid of CUDA has room for."""
    sample = Sample(n_embed=8, runs=128, device="cuda", precision="bf16", block=34, batch=512, recurrence=1)
    trainer = sample.trainer(compile_step=False)
    trainer.run(0, STEPS)
    torch.cuda.synchronize()
    rows = sample.runs * sample.batch
    if not bool(torch.isfinite(trainer.state.loss_S).all()):
        return wrong(f"{rows} rows a step train, to losses that are not finite", "give --stack 64")
    return ok(f"{rows} rows a step train", rows=rows)


def _rows(count: int) -> torch.Tensor:
    return torch.tensor(list(range(count)), device="cuda")
