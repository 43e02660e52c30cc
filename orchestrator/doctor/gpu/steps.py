"""Whether steps on the GPU compute what they should: side by side with the CPU, and again bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from orchestrator.doctor.findings import Finding, ok, wrong
from orchestrator.doctor.fresh import Order, fresh
from orchestrator.doctor.sample import Sample, digest, losses
from trainables.gpu_step import WARM_UP_CALLS, can_compile
from trainables.training import Precision

WIDTHS = (37, 64)
"""One that is padded, one that is not."""
STEPS = 24
NEAR = {"float32": 2e-3, "bf16": 4e-2}
"""How far, in nats, losses may lie from the CPU's in float32 over so many steps. float32: sums in another order, as in
the tests marked gpu. bf16: 2^-8 relative in each product, and what a step makes of it."""
SAMPLE = Sample(runs=2, device="cuda", block=12, batch=8, recurrence=2)


def side_by_side() -> Finding:
    """Losses of eager and compiled steps on the GPU beside those of the CPU, at two widths and precisions."""
    farthest: dict[str, float] = {}
    for width in WIDTHS:
        plain = losses(replace(SAMPLE, n_embed=width, device="cpu").trainer(), STEPS)
        for precision in NEAR:
            for compiled in (False, True) if can_compile(torch.device("cuda")) else (False,):
                name = f"{width} {precision} {'compiled' if compiled else 'eager'}"
                here = losses(_sample(width, precision).trainer(compiled), STEPS)
                farthest[name] = float((here - plain).abs().max())
    off = {name: far for name, far in farthest.items() if not far <= NEAR[name.split()[1]]}
    said = "losses beside the CPU's, farthest apart: " + ", ".join(f"{k} {far:.1g}" for k, far in farthest.items())
    if off:
        todo = "steps compute something else here: train on the CPU, and keep this file for a report"
        return wrong(f"{said}; too far: {', '.join(off)}", todo, **_figures(farthest))
    return ok(said, **_figures(farthest))


def replaying() -> Finding:
    """The recorded step, twice in this process and once in another one, ends in the same bits."""
    sample = _sample(37, "bf16")
    here = []
    for _ in range(2):
        trainer = sample.trainer()
        trainer.run(0, STEPS)
        assert trainer.recorded, f"a step is recorded after {WARM_UP_CALLS} calls"
        here.append(digest(trainer))
    elsewhere = fresh([Order(sample, STEPS)])[0].digest
    if len({*here, elsewhere}) > 1:
        return wrong(
            f"{STEPS} steps of a recorded stack end in different bits: {here[0]}, {here[1]}; elsewhere {elsewhere}",
            "a resumed run would not be the same run: keep this file for a report",
            digests=[*here, elsewhere],
        )
    return ok(f"{STEPS} steps of a recorded stack end in the same bits, in a process of their own, too", digest=here[0])


def _sample(width: int, precision: str) -> Sample:
    chosen: Precision = "bf16" if precision == "bf16" else "float32"
    return replace(SAMPLE, n_embed=width, precision=chosen)


def _figures(farthest: dict[str, float]) -> dict[str, Any]:
    return {"farthest_nats": farthest, "steps": STEPS}
