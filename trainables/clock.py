"""The clock that training is measured by."""

from __future__ import annotations

import time

import torch


def computing_s(device: torch.device) -> float:
    """Seconds, to be subtracted from one another: where one thread of a CPU computes, those that the calling thread
    computed, so that other programs on the machine do not count; else by the clock on the wall, with a GPU's work
    waited for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()
