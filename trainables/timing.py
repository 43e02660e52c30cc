"""The clock that training is measured by."""

from __future__ import annotations

import time

import torch


def computing_s(device: torch.device) -> float:
    """Seconds, to be subtracted from one another.

    With one thread of a CPU: the computing time of the calling thread, so that other programs on the machine do not
    count. Else the wall clock, after a GPU has done its work.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()
