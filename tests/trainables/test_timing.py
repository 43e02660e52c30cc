"""The training clock: time of other programs does not count if training uses one CPU thread."""

from __future__ import annotations

import time

import torch

from trainables.contract.clock import computing_s


def test_one_thread_is_charged_for_its_own_computation_and_several_for_wall_time() -> None:
    took = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        begun = computing_s(torch.device("cpu"))
        time.sleep(0.2)
        took[threads] = computing_s(torch.device("cpu")) - begun
    assert took[1] < 0.1
    assert took[2] >= 0.2
