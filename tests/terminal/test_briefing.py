"""What is said before a sweep of the devices that it will use."""

from __future__ import annotations

import re

import pytest

from orchestrator.cost import make_plan
from orchestrator.space.hardware import Hardware, Machine
from orchestrator.space.spaces import load_space
from orchestrator.terminal.briefing import print_briefing
from tests.sweep.sweeps import printed, quiet, spec
from trainables.transformer import native

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


def test_a_briefing_names_the_step_that_trains_and_what_the_fast_one_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = load_space("add_vs_add_prod", "quick", (), Hardware(2, 16))

    def training() -> str:
        console = quiet()
        print_briefing(asked, Hardware(2, 16), make_plan(asked, Hardware(2, 16)), console)
        return " ".join(printed(console).partition("training ")[2].partition("estimate")[0].split())

    assert training() == "native"
    monkeypatch.setattr(native, "_load", lambda: ("which was not built", "install a compiler"))
    assert training().startswith(
        "torch trains, 3 to 10 times slower than the native step, which was not built: install"
    )


def test_a_sweep_takes_longer_where_torch_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, here = load_space("add_vs_add_prod", "quick", ["search.max_cost=null"], Hardware(2, 16)), Hardware(2, 16)
    fast = make_plan(asked, here).seconds
    monkeypatch.setattr(native, "library", lambda: None)
    assert make_plan(asked, here).seconds > 2 * fast
