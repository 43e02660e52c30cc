"""A training step recorded once as a CUDA graph and replayed: one launch instead of hundreds.

A graph repeats the same kernels on the same addresses. So the step it records must read and write tensors that stay
where they are, take nothing from the host that changes, and never wait for the device.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

WARM_UP_CALLS = 3
"""Calls that run without recording first: kernels are compiled and libraries take their workspaces in them."""


class CapturedStep:
    """Calls ``step`` the first few times, records it, and replays the recording from then on.

    Every call does the step's work once. To change a tensor's address, make a new object.
    """

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step
        self._calls = 0
        self._side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if self._graph is None and self._calls < WARM_UP_CALLS:
            self._run_aside()
        else:
            if self._graph is None:
                self._graph = self._record()
            self._graph.replay()
        self._calls += 1

    def _run_aside(self) -> None:
        """One step on another stream, as recording asks of the steps before it."""
        here = torch.cuda.current_stream()
        self._side.wait_stream(here)
        with torch.cuda.stream(self._side):
            self._step()
        here.wait_stream(self._side)

    def _record(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._side):
            self._step()
        return graph
