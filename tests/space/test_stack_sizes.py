"""Which runs are trained together, and how many."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.forecast.cost_estimate import run_seconds
from orchestrator.jobs.plan import Job, Stack, next_stack
from orchestrator.jobs.resources import CONTEXT_BYTES, Resources, stack_bytes
from orchestrator.search.base import Request
from orchestrator.space.differences import differences
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.space.stack_sizes import (
    GPU_STEP_S,
    LARGEST_STACK,
    PAIRS,
    StackSizes,
    choose_stacks,
    largest_stack,
    soonest_stack,
)
from orchestrator.system.hardware import Hardware
from trainables.base import Mix, RunConfig

HERE = Hardware(2, 16)
SERVER = Hardware(16, 128, 1, "Some GPU", gpu_memory_gb=141)


def laptop(*overrides: str) -> SweepSpec:
    return load_space("add_vs_add_prod", "quick", overrides, HERE)


def paper(*overrides: str) -> SweepSpec:
    return load_space("add_vs_add_prod", "paper", overrides, SERVER)


def job(size: int, seed: int) -> Job:
    return Job(f"{size}-{seed}", RunConfig(Mix.parse("add"), size, seed, None), f"n-{size}")


JOBS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), min_size=1, max_size=20, unique=True).map(
    lambda pairs: [job(*pair) for pair in pairs]
)


@given(wanted=JOBS, free=st.integers(1, 5), most=st.integers(1, 6))
def test_a_stack_has_the_most_urgent_run_and_others_of_its_shape(wanted: list[Job], free: int, most: int) -> None:
    stack = next_stack(wanted, free, most)
    assert stack.jobs[0] == wanted[0]
    assert {job.shape for job in stack.jobs} == {wanted[0].shape}
    assert 1 <= len(stack.jobs) <= most


@given(wanted=JOBS, free=st.integers(1, 5), most=st.integers(1, 6))
def test_no_slot_idles_while_another_could_share_its_runs(wanted: list[Job], free: int, most: int) -> None:
    left, used = list(wanted), 0
    while left and used < free:
        stack = next_stack(left, free - used, most)
        left = [other for other in left if other not in stack.jobs]
        used += 1
    assert used == min(free, len(wanted))


def test_six_runs_of_one_size_fill_two_slots_evenly() -> None:
    wanted = [job(64, seed) for seed in range(6)]
    assert len(next_stack(wanted, free=2, max_stack=4).jobs) == 3
    assert len(next_stack(wanted, free=1, max_stack=4).jobs) == 4


def test_a_stack_is_identified_by_its_runs_in_order() -> None:
    first, second = job(8, 0), job(8, 1)
    assert Stack((first, second)).id == Stack((first, second)).id
    assert Stack((first, second)).id != Stack((second, first)).id
    assert Stack((first,)).id.startswith("n-8-x1-")


def test_runs_on_a_core_train_one_after_the_other() -> None:
    sizes = StackSizes(laptop(), HERE)
    assert [sizes.max_runs(size) for size in (4, 16, 64)] == [1, 1, 1]
    assert sizes.together() == 1


def test_a_requested_stack_size_has_precedence() -> None:
    assert StackSizes(laptop("resources.max_stack=3"), HERE).max_runs(64) == 3


@pytest.mark.parametrize("step_s", [3e-5, 2.4e-4, 1e-3, 5.6e-3])
def test_no_other_even_stack_is_predicted_to_decide_sooner(step_s: float) -> None:
    def seconds(runs: int) -> float:
        return (PAIRS / (runs / 2) + 0.5) * (GPU_STEP_S + runs * step_s)

    best = min(range(2, 200, 2), key=seconds)
    assert abs(soonest_stack(step_s) - best) <= 2
    assert seconds(soonest_stack(step_s)) <= 1.02 * seconds(best)


def test_a_run_that_costs_nothing_fills_the_largest_stack() -> None:
    assert soonest_stack(0.0) >= LARGEST_STACK


@given(
    flops=st.floats(0, 1e15), run_bytes=st.sampled_from([0.0, 1e6, 1e9, 1e12]), memory=st.sampled_from([0.0, 8e9, 1e12])
)
def test_a_stack_is_a_power_of_two_that_fits(flops: float, run_bytes: float, memory: float) -> None:
    stack = largest_stack(flops, run_bytes, memory)
    assert 1 <= stack <= LARGEST_STACK
    assert stack & (stack - 1) == 0
    assert stack == 1 or not memory or stack * run_bytes <= memory


def test_memory_bounds_a_stack() -> None:
    assert largest_stack(1e6, 1e9, 0) == 256
    assert largest_stack(1e6, 1e9, 75e9) == 64
    assert largest_stack(1e6, 4e9, 8e9) == 1


def test_a_stack_has_a_gpu_alone_unless_processes_train_on_it_at_the_same_time() -> None:
    shares = [choose_stacks(paper(), replace(SERVER, has_mps=mps)).resources.gpus for mps in (False, True)]
    assert shares == [1.0, 0.5]
    given = paper("resources.gpu_per_stack=0.25")
    assert choose_stacks(given, SERVER).resources.gpus == 0.25


def test_pairs_decide_soonest_in_small_stacks_and_a_grid_ends_soonest_in_large_ones() -> None:
    """The more a run adds to a step, the fewer are trained together."""
    spec = choose_stacks(paper(), SERVER)
    sizes = StackSizes(spec, SERVER)
    assert [sizes.max_runs(size) for size in (8, 32, 64, 256)] == [10, 8, 6, 2]
    assert spec.search.settings["stack"] == sizes.max_runs(spec.sizes[8]) == 6
    grid = choose_stacks(paper("search.method=grid"), SERVER)
    assert StackSizes(grid, SERVER).max_runs(8) == 256
    assert grid.search.settings["stack"] == grid.seeds
    fixed = choose_stacks(paper("resources.gpu_per_stack=1", "search.stack=3"), SERVER)
    assert fixed.resources.gpus == 1
    assert fixed.search.settings["stack"] == 3
    assert not differences(spec, paper())


def test_processes_that_share_a_gpu_share_its_speed() -> None:
    alone, shared = (
        run_seconds(choose_stacks(paper(f"resources.gpu_per_stack={share}"), SERVER)) for share in (1, 0.25)
    )
    assert shared == {size: pytest.approx(4 * seconds) for size, seconds in alone.items()}
    assert alone[16] < 60
    assert alone[256] < 900


@pytest.mark.parametrize(("size", "alone", "in_64"), [(16, 779, 239), (32, 876, 316), (64, 1172, 554)])
def test_the_first_runs_on_a_gpu_are_as_slow_as_measured(size: int, alone: float, in_64: float) -> None:
    """Microseconds of a run's step on an H100 (tests/bench/results/throughput.md)."""
    for stack, measured in ((1, alone), (64, in_64)):
        spec = choose_stacks(paper("resources.gpu_per_stack=1", f"search.stack={stack}"), SERVER)
        steps = spec.config(Request("add", size, spec.seed)).settings.training.steps
        assert run_seconds(spec)[size] / steps * 1e6 == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("processes", [1, 2, 4, 8])
def test_processes_on_one_gpu_leave_room_for_each_others_contexts(processes: int) -> None:
    share = stack_bytes(Resources(gpu_per_stack=1 / processes), replace(SERVER, gpu_memory_gb=150))
    assert 0 < share < 150e9 / processes
    assert processes * (share + CONTEXT_BYTES) <= 150e9 * (1 + 1e-9)
    small = replace(SERVER, gpu_memory_gb=8)
    assert stack_bytes(Resources(gpu_per_stack=0.1), small) == pytest.approx(0.08e9)
