"""Datasets on disk: each is made once, and all runs of its task, mix and seed read it."""

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
"""Raise it when the same data are written in another form."""


def load_dataset(task: ExpressionTask, mix: Mix, seed: int, cache: Path) -> Dataset:
    """Return the dataset of (task, mix, seed), from ``cache`` or made there.

    Several processes may load the same dataset at once; each reads a whole file.

    Raises:
        SettingsError: The task cannot make data for this mix.
        OSError: The directory cannot be written.
    """
    path = cache / f"{_name(task, mix, seed)}.safetensors"
    if not path.is_file():
        make_dataset(task, mix, seed).write(path)
    return Dataset.read(path, mix.tasks)


def _name(task: ExpressionTask, mix: Mix, seed: int) -> str:
    """Return the name of a dataset: a hash of everything that decides its content, numpy's streams included."""
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
