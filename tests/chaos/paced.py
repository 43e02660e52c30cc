"""A small search space of slow runs, for sweeps with faults."""

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
"""A grid of :data:`RUNS` runs, which a machine of two cores trains one after the other."""


def write_space(directory: Path, *, pace_s: float, **changes: Any) -> Path:
    """Write the search space, with these fields replaced, to a file in this directory."""
    path = directory / "paced.yaml"
    settings = {"settings": {"steps": 3, "pace_s": pace_s}}
    path.write_text(yaml.safe_dump(SPACE | settings | changes), encoding="utf-8")
    return path
