"""What is said before a sweep of the devices that it will use."""

from __future__ import annotations

import re

import pytest

from orchestrator.cost import make_plan
from orchestrator.space.hardware import Hardware, Machine
from orchestrator.terminal.briefing import print_briefing
from tests.sweep.sweeps import printed, quiet, spec

HEAD, CORES, ONE_GPU, CROWDED = Machine(0), Machine(16), Machine(2, 1), Machine(1, 4)


def devices(gpu: float, *machines: Machine, cpus: float = 1, grows: bool = False) -> str:
    """What the briefing says of these nodes."""
    there = Hardware(
        cpus=int(sum(node.cpus for node in machines)),
        memory_gb=64,
        gpus=int(sum(node.gpus for node in machines)),
        gpu_name="H200",
        machines=machines,
        grows=grows,
    )
    asked = spec(resources={"gpu_per_stack": gpu, "cpu_per_stack": cpus, "max_stack": 1})
    console = quiet()
    print_briefing(asked, there, make_plan(asked, there), console)
    [found] = re.findall(r"devices +(.*?)\s*\n", printed(console))
    return str(found).partition("; ")[2]


@pytest.mark.parametrize(
    ("gpu", "machines", "said"),
    [
        (0.25, (CORES, ONE_GPU), "2 stacks of 1 run at a time on cuda, on 1 of 2 nodes: the other one has no GPU"),
        (
            1,
            (HEAD, CORES, ONE_GPU, ONE_GPU),
            "2 stacks of 1 run at a time on cuda, on 2 of 4 nodes: the others have no GPU",
        ),
        (0, (CORES, ONE_GPU), "18 stacks of 1 run at a time on cpu; the GPUs stay idle"),
        (0, (HEAD, CORES), "16 stacks of 1 run at a time on cpu, on 1 of 2 nodes: the other one has too few cores"),
        (0, (CORES, CORES), "32 stacks of 1 run at a time on cpu"),
        (0, (), "1 stack of 1 run at a time on cpu"),
    ],
)
def test_a_briefing_says_which_nodes_of_a_cluster_train(gpu: float, machines: tuple[Machine, ...], said: str) -> None:
    assert devices(gpu, *machines) == said


def test_a_node_of_many_gpus_and_few_cores_trains_as_many_stacks_as_it_has_cores_for() -> None:
    assert devices(1, CROWDED, ONE_GPU, CORES, cpus=2) == (
        "1 stack of 1 run at a time on cuda, on 1 of 3 nodes: the others have no GPU or too few cores"
    )
