"""Jobs for workers, as a campaign makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from orchestrator.engine.messages import StackJob
from orchestrator.history.sweeps import Sweep
from orchestrator.search.base import Request


def job_for(sweep: Sweep, requests: Sequence[Request], **changes: Any) -> StackJob:
    """Return the job that trains these runs of a sweep as the stack ``stack-1``, with ``changes`` of its setup."""
    family = sweep.spec.make_family()
    runs = tuple(map(sweep.spec.config, requests))
    members = tuple(asdict(request) for request in requests)
    keys = tuple(map(family.key, runs))
    setup = replace(sweep.setup, **changes)
    return StackJob(setup, "stack-1", runs, keys, members, tuple(range(len(runs))), sweep.spec.resources)
