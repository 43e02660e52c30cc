"""The GPU step against an emulated CUDA, which enforces the rules and computes nothing (``make emulate``).

What can be seen so: whether a step is recorded, of how many kernels, and how much memory is held. Values and times
cannot: every result is garbage.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.bench.cases import SHAPES, Case
from tests.trainables.trainers import MODEL, TRAINING, make_trainer
from trainables.stack import StackTrainer

pytestmark = [pytest.mark.emulated, pytest.mark.timeout(900)]

FORBIDDEN = ("ILLEGAL-IN-CAPTURE", "BAD-LAUNCH", "OUTSIDE-CAPTURE")
MOST_NODES = 189
"""Of the compiled step of the paper's model at n_embed 64 in bf16: 193 with two layout kernels a block."""
PEAK = 1
"""The number of the emulation's statistic that is the most memory ever held, in bytes."""


class Emulation:
    """The emulated runtime's log and statistics, of this test alone."""

    def __init__(self, library: ctypes.CDLL, log: Path) -> None:
        self._library, self._log = library, log
        self._begin = log.stat().st_size if log.exists() else 0
        library.stub_stat.restype = ctypes.c_size_t

    def said(self) -> list[str]:
        return self._log.read_text()[self._begin :].splitlines()

    def recordings(self) -> list[int]:
        """The nodes of every recorded step."""
        found = (re.match(r"END capture \d+: (\d+) nodes, valid", line) for line in self.said())
        return [int(each[1]) for each in found if each]

    def peak(self) -> int:
        return int(self._library.stub_stat(PEAK))

    def forget_peak(self) -> None:
        self._library.stub_reset_peak()


@pytest.fixture
def emulation() -> Iterator[Emulation]:
    """The emulation; afterwards nothing that CUDA forbids was asked of it."""
    log = os.environ.get("STUB_LOG", "")
    library = ctypes.CDLL("libcudart.so.13") if "libcudart" in os.environ.get("LD_PRELOAD", "") else None
    if not log or library is None:
        pytest.skip("the emulation is not there: make emulate")
    torch.backends.cuda.enable_cudnn_sdp(False)
    gc.collect()
    torch.cuda.empty_cache()  # What other tests held is none of this one's.
    made = Emulation(library, Path(log))
    yield made
    assert [line for line in made.said() if line.startswith(FORBIDDEN)] == []


def paper(stack: int, *, compiled: bool) -> StackTrainer:
    return Case(SHAPES["paper"], 64, "bf16", "cuda").stack(stack, compiled)


def test_a_compiled_step_is_recorded_whole(emulation: Emulation) -> None:
    trainer = paper(64, compiled=True)
    trainer.run(0, 6)
    assert trainer.recorded
    [nodes] = emulation.recordings()
    assert nodes <= MOST_NODES


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
def test_steps_are_recorded_in_every_precision(emulation: Emulation, precision: str, n_embed: int) -> None:
    settings = replace(TRAINING, precision=precision)  # type: ignore[arg-type]
    trainer = make_trainer(range(3), device="cuda", n_embed=n_embed, settings=[settings] * 3, compile_step=False)
    trainer.run(0, 6)
    trainer.keep(torch.tensor([0, 2], device="cuda"))
    trainer.run(6, 12)
    assert trainer.recorded
    assert len(emulation.recordings()) == 2
