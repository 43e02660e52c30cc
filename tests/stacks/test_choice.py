"""Choosing sizes from measurements: what each choice promises, and the measured cases it was made from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.stacks.choice import (
    LARGEST,
    NEAR,
    best_stack,
    cheap_stack,
    fits,
    gpu_share,
    interpolated,
    nearest,
    probe_sizes,
    typical_stack,
)

SECONDS = st.dictionaries(st.sampled_from([1, 2, 4, 8, 16]), st.floats(1e-4, 1.0), min_size=2)


@given(seconds=SECONDS)
def test_the_best_stack_is_about_the_quickest_and_no_larger_than_it_needs_to_be(seconds: dict[int, float]) -> None:
    chosen = best_stack(seconds)
    assert chosen is not None
    assert seconds[chosen] * 0.97 <= min(seconds.values()) * (1 + 1e-9)
    assert all(seconds[smaller] * 0.97 > min(seconds.values()) for smaller in seconds if smaller < chosen)


def test_stacks_as_measured_on_a_core() -> None:
    """Milliseconds of tests/bench/results/throughput.md: stacks pay at n_embed 16 and cost at 64."""
    assert best_stack({1: 7.9, 2: 6.6, 4: 5.7, 8: 5.7}) == 4
    assert best_stack({1: 16.7, 2: 18.9, 4: 17.7}) == 1
    assert best_stack({1: 33.6, 2: 36.0, 4: 38.0}) == 1
    assert best_stack({4: 5.7}) is None


@pytest.mark.parametrize(("flops", "stack"), [(2.6e7, 8), (9.5e7, 4), (3.6e8, 1), (1.2e9, 1), (0.0, 8)])
def test_where_nothing_was_measured_small_models_are_stacked(flops: float, stack: int) -> None:
    assert typical_stack(flops, "cpu") == stack


@given(flops=st.floats(0, 1e15), device=st.sampled_from(["cpu", "cuda"]))
def test_a_typical_stack_is_a_power_of_two_within_bounds(flops: float, device: str) -> None:
    stack = typical_stack(flops, device)
    assert 1 <= stack <= LARGEST[device]
    assert stack & (stack - 1) == 0


@given(size=st.integers(1, 500), known=st.lists(st.integers(1, 500), max_size=5))
def test_the_nearest_size_is_near(size: int, known: list[int]) -> None:
    found = nearest(size, known)
    if found is None:
        assert all(other > size * NEAR * (1 - 1e-9) or other * NEAR < size * (1 + 1e-9) for other in known)
    else:
        assert found in known
        assert all(max(found / size, size / found) <= max(other / size, size / other) for other in known)


@given(size=st.floats(8, 64))
def test_between_two_sizes_time_is_between_theirs(size: float) -> None:
    found = interpolated(size, {8: 0.002, 64: 0.03})
    assert found is not None
    assert 0.002 * 0.999 <= found <= 0.03 * 1.001


def test_far_from_everything_measured_nothing_is_said() -> None:
    assert interpolated(8, {}) is None
    assert interpolated(200, {8: 0.002, 64: 0.03}) is None
    assert interpolated(70, {8: 0.002, 64: 0.03}) == 0.03
    assert interpolated(64, {8: 0.002, 64: 0.03}) == pytest.approx(0.03)


@given(
    device=st.sampled_from(["cpu", "cuda"]),
    at_most=st.integers(1, 300),
    steps=st.integers(1, 30),
    run_steps=st.floats(1, 1e6),
)
def test_probing_costs_a_fiftieth_at_most(device: str, at_most: int, steps: int, run_steps: float) -> None:
    sizes = probe_sizes(device, at_most, steps, run_steps)
    assert len(sizes) != 1
    assert steps * sum(sizes) <= run_steps / 50
    assert max(sizes, default=0) <= at_most


def test_a_smoke_sweep_is_not_probed_and_a_laptop_one_is() -> None:
    assert probe_sizes("cpu", 8, 5, 300 * 2) == ()
    assert probe_sizes("cpu", 8, 5, 2000 * 1) == (1, 2, 4)
    assert probe_sizes("cpu", 8, 5, 2000 * 3) == (1, 2, 4, 8)


def test_a_gpu_is_shared_by_as_many_stacks_as_fill_it() -> None:
    """64 runs fill the device; six of them, as a searcher asks for, a quarter of it. Without MPS stacks take turns, so
    that two are enough."""
    seconds = {2: 1.6e-3, 8: 4e-4, 32: 1.1e-4, 128: 1e-4}
    assert gpu_share(seconds, 6, mps=True) == pytest.approx(0.12)
    assert gpu_share(seconds, 8, mps=True) == pytest.approx(0.25)
    assert gpu_share(seconds, 6) == gpu_share(seconds, 8) == pytest.approx(0.5)
    assert gpu_share(seconds, 200) == gpu_share(seconds, 200, mps=True) == 1.0
    assert gpu_share(seconds, 8, memory_share=0.5) == pytest.approx(0.5)
    assert gpu_share({8: 4e-4}, 8) is None


@given(
    seconds=st.dictionaries(st.sampled_from([2, 8, 32, 128]), st.floats(1e-6, 1.0), min_size=2),
    runs=st.integers(1, 300),
)
def test_shares_of_a_gpu_never_add_up_to_more_than_one(seconds: dict[int, float], runs: int) -> None:
    share = gpu_share(seconds, runs)
    assert share is not None
    assert 0 < share <= 1
    assert share * round(1 / share) <= 1 + 1e-9


def test_memory_is_asked_for_up_to_nine_tenths_of_what_is_there() -> None:
    assert fits(9, 1e9, 10e9)
    assert not fits(10, 1e9, 10e9)
    assert fits(1000, 0, 10e9)
    assert fits(1000, 1e9, 0)


@pytest.mark.parametrize(
    ("seconds", "runs"),
    [
        ({1: 0.008, 2: 0.006, 4: 0.005}, 1),  # A core: two cost 1.5 times one.
        ({1: 0.005, 4: 0.002, 16: 0.0016}, 4),  # Four cost 1.6 times one, sixteen 5.1 times.
        ({2: 0.0025, 8: 0.0008, 32: 0.0008}, 32),  # Two stand for one: eight cost 1.3 times as much, 32 five times.
        ({4: 0.001}, 4),
    ],
)
def test_a_cheap_stack_adds_little_for_each_run(seconds: dict[int, float], runs: int) -> None:
    assert cheap_stack(seconds) == runs
