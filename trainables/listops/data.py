"""Datasets of ListOps: made once for (settings, mix, seed), then read memory-mapped by every run."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from trainables.base import Mix
from trainables.corpus import Dataset, Examples
from trainables.listops.expressions import Expressions, Texts
from trainables.listops.heldout import Part
from trainables.listops.settings import TaskSettings
from trainables.listops.streams import stream
from trainables.listops.tokens import Vocabulary

GENERATOR_VERSION = 2
"""Raise it whenever the same settings, mix and seed give other data."""
LAYOUT_VERSION = 3
"""Raise it whenever the same data are kept in other files."""
DIGEST = "digest.txt"
CASES = "cases"
"""The file of what is counted in the data and no part of their digest."""


def load_dataset(settings: TaskSettings, mix: Mix, seed: int, cache: Path) -> Dataset:
    """The dataset of (settings, mix, seed), from ``cache`` or made there; arrays are read-only and memory-mapped.

    Several processes may ask for the same one at once: each finds it whole. Raises :class:`SettingsError` for a mix
    with an unknown operation, ``OSError`` where the directory cannot be written.
    """
    directory = cache / _name(settings, mix, seed)
    if not directory.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        _write(make_dataset(settings, mix, seed), directory)
    return _read(directory, mix)


def make_dataset(settings: TaskSettings, mix: Mix, seed: int) -> Dataset:
    """The dataset of (settings, mix, seed), a pure function of the three (seed >= 0)."""
    expressions = Expressions(settings, mix, seed)
    described = [f"{task}:{share:.12f}" for task, share in zip(mix.tasks, mix.shares, strict=True)]
    texts, nodes = expressions.sample(Part.TRAINED, settings.training_examples, stream(seed, "train", *described))
    starts = np.cumsum(texts.lengths) - texts.lengths
    place = np.arange(len(texts.tokens)) - np.repeat(starts, texts.lengths)
    mixed = None
    if len(mix.tasks) > 1 and settings.levels > 1:
        drawn, _ = expressions.sample(Part.TEST, settings.test_examples, stream(seed, "mixed", *described))
        mixed = _examples(drawn, expressions.vocabulary)
    alone = {task: Expressions(settings, Mix.of({task: 1.0}), seed) for task in mix.tasks}
    test = {task: _held_out(alone[task], Part.TEST, seed) for task in mix.tasks}
    dataset = Dataset(
        tokens=texts.tokens,
        answer=place >= np.repeat(texts.prompt_lengths, texts.lengths),
        starts=starts,
        validation={task: _held_out(alone[task], Part.VALIDATION, seed) for task in mix.tasks},
        test=test,
        mixed=mixed,
        nodes=nodes,
        # An expression ends with <eos>, so no tuple reaches from one row into the next.
        cases={task: alone[task].held_out.cases(test[task].tokens.reshape(-1), Part.TEST) for task in mix.tasks},
    )
    return replace(dataset, digest=_digest(dataset))


def _held_out(expressions: Expressions, part: Part, seed: int) -> Examples:
    """Validation or test expressions of one operation: every tuple once where flat, else a random sample."""
    settings = expressions.settings
    count = settings.test_examples if part is Part.TEST else settings.validation_examples
    if settings.levels == 1:
        # The same tuples for every operation.
        texts = expressions.flat(expressions.held_out.tuples(part, count, stream(seed, "tuples", part.name)))
    else:
        texts, _ = expressions.sample(part, count, stream(seed, part.name, expressions.mix.name))
    return _examples(texts, expressions.vocabulary)


def _examples(texts: Texts, vocabulary: Vocabulary) -> Examples:
    tokens = np.full((len(texts.lengths), int(texts.lengths.max())), vocabulary.eos, dtype=vocabulary.dtype)
    tokens[np.arange(tokens.shape[1]) < texts.lengths[:, None]] = texts.tokens
    return Examples(tokens, texts.prompt_lengths, texts.lengths, texts.answers)


def _name(settings: TaskSettings, mix: Mix, seed: int) -> str:
    """The dataset's directory: a hash of everything that decides its content (numpy's streams included)."""
    described = {
        "generator": GENERATOR_VERSION,
        "layout": LAYOUT_VERSION,
        "numpy": np.__version__,
        "words": Vocabulary(settings.modulus).words,
        "settings": asdict(settings),
        "mix": {task: f"{share:.12f}" for task, share in zip(mix.tasks, mix.shares, strict=True)},
        "seed": seed,
    }
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    return f"listops-{digest[:24]}"


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


def _digest(dataset: Dataset) -> str:
    """A hash of every array: equal for equal data, wherever and whenever they were made."""
    content = hashlib.sha256()
    for name, array in sorted(_arrays(dataset).items()):
        content.update(f"{name} {array.dtype} {array.shape}".encode())
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()[:32]


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
