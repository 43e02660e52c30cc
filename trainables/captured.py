"""A training step recorded once as a CUDA graph and replayed: one launch instead of hundreds.

A graph repeats the same kernels on the same addresses. So the step it records must read and write tensors that stay
where they are, take nothing from the host that changes, and never wait for the device.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

WARM_UP_CALLS = 3
"""Calls that run without recording first: kernels are compiled and libraries take their workspaces in them."""

# Deterministic algorithms ask for it, and torch looks once, at a process's first matrix product on a GPU.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


class CapturedStep:
    """Runs a step the first few times, records it then, and replays the recording from there on.

    Where a tensor that the step touches moves, a new object is needed.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._side = _side_stream(torch.cuda.current_device())
        self._graph: torch.cuda.CUDAGraph | None = None

    @property
    def recorded(self) -> bool:
        """Whether calls are replays by now."""
        return self._graph is not None

    def run(self, step: Callable[[], None]) -> None:
        """Do what ``step`` does once; always the same step."""
        if self._graph is None and self._calls < WARM_UP_CALLS:
            self._run_aside(step)
        else:
            if self._graph is None:
                self._graph = self._record(step)
            self._graph.replay()
        self._calls += 1

    def _run_aside(self, step: Callable[[], None]) -> None:
        """One step on another stream, as recording asks of the steps before it."""
        here = torch.cuda.current_stream()
        self._side.wait_stream(here)
        with torch.cuda.stream(self._side):
            step()
        here.wait_stream(self._side)

    def _record(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._side):
            step()
        return graph


@functools.cache
def _side_stream(device: int) -> torch.cuda.Stream:
    """One for all recordings on a device: cuBLAS keeps a workspace for every stream it was ever used on."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@contextmanager
def repeatable() -> Iterator[None]:
    """Kernels that give the same bits each time; an operation that has none raises ``RuntimeError``. To be warned
    instead would not do: the gradient of attention is summed in a fixed order only where the setting is strict."""
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(True)
    # Every element is written; filling them first costs a pass.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
