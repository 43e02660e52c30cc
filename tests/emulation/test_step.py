"""The GPU step against an emulated CUDA, which enforces the rules and computes nothing (``make emulate``).

What can be seen so: whether a step is recorded, of how many kernels, and how much memory is held. Values and times
cannot: every result is garbage.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.bench.cases import SHAPES, Case
from tests.emulation.emulated import Emulation
from tests.trainables.trainers import MODEL, TRAINING, make_trainer
from trainables import fused, stack
from trainables.stack import StackTrainer

pytestmark = [pytest.mark.emulated, pytest.mark.timeout(900)]

MOST_NODES = {"0": 189, "attention": 173, "1": 149}
"""Of the compiled step of the paper's model at n_embed 64 in bf16: with none of the project's own kernels, with one and
with all. With two layout kernels a block it was 193."""


def paper(stack: int, *, compiled: bool) -> StackTrainer:
    return Case(SHAPES["paper"], 64, "bf16", "cuda").stack(stack, compiled)


@pytest.fixture(params=MOST_NODES)
def own_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Without and with the project's own kernels, by the name of the switch."""
    monkeypatch.setattr(fused, "USED", fused.asked(request.param))
    monkeypatch.setattr(stack, "_COMPILED_FIRST", set())
    return str(request.param)


def test_a_compiled_step_is_recorded_whole(emulation: Emulation, own_kernels: str) -> None:
    trainer = paper(64, compiled=True)
    trainer.run(0, 6)
    assert trainer.recorded
    [nodes] = emulation.recordings()
    assert nodes <= MOST_NODES[own_kernels]


def test_a_stack_that_loses_a_run_never_holds_two_recordings(emulation: Emulation) -> None:
    trainer = paper(64, compiled=False)
    trainer.run(0, 6)
    before = torch.cuda.memory_reserved()
    emulation.forget_peak()
    trainer.keep(torch.tensor(list(range(63)), device="cuda"))
    trainer.run(6, 12)
    assert emulation.peak() < 1.1 * before
    assert len(emulation.recordings()) == 2


@pytest.mark.parametrize("rows", [65_535, 65_536, 131_072])
@pytest.mark.usefixtures("own_kernels")
def test_no_number_of_rows_is_too_large_for_a_grid(emulation: Emulation, rows: int) -> None:
    runs = 128 if rows % 128 == 0 else 15
    settings = replace(TRAINING, precision="bf16", batch=rows // runs)
    model = replace(MODEL, n_recurrence=1, block=34)
    trainer = make_trainer(
        range(runs), device="cuda", n_embed=8, model=model, settings=[settings] * runs, compile_step=False
    )
    trainer.run(0, 6)
    assert trainer.recorded


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
@pytest.mark.parametrize("n_embed", [16, 37])
@pytest.mark.usefixtures("own_kernels")
def test_steps_are_recorded_in_every_precision(emulation: Emulation, precision: str, n_embed: int) -> None:
    settings = replace(TRAINING, precision=precision)  # type: ignore[arg-type]
    trainer = make_trainer(range(3), device="cuda", n_embed=n_embed, settings=[settings] * 3, compile_step=False)
    trainer.run(0, 6)
    trainer.keep(torch.tensor([0, 2], device="cuda"))
    trainer.run(6, 12)
    assert trainer.recorded
    assert len(emulation.recordings()) == 2
