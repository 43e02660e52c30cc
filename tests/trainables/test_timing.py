"""The training clock: time of other programs does not count if training uses one CPU thread."""

from __future__ import annotations

import time

import torch

from trainables.checkpoints import computing_s

CPU = torch.device("cpu")
WAITED_S = 0.2


def took_s(threads: int) -> float:
    """Return the time charged for a pause without computation."""
    torch.set_num_threads(threads)
    begun = computing_s(CPU)
    time.sleep(WAITED_S)
    return computing_s(CPU) - begun


def test_one_thread_is_charged_only_for_its_own_computation() -> None:
    assert took_s(1) < WAITED_S / 2


def test_several_threads_are_charged_by_wall_time() -> None:
    assert took_s(2) >= WAITED_S
