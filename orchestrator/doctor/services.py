"""The programs a sweep stands on: Ray, which trains it, and MLflow, which records it."""

from __future__ import annotations

from pathlib import Path

from orchestrator.doctor.findings import Finding, ok, slow, wrong
from orchestrator.space.resources import Resources

LONG_START_S, LONG_RECORD_S = 30.0, 30.0
"""Longer than this is worth saying: a judgement, not a measurement."""


def ray_start(home: Path) -> Finding:
    """Ray starts as for a sweep, and a process of its own answers with the same torch."""
    from orchestrator.engine.ray.engine import try_ray  # Ray takes a second.

    tried = try_ray(Resources())
    import torch

    said = f"Ray is there after {tried.start_s:.1f} s, its first process after {tried.answer_s:.1f} s more"
    figures = {"start_s": tried.start_s, "answer_s": tried.answer_s, "offers": tried.offers}
    if tried.torch != torch.__version__:
        todo = "its processes run in another environment: look at PYTHONPATH and at who started Ray"
        return wrong(f"Ray's processes have torch {tried.torch}, this one has {torch.__version__}", todo, **figures)
    if tried.start_s + tried.answer_s > LONG_START_S:
        return slow(said, "every sweep begins with that: is the machine busy, or its disk far away?", **figures)
    return ok(said, **figures)


def record(home: Path) -> Finding:
    """The MLflow store answers, and what is written to one like it can be read."""
    from orchestrator.tracking.sync import try_store  # MLflow takes two seconds.

    shown, seconds = try_store(home)
    said = f"MLflow writes and reads in {seconds:.1f} s ({shown})"
    if seconds > LONG_RECORD_S:
        return slow(said, "records will lag behind the sweep, which does not wait for them", seconds=seconds)
    return ok(said, seconds=seconds)
