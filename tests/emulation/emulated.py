"""The emulated CUDA as tests see it: its log, and what it counts."""

from __future__ import annotations

import ctypes
import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

FORBIDDEN = ("ILLEGAL-IN-CAPTURE", "BAD-LAUNCH", "OUTSIDE-CAPTURE")
PEAK = 1
"""The number of the emulation's statistic that is the most memory ever held, in bytes."""


class Emulation:
    """The emulated runtime's log and statistics, of this test alone."""

    def __init__(self, library: ctypes.CDLL, log: Path) -> None:
        self._library, self._log = library, log
        self._begin = log.stat().st_size if log.exists() else 0
        library.stub_stat.restype = ctypes.c_size_t

    def said(self) -> list[str]:
        return self._log.read_text()[self._begin :].splitlines() if self._log.exists() else []

    def recordings(self) -> list[int]:
        """The nodes of every recorded step."""
        found = (re.match(r"END capture \d+: (\d+) nodes, valid", line) for line in self.said())
        return [int(each[1]) for each in found if each]

    def peak(self) -> int:
        return int(self._library.stub_stat(PEAK))

    def forget_peak(self) -> None:
        self._library.stub_reset_peak()


@contextmanager
def emulated() -> Iterator[Emulation]:
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
