"""A generator that yields inside a mode of a library does not leave the mode on for others."""

from __future__ import annotations

import decimal
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainables.simple_families import Suspended
from trainables.base import Arm
from trainables.contract.modes import apart


def set_dtype() -> AbstractContextManager[None]:
    torch.set_default_dtype(torch.float64)
    return warnings.catch_warnings()


def function_modes() -> int:
    return len(torch.overrides._get_current_function_mode_stack())  # type: ignore[no-untyped-call]


MODES: dict[str, tuple[Callable[[], AbstractContextManager[Any]], Callable[[], object]]] = {
    "no_grad": (torch.no_grad, torch.is_grad_enabled),
    "inference_mode": (torch.inference_mode, lambda: (torch.is_inference_mode_enabled(), torch.is_grad_enabled())),
    "autocast": (lambda: torch.autocast("cpu"), lambda: torch.is_autocast_enabled("cpu")),
    "device": (lambda: torch.device("meta"), lambda: (torch.ones(1).device, function_modes())),
    "dtype": (set_dtype, torch.get_default_dtype),
    "errstate": (lambda: np.errstate(all="raise"), np.geterr),
    "decimal": (lambda: decimal.localcontext(prec=3), lambda: decimal.getcontext().prec),
    "warnings": (lambda: warnings.catch_warnings(action="error"), lambda: list(warnings.filters)),
}
"""A mode of a library, and how to see it."""


@pytest.mark.parametrize("name", MODES)
def test_a_mode_is_on_only_in_its_generator(name: str) -> None:
    mode, state = MODES[name]
    before = state()

    def points() -> Iterator[object]:
        with mode():
            yield state()
            yield state()
        yield state()

    one, two = apart(points()), apart(points())
    during = next(one)
    assert during != before
    assert state() == before
    assert next(two) == during  # Both are suspended inside the mode.
    assert [next(one), state(), next(two), state()] == [during, before, during, before]
    if name != "dtype":  # It stays as the generator set it, for the generator.
        assert [next(one), next(two)] == [before, before]
    assert state() == before


@pytest.mark.parametrize("name", MODES)
def test_a_dropped_generator_leaves_no_mode(name: str) -> None:
    mode, state = MODES[name]
    before = state()

    def points() -> Iterator[int]:
        with mode():
            yield 1
            yield 2

    suspended = apart(points())
    next(suspended)
    del suspended
    assert state() == before


def test_runs_that_alternate_keep_their_gradients(tmp_path: Path) -> None:
    family = Suspended(Suspended.Settings(steps=3))
    learners = [
        family.learner([family.config(Arm.parse("add"), 4, seed)], device="cpu", cache=tmp_path) for seed in (0, 1)
    ]
    for _ in range(4):
        for learner in learners:
            learner.advance()
            assert torch.is_grad_enabled()
