"""A clock that measures training in torch."""

from __future__ import annotations

import time

import torch


def computing_s(device: torch.device) -> float:
    """Return the time of a clock that measures training, in seconds.

    With one CPU thread it is the thread's CPU time, which other programs do not affect. Otherwise it is the wall-clock
    time, on a GPU after the GPU has finished its work.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()
