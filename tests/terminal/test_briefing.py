"""What is said before a sweep of the devices that it will use."""

from __future__ import annotations

import re

import pytest

from orchestrator.cost import make_plan
from orchestrator.space.hardware import Hardware, Machine
from orchestrator.terminal.briefing import print_briefing
from tests.sweep.sweeps import printed, quiet, spec

HEAD, CORES, ONE_GPU = Machine(0), Machine(16), Machine(2, 1)


@pytest.mark.parametrize(
    ("gpu", "machines", "said"),
    [
        (0.25, (CORES, ONE_GPU), "2 stacks of 1 run at a time on cuda"),
        (0, (CORES, ONE_GPU), "18 stacks of 1 run at a time on cpu; the GPUs stay idle"),
        (0, (HEAD, CORES), "16 stacks of 1 run at a time on cpu"),
        (0, (), "1 stack of 1 run at a time on cpu"),
    ],
)
def test_a_briefing_says_how_many_stacks_train_at_a_time(gpu: float, machines: tuple[Machine, ...], said: str) -> None:
    cpus, gpus = (sum(getattr(each, kind) for each in machines) for kind in ("cpus", "gpus"))
    there = Hardware(int(cpus), 64, int(gpus), "H200", machines=machines)
    asked = spec(resources={"gpu_per_stack": gpu, "max_stack": 1})
    console = quiet()
    print_briefing(asked, there, make_plan(asked, there), console)
    [found] = re.findall(r"devices +(.*?)\s*\n", printed(console))
    assert str(found).partition("; ")[2] == said
