"""The clock that training is measured by: other programs do not count where one thread of a CPU computes."""

from __future__ import annotations

import time

import torch

from trainables.checkpoints import computing_s

CPU = torch.device("cpu")
WAITED_S = 0.2


def took_s(threads: int) -> float:
    """What the clock says of a pause, in which nothing is computed."""
    torch.set_num_threads(threads)
    begun = computing_s(CPU)
    time.sleep(WAITED_S)
    return computing_s(CPU) - begun


def test_one_thread_is_charged_for_what_it_computes_alone() -> None:
    assert took_s(1) < WAITED_S / 2


def test_several_threads_are_charged_by_the_clock_on_the_wall() -> None:
    assert took_s(2) >= WAITED_S
