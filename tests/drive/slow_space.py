"""A search space whose runs take a while, for sweeps that something happens to."""

from __future__ import annotations

from pathlib import Path

import yaml


def write_space(directory: Path, *, sleep_s: float = 0.3, steps: int = 3, **changes: object) -> Path:
    """A grid of twelve runs of the logistic family that sleeps ``sleep_s`` seconds an evaluation, one after the other;
    its file. ``log`` in the same directory says what was trained when."""
    (directory / "log").mkdir(parents=True, exist_ok=True)
    space = {
        "name": "slow",
        "question": "Does PROD help ADD?",
        "family": "tests.engine.sleepers:SleepingFamily",
        "target": "add",
        "mixes": ["add", "add+prod"],
        "sizes": [16, 32, 64],
        "seeds": 2,
        "search": {"method": "grid"},
        "settings": {"steps": steps, "sleep_s": sleep_s, "log": str(directory / "log")},
        "resources": {"max_stack": 1, "cpu_per_stack": 2, "checkpoint_every_s": 0.2},
    }
    path = directory / "slow.yaml"
    path.write_text(yaml.safe_dump(space | changes), encoding="utf-8")
    return path
