"""Datasets on disk: made once for (task settings, mix, seed), then read memory-mapped by every run."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from trainables.contract.arms import Mix
from trainables.transformer.text_task import Dataset, Examples, TextTask

LAYOUT_VERSION = 3
"""Raise it whenever the same data are kept in other files."""
DIGEST = "digest.txt"
CASES = "cases"
"""The file of what is counted in the data and no part of their digest."""


def load_dataset(task: TextTask, mix: Mix, seed: int, cache: Path) -> Dataset:
    """The dataset of (task, mix, seed), from ``cache`` or made there; arrays are read-only and memory-mapped.

    Several processes may ask for the same one at once: each finds it whole. Raises :class:`SettingsError` for a mix
    that the task cannot give, ``OSError`` where the directory cannot be written.
    """
    directory = cache / _name(task, mix, seed)
    if not directory.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        _write(task.make_dataset(mix, seed), directory)
    return _read(directory, mix)


def digest(dataset: Dataset) -> str:
    """A hash of every array: equal for equal data, wherever and whenever they were made."""
    content = hashlib.sha256()
    for name, array in sorted(_arrays(dataset).items()):
        content.update(f"{name} {array.dtype} {array.shape}".encode())
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()[:32]


def _name(task: TextTask, mix: Mix, seed: int) -> str:
    """The dataset's directory: a hash of everything that decides its content (numpy's streams included)."""
    described = {
        "generator": task.generator_version,
        "layout": LAYOUT_VERSION,
        "numpy": np.__version__,
        "words": task.words(),
        "settings": asdict(task),  # type: ignore[call-overload]  # every task is a dataclass
        "mix": {name: f"{share:.12f}" for name, share in zip(mix.tasks, mix.shares, strict=True)},
        "seed": seed,
    }
    hashed = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    return f"{task.kind}-{hashed[:24]}"


def _write(dataset: Dataset, directory: Path) -> None:
    """Write aside, flush, and rename into place. Whoever comes second keeps the first one's, which is equal."""
    aside = directory.with_name(f".{directory.name}-{secrets.token_hex(8)}")
    aside.mkdir()
    try:
        counted = {CASES: np.array(list(dataset.cases.values()), dtype=np.int64)}
        for name, array in (_arrays(dataset) | counted).items():
            with (aside / f"{name}.npy").open("wb") as file:
                np.save(file, array, allow_pickle=False)
                _flush(file)
        with (aside / DIGEST).open("wb") as file:
            file.write(dataset.digest.encode())
            _flush(file)
        try:
            aside.rename(directory)
        except OSError:
            if not directory.is_dir():
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _arrays(dataset: Dataset) -> dict[str, NDArray[Any]]:
    """All arrays of a dataset by file name; ``nodes`` in the order of the mix."""
    arrays: dict[str, NDArray[Any]] = {
        "tokens": dataset.tokens,
        "answer": dataset.answer,
        "starts": dataset.starts,
        "nodes": np.array(list(dataset.nodes.values()), dtype=np.int64),
    }
    sets = {f"validation-{task}": examples for task, examples in dataset.validation.items()}
    sets |= {f"test-{task}": examples for task, examples in dataset.test.items()}
    if dataset.mixed is not None:
        sets["mixed"] = dataset.mixed
    for name, examples in sets.items():
        arrays |= {f"{name}-{field.name}": getattr(examples, field.name) for field in fields(examples)}
    return arrays


def _read(directory: Path, mix: Mix) -> Dataset:
    def array(name: str) -> NDArray[Any]:
        loaded: NDArray[Any] = np.load(directory / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        return loaded

    def examples(name: str) -> Examples:
        return Examples(**{field.name: array(f"{name}-{field.name}") for field in fields(Examples)})

    return Dataset(
        tokens=array("tokens"),
        answer=array("answer"),
        starts=array("starts"),
        validation={task: examples(f"validation-{task}") for task in mix.tasks},
        test={task: examples(f"test-{task}") for task in mix.tasks},
        mixed=examples("mixed") if (directory / "mixed-tokens.npy").exists() else None,
        nodes=dict(zip(mix.tasks, array("nodes").tolist(), strict=True)),
        cases=dict(zip(mix.tasks, array(CASES).tolist(), strict=True)),
        digest=(directory / DIGEST).read_text(),
    )
