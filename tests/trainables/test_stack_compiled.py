"""Compiled steps compute what uncompiled ones do, and a stack that loses runs needs no new version of them."""

from __future__ import annotations

import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.trainables.trainers import MODEL, losses, make_trainer
from trainables import compiled

SMALL = replace(MODEL, n_recurrence=1)


@pytest.mark.slow
@pytest.mark.parametrize("bias", [False, True])
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


def test_a_gpu_without_a_c_compiler_is_said_to_run_uncompiled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    assert not compiled.can_compile(torch.device("cuda"))
    assert "uncompiled" in caplog.text


def test_a_gpu_without_pythons_headers_is_said_to_run_uncompiled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(compiled, "find_spec", lambda name: object())
    monkeypatch.setattr(compiled, "_c_compiler", lambda: "cc")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert not compiled.can_compile(torch.device("cuda"))
    assert "headers" in caplog.text
    (tmp_path / "Python.h").touch()
    assert compiled.can_compile(torch.device("cuda"))
