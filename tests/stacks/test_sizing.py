"""The sizes of a sweep's stacks: from measurements where there are some, from what was asked for first of all."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from orchestrator.space.hardware import Hardware
from orchestrator.space.plain import differences
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.stacks.measured import Measured, merged
from orchestrator.stacks.sizing import UNMEASURED_GPU_SHARE, Sizing, conditions_of, settled, with_stack

HERE = Hardware(2, 16, cpu_name="Some CPU")
SERVER = Hardware(16, 128, 1, "Some GPU")


def laptop(*overrides: str) -> SweepSpec:
    return load_space("add_vs_add_prod", "laptop", overrides, HERE)


def measured(spec: SweepSpec, size: int, by_stack: dict[int, float], *, probed: bool = True) -> list[Measured]:
    conditions = conditions_of(spec, SERVER if spec.resources.device == "cuda" else HERE)
    return [Measured(conditions, size, stack, seconds, probed=probed) for stack, seconds in by_stack.items()]


def sizing(spec: SweepSpec, known: Iterable[Measured] = ()) -> Sizing:
    return Sizing(spec, conditions_of(spec, SERVER if spec.resources.device == "cuda" else HERE), known)


def test_unmeasured_small_models_are_stacked_and_large_ones_are_not() -> None:
    here = sizing(laptop("settings.model.block=18"))  # The shape that the threshold was measured at.
    assert [here.most(size) for size in (4, 8, 16, 32, 96)] == [8, 8, 4, 1, 1]
    assert here.seconds_a_step(16) is None


def test_measurements_decide_also_for_near_sizes() -> None:
    spec = laptop()
    here = sizing(spec, measured(spec, 16, {1: 0.008, 2: 0.009}) + measured(spec, 48, {1: 0.02, 2: 0.012, 4: 0.011}))
    assert [here.most(size) for size in (12, 16, 20, 48, 64)] == [1, 1, 1, 4, 4]
    assert here.most(8) == sizing(spec).most(8)


def test_what_was_asked_for_comes_first() -> None:
    spec = laptop("resources.max_stack=3")
    here = sizing(spec, measured(spec, 16, {1: 0.008, 8: 0.001}))
    assert here.most(16) == 3
    assert here.probes(16, 2000, 3) == ()


def test_measurements_of_other_settings_do_not_count() -> None:
    spec, other = laptop(), laptop("settings.training.batch=32")
    assert sizing(spec, measured(other, 16, {1: 0.008, 8: 0.001})).most(16) == sizing(spec).most(16)
    longer = laptop("settings.training.steps=4000", "settings.training.learning_rate=1.0e-3")
    assert sizing(longer, measured(spec, 16, {1: 0.008, 2: 0.009})).most(16) == 1


def test_a_size_is_probed_once() -> None:
    spec = laptop()
    here = sizing(spec)
    assert here.probes(16, 2000, 3) == (1, 2, 4, 8)
    here.learn(measured(spec, 16, {1: 0.008, 2: 0.005, 4: 0.007}))
    assert here.probes(16, 2000, 3) == ()
    assert here.probes(96, 2000, 1) == (1, 2, 4)
    assert here.most(16) == 2


def test_time_is_what_training_took_rather_than_what_steps_alone_took() -> None:
    spec = laptop()
    known = measured(spec, 16, {1: 0.008, 4: 0.005})
    assert sizing(spec, known).seconds_a_step(16) == 0.005
    trained = measured(spec, 16, {4: 0.006}, probed=False)
    assert sizing(spec, known + trained).seconds_a_step(16) == 0.006


def test_workers_on_another_device_move_the_sweep_there() -> None:
    spec = laptop()
    here = sizing(spec)
    elsewhere = conditions_of(spec, Hardware(64, 512, cpu_name="Another CPU"))
    here.learn(Measured(elsewhere, 16, stack, seconds, probed=True) for stack, seconds in ((1, 0.001), (2, 0.002)))
    assert here.most(16) == 1
    assert sizing(spec, here.known).most(16) == sizing(spec).most(16)


def test_the_share_of_a_gpu_is_settled_before_the_sweep() -> None:
    spec = load_space("add_vs_add_prod", "paper", (), SERVER)
    assert settled(spec, sizing(spec), 6).resources.gpus == UNMEASURED_GPU_SHARE
    size = spec.sizes[len(spec.sizes) // 2]
    known = measured(spec, size, {2: 1.6e-3, 8: 4e-4, 32: 1e-4})
    assert settled(spec, sizing(spec, known), 8, mps=True).resources.gpus == pytest.approx(0.25)
    assert settled(spec, sizing(spec, known), 8).resources.gpus == pytest.approx(0.5)
    fixed = load_space("add_vs_add_prod", "paper", ("resources.gpu_per_stack=0.5",), SERVER)
    assert settled(fixed, sizing(fixed, known), 8) is fixed
    assert sizing(spec).most(8) == 256


def test_a_searcher_asks_together_for_as_many_seeds_as_cost_little_more_than_one() -> None:
    spec = laptop()
    size = spec.sizes[len(spec.sizes) // 2]
    assert sizing(spec).together() == 1
    assert sizing(spec, measured(spec, size, {1: 0.008, 2: 0.006, 4: 0.005})).together() == 1
    paper = load_space("add_vs_add_prod", "paper", (), SERVER)
    assert sizing(paper).together() == paper.seeds
    size = paper.sizes[len(paper.sizes) // 2]
    nothing_in_it = measured(paper, size, {2: 1.6e-3, 8: 1.3e-3, 32: 1.2e-3})
    assert sizing(paper, nothing_in_it).together() == 2
    assert with_stack(paper, sizing(paper)).search.settings["stack"] == paper.seeds
    chosen = load_space("add_vs_add_prod", "paper", ("search.stack=3",), SERVER)
    assert with_stack(chosen, sizing(chosen)) == chosen
    assert not differences(chosen, paper)


def test_newer_measurements_replace_older_ones() -> None:
    spec = laptop()
    older = measured(spec, 16, {1: 0.008, 2: 0.005})
    kept = merged(older, measured(spec, 16, {2: 0.006}))
    assert {each.stack: each.seconds for each in kept} == {1: 0.008, 2: 0.006}
    assert [Measured.from_json(each.to_json()) for each in kept] == list(kept)
