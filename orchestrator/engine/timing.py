"""Times stacks of several sizes before a training, so that later ones are as large as pays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.engine.device import gpu_of, is_out_of_memory, prepare_device
from orchestrator.engine.gpu_turns import timing_on
from orchestrator.space.resources import Resources
from orchestrator.stacks.choice import PAYS
from trainables.base import Family, RunConfig, StepCost


def time_stacks(
    family: Family, configs: Sequence[RunConfig], sizes: Sequence[int], resources: Resources, cache: Path
) -> list[tuple[int, StepCost]]:
    """Each stack size with what a run's step costs in it, until one is too large to fit or no longer pays; none where
    the family cannot tell. ``configs`` are repeated to fill a stack. A GPU trains nothing else meanwhile."""
    prepare_device(resources)
    timed: list[tuple[int, StepCost]] = []
    with timing_on(gpu_of(resources)):
        for stack in sizes:
            runs = [configs[place % len(configs)] for place in range(stack)]
            try:
                cost = family.probe(runs, device=resources.device, cache=cache)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                break
            if cost is None:
                break
            timed.append((stack, cost))
            if cost.seconds > (1 + PAYS) * min(each.seconds for _, each in timed):
                break
    return timed
