"""A small search space of runs that take their time, for sweeps that things happen to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.scripted import FAMILY

MIXES, SIZES, SEEDS = ("add", "add+prod"), (16, 32, 64), 2
RUNS = len(MIXES) * len(SIZES) * SEEDS
SPACE = {
    "name": "paced",
    "question": "Does PROD help ADD?",
    "family": FAMILY,
    "target": "add",
    "mixes": list(MIXES),
    "sizes": list(SIZES),
    "seeds": SEEDS,
    "search": {"method": "grid"},
    "resources": {"max_stack": 1, "cpu_per_stack": 2, "checkpoint_every_s": 0.1},
}
"""A grid of :data:`RUNS` runs, one after the other on a machine of two cores."""


def write_space(directory: Path, *, pace_s: float, **changes: Any) -> Path:
    """The search space, with these fields instead of its own, as a file in this directory."""
    path = directory / "paced.yaml"
    settings = {"settings": {"steps": 3, "pace_s": pace_s}}
    path.write_text(yaml.safe_dump(SPACE | settings | changes), encoding="utf-8")
    return path
