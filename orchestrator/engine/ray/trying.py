"""Ray tried out: started as for a sweep, and asked for an answer from a process of its own."""

from __future__ import annotations

import time
from dataclasses import dataclass

import ray

from orchestrator.engine.ray.engine import RayEngine
from orchestrator.space.resources import Resources

ANSWER_S = 240.0
"""Within this a new process has to answer: seconds on an idle machine, two minutes were seen on two cores with ten
processes at work."""


@dataclass(frozen=True)
class Tried:
    """Seconds until Ray was there and until its first process had imported torch, what it offers in words, and torch's
    version there."""

    start_s: float
    answer_s: float
    offers: str
    torch: str


def try_ray(resources: Resources) -> Tried:
    """Start Ray on this machine, have a process of its own import torch, and stop it.

    Raises :class:`SweepError` where Ray does not start, ``ray.exceptions.GetTimeoutError`` where nobody answers.
    """
    begun = time.perf_counter()
    with RayEngine(resources) as engine:
        started = time.perf_counter()

        # Defined here it is pickled whole, so that the process imports torch and nothing else.
        @ray.remote(num_cpus=resources.cpu_per_stack)
        def torch_there() -> str:
            import torch

            return str(torch.__version__)

        version = str(ray.get(torch_there.remote(), timeout=ANSWER_S))
        return Tried(started - begun, time.perf_counter() - started, engine.describe(), version)
