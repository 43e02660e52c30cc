"""Output before a sweep starts: devices, training code, caveats and cost."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from orchestrator.forecast.cost_estimate import estimate_cost
from orchestrator.space.spaces import load_space
from orchestrator.space.stack_sizes import choose_stacks
from orchestrator.system.hardware import Hardware, Machine
from orchestrator.terminal.briefing import print_plan, print_start
from tests.sweep.sweeps import printed, quiet, spec
from trainables.transformer import native

HEAD, CORES, ONE_GPU = Machine(0), Machine(16), Machine(2, 1)


@pytest.mark.parametrize(
    ("gpu", "machines", "words"),
    [
        (0.25, (CORES, ONE_GPU), "2 stacks of 1 run at a time on cuda"),
        (0.25, (), "4 stacks of 1 run at a time on cuda"),
        (0, (CORES, ONE_GPU), "18 stacks of 1 run at a time on cpu; the GPUs stay idle"),
        (0, (HEAD, CORES), "16 stacks of 1 run at a time on cpu"),
        (0, (), "1 stack of 1 run at a time on cpu"),
    ],
)
def test_a_briefing_counts_the_stacks_trained_at_a_time(gpu: float, machines: tuple[Machine, ...], words: str) -> None:
    cpus, gpus = (sum(getattr(machine, kind) for machine in machines) for kind in ("cpus", "gpus"))
    machine = Hardware(int(cpus), 64, int(gpus), "H200", machines=machines)
    wanted = spec(resources={"gpu_per_stack": gpu, "max_stack": 1})
    console = quiet()
    print_plan(wanted, machine, console)
    [devices] = re.findall(r"devices +(.*?)\s*\n", printed(console))
    assert str(devices).partition("; ")[2] == words


def test_a_briefing_names_the_training_step_and_why_the_fast_one_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = load_space("add_vs_add_prod", "quick", (), Hardware(2, 16))

    def training() -> str:
        console = quiet()
        print_plan(wanted, Hardware(2, 16), console)
        return " ".join(printed(console).partition("training ")[2].partition("estimate")[0].split())

    assert training() == "native"
    monkeypatch.setattr(native, "_load", lambda: (None, "which was not built", "install a compiler"))
    assert training().startswith(
        "torch trains, 1.7 to 12 times slower than the native step, which was not built: install"
    )


def test_caveats_are_in_the_plan_and_not_on_the_first_screen_of_run() -> None:
    wanted, machine = load_space("add_vs_add_prod", "laptop", (), Hardware(2, 16)), Hardware(2, 16)
    start, plan = (Console(file=io.StringIO(), width=80) for _ in range(2))
    print_start(wanted, machine, start, "python -m orchestrator plan add_vs_add_prod", is_local=False)
    print_plan(wanted, machine, plan)
    assert len(wanted.warnings()) == 2
    screen, everything = (" ".join(printed(console).split()) for console in (start, plan))
    assert all(caveat in everything and caveat not in screen for caveat in wanted.warnings())
    assert "caveats and costs: python -m orchestrator plan add_vs_add_prod" in screen
    assert len(printed(start).splitlines()) <= 12


def test_expected_problems_are_on_the_first_screen_of_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_load", lambda: (None, "which was not built", "install a compiler"))
    wanted, machine = load_space("add_vs_add_prod", "quick", (), Hardware(2, 1e-6)), Hardware(2, 1e-6)
    console = quiet()
    print_start(wanted, machine, console, "", is_local=False)
    assert "training  torch trains" in printed(console)
    assert "will not fit in memory" in printed(console)


def test_a_sweep_is_expected_to_take_longer_if_torch_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Hardware(2, 16)
    wanted = load_space("add_vs_add_prod", "quick", ["search={method: grid}"], machine)
    fast = estimate_cost(wanted, machine).seconds_at_best
    alone = estimate_cost(wanted, machine, most_at_once=1)
    assert alone.stacks_at_once == 1
    assert alone.seconds_at_best > 1.5 * fast
    monkeypatch.setattr(native, "library", lambda: None)
    assert estimate_cost(wanted, machine).seconds_at_best > 2 * fast


def test_torch_is_expected_to_train_the_same_runs_as_the_native_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget of the search is in seconds of a core with the native step, on every machine."""
    machine = Hardware(2, 16)
    wanted = choose_stacks(load_space("add_vs_add_prod", "quick", hardware=machine), machine)
    native_plan = estimate_cost(wanted, machine)
    monkeypatch.setattr(native, "library", lambda: None)
    torch_plan = estimate_cost(wanted, machine)
    assert (torch_plan.runs_at_best, torch_plan.runs_at_worst) == (native_plan.runs_at_best, native_plan.runs_at_worst)
    assert torch_plan.seconds_at_worst > 2 * native_plan.seconds_at_worst


def test_the_estimate_of_a_comparison_spans_equal_and_different_mixes() -> None:
    """On flat sums, six sweeps of `quick` took 10 to 18 runs (tests/bench/results/flat.md); equal mixes take more."""
    machine = Hardware(2, 8)
    plan = estimate_cost(choose_stacks(load_space("add_vs_add_prod", "quick", hardware=machine), machine), machine)
    assert plan.runs_at_best <= 10
    assert plan.runs_at_worst >= 18
    assert plan.seconds_at_best < plan.seconds_at_worst
