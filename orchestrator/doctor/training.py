"""Whether this machine trains: does the loss fall, do the same steps give the same bits, and how long do they take?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from orchestrator.doctor.findings import Finding, ok, wrong
from orchestrator.doctor.fresh import Order, fresh
from orchestrator.doctor.sample import VOCABULARY, Sample, digest, losses

STEPS = 40
LEARNED = 0.6
"""The loss after 40 steps is under this share of ln 13, that of a blind guess; the least there is are .27 of it."""
SAMPLE = Sample(runs=2)


def learning() -> Finding:
    """The loss of a small stack falls as it does elsewhere."""
    with one_thread():
        curve = losses(SAMPLE.trainer(), STEPS)
    first, last = float(curve[0].mean()), float(curve[-1].mean())
    figures = {"first_loss_nats": first, "last_loss_nats": last, "steps": STEPS}
    said = f"the loss of a small stack falls from {first:.2f} to {last:.2f} nats in {STEPS} steps"
    if not math.isfinite(last) or last > LEARNED * math.log(VOCABULARY):
        return wrong(said, "this build of torch computes something else here: install another one", **figures)
    return ok(said, **figures)


def repeating() -> Finding:
    """The same steps give the same bits, here twice and in a process of its own."""
    with one_thread():
        here = [_digest_after(STEPS) for _ in range(2)]
    elsewhere = fresh([Order(SAMPLE, STEPS)])[0].digest
    found = {*here, elsewhere}
    if len(found) > 1:
        return wrong(
            f"the same {STEPS} steps gave {len(found)} different results",
            "runs are found again by what they compute: look for unstable memory or overclocking",
            digests=sorted(found),
        )
    return ok(f"the same {STEPS} steps give the same bits, in a process of their own, too", digest=elsewhere)


def _digest_after(steps: int) -> str:
    trainer = SAMPLE.trainer()
    trainer.run(0, steps)
    return digest(trainer)


@contextmanager
def one_thread() -> Iterator[None]:
    """A block in which torch computes with one thread, as a stack's worker does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
