"""Jobs for workers, as a campaign makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from orchestrator.engine.messages import StackJob
from orchestrator.history.sweeps import Sweep
from orchestrator.search.base import Request


def job_for(sweep: Sweep, requests: Sequence[Request]) -> StackJob:
    """Return the job that trains these runs of a sweep as the stack ``stack-1``."""
    family = sweep.spec.make_family()
    runs = tuple(map(sweep.spec.config, requests))
    members = tuple(asdict(request) for request in requests)
    return StackJob(
        "stack-1", runs, tuple(map(family.key, runs)), members, tuple(range(len(runs))), sweep.spec.resources
    )
