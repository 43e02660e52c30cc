"""Datasets on disk: each is made once, and every run of its task, mix and seed reads it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from trainables.contract.arms import Mix
from trainables.contract.settings import digest_of
from trainables.tasks.datasets import Dataset
from trainables.tasks.expressions import ExpressionTask
from trainables.tasks.texts import make_dataset

LAYOUT_VERSION = 4
"""Raise it whenever the same data are kept in another form."""


def load_dataset(task: ExpressionTask, mix: Mix, seed: int, cache: Path) -> Dataset:
    """Return the dataset of (task, mix, seed), from ``cache`` or made there.

    Several processes may ask for the same one at once: each finds it whole.

    Raises:
        SettingsError: for a mix that the task cannot give.
        OSError: if the directory cannot be written.
    """
    path = cache / f"{_name(task, mix, seed)}.safetensors"
    if not path.is_file():
        make_dataset(task, mix, seed).write(path)
    return Dataset.read(path, mix.tasks)


def _name(task: ExpressionTask, mix: Mix, seed: int) -> str:
    """The dataset's name: a hash of everything that decides its content (numpy's streams included)."""
    described = {
        "generator": task.generator_version,
        "layout": LAYOUT_VERSION,
        "numpy": np.__version__,
        "words": task.vocabulary().words,
        "settings": {name: value for name, value in asdict(task).items() if name != "decoding"},
        "mix": {name: f"{share:.12f}" for name, share in zip(mix.tasks, mix.shares, strict=True)},
        "seed": seed,
    }
    return f"{task.kind}-{digest_of(described)[:24]}"
