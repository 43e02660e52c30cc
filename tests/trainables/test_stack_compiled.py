"""Compiled steps compute what uncompiled ones do, and a stack that loses runs needs no new version of them."""

from __future__ import annotations

import sysconfig
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch

from tests.trainables.trainers import MODEL, losses, make_trainer
from trainables import compiled, stack

SMALL = replace(MODEL, n_recurrence=1)


@pytest.mark.slow
@pytest.mark.parametrize("bias", [pytest.param(False, marks=pytest.mark.night), True])
def test_compiled_steps_follow_uncompiled_ones_through_a_shrinking_stack(bias: bool) -> None:
    from torch._dynamo.utils import counters

    plain, fast = (
        make_trainer(range(4), model=replace(SMALL, bias=bias), compile_step=compile_step)
        for compile_step in (False, True)
    )
    expected, curve = losses(plain, 6), losses(fast, 6)
    versions = counters["stats"]["unique_graphs"]
    assert versions > 0
    for trainer in (plain, fast):
        trainer.keep(torch.tensor([0, 1, 3]))
    expected = torch.cat((expected[:, [0, 1, 3]], losses(plain, 6, first=6)))
    curve = torch.cat((curve[:, [0, 1, 3]], losses(fast, 6, first=6)))
    torch.testing.assert_close(curve, expected, rtol=1e-3, atol=1e-4)
    assert counters["stats"]["unique_graphs"] == versions


def test_steps_on_a_cpu_are_not_compiled() -> None:
    assert not compiled.can_compile(torch.device("cpu"))


def test_a_gpu_without_a_c_compiler_runs_uncompiled_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    assert not compiled.can_compile(torch.device("cuda"))
    assert any("C compiler" in each for each in compiled.lacking())


def test_a_gpu_without_pythons_headers_runs_uncompiled_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compiled, "find_spec", lambda name: object())
    monkeypatch.setattr(compiled, "_c_compiler", lambda: "cc")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert not compiled.can_compile(torch.device("cuda"))
    assert compiled.lacking() == ("Python's headers (python3-dev)",)
    (tmp_path / "Python.h").touch()
    assert compiled.can_compile(torch.device("cuda"))


def test_a_worker_compiles_with_few_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    monkeypatch.delenv(compiled.COMPILERS, raising=False)
    with config.patch(compile_threads=64):  # As on a node of so many cores, on which other workers compile, too.
        compiled.compiled(lambda: None)
        threads = config.compile_threads
    assert threads is not None
    assert threads <= 4


@pytest.mark.slow
def test_what_is_compiled_does_not_depend_on_which_stack_came_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import counters

    taken: list[int] = []
    differentiate = stack.StackTrainer._differentiate

    def noted(trainer: stack.StackTrainer, weights: torch.Tensor, *windows: torch.Tensor) -> Any:
        taken.append(len(weights))
        return differentiate(trainer, weights, *windows)

    monkeypatch.setattr(stack.StackTrainer, "_differentiate", noted)
    before = counters["stats"]["unique_graphs"]
    for runs in (2, 5):
        make_trainer(range(runs), model=replace(SMALL, feed_forward=3), compile_step=True).run(0, 1)
    assert taken == [compiled.CANONICAL_STACK, 2, 5]
    assert counters["stats"]["unique_graphs"] == before + 1


def test_one_process_of_a_machine_compiles_a_form_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    within: list[str] = []

    def other(form: str) -> Thread:
        def enter() -> None:
            with compiled.compiling(form):
                within.append(form)

        thread = Thread(target=enter)
        thread.start()
        return thread

    with compiled.compiling("16"):
        other("32").join(10)  # Of another form.
        waits = other("16")
        waits.join(0.3)
        assert within == ["32"]
    waits.join(10)
    assert within == ["32", "16"]
