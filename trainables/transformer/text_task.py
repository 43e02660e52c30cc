"""A task as text: the contract of its settings, and its data as arrays, made once and kept on disk.

A dataset is a function of (task settings, mix, seed). It is written once and read memory-mapped by every run.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trainables.contract.arms import Mix
from trainables.contract.tables import Integers


@dataclass(frozen=True)
class Alphabet:
    """Token ids the learner must know: how many there are, how many of them (the first ones) are items, the tokens that
    values are written in, and two."""

    size: int
    items: int
    eos: int
    equals: int


@dataclass(frozen=True)
class Examples:
    """Expressions with their worked solutions.

    ``tokens`` [M, W] is the full text, padded with ``<eos>``; ``prompt_lengths`` [M] counts the tokens up to and
    including the first '='; ``lengths`` [M] the text's, with its ``<eos>``; ``answers`` [M] the right answers as codes,
    equal where the answers are (token ids where every answer is one token).
    """

    tokens: NDArray[np.unsignedinteger]
    prompt_lengths: NDArray[np.int64]
    lengths: NDArray[np.int64]
    answers: NDArray[np.int64]

    @property
    def floor(self) -> float:
        """The accuracy of the best constant answer, in [0, 1]."""
        return float(np.bincount(self.answers).max() / len(self.answers))


@dataclass(frozen=True)
class Dataset:
    """Everything one run is trained and scored on; a function of (task settings, mix, seed).

    ``tokens`` [L] is the training text, expression after expression; ``answer`` [L] is True for tokens after the
    first '=' of their expression, with its ``<eos>``; ``starts`` [E] are the offsets of the expressions' first
    tokens, ascending. ``validation`` and ``test`` hold, for every task of the mix, expressions of that task alone;
    ``mixed`` holds test expressions drawn from the mix, None for a mix of one. ``nodes`` counts the operation nodes
    of each task in the training text, ``cases`` the different held-out tuples (multisets where order does not count)
    that the test expressions of each task rest on. ``digest`` is a hash of all arrays, for the record.
    """

    tokens: NDArray[np.unsignedinteger]
    answer: NDArray[np.bool_]
    starts: NDArray[np.int64]
    validation: Mapping[str, Examples]
    test: Mapping[str, Examples]
    mixed: Examples | None
    nodes: Mapping[str, int]
    cases: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""


class TextTask(ABC):
    """A task as text: a frozen dataclass of settings of which two equal ones, a mix and a seed give the same data."""

    kind: ClassVar[str]
    """The short name of its family: datasets on disk begin with it."""
    generator_version: ClassVar[int]
    """Raise it whenever the same settings, mix and seed give other data."""

    @abstractmethod
    def tasks(self) -> tuple[str, ...]:
        """The names a mix may hold."""

    def tables(self, tasks: Sequence[str], seed: int) -> dict[str, Integers] | None:
        """These tasks as tables; None where they are no functions of a few items."""
        return None

    @abstractmethod
    def check_mix(self, mix: Mix) -> None:
        """Raise ``SettingsError`` (key ``mixes``) unless every task of ``mix`` is one, and one that can be asked."""

    @abstractmethod
    def subject(self) -> str:
        """Subject of learning, in a few words (``modulus 6``)."""

    @abstractmethod
    def texts(self) -> str:
        """Words for the texts that fit before "are up to 60 tokens long"."""

    @abstractmethod
    def warnings(self) -> list[str]:
        """Warnings about these settings, a sentence each, before anything is paid for."""

    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """Every token as a person reads it, in the order of the ids; the same for every mix."""

    @abstractmethod
    def alphabet(self) -> Alphabet:
        """Tokens as a learner needs them; the same for every mix."""

    @property
    @abstractmethod
    def longest_text(self) -> int:
        """Tokens of the longest possible text, ``<eos>`` included."""

    @abstractmethod
    def stackable(self) -> Any:
        """Part of the task that runs of one stack share, as a plain value: everything that decides the tokens."""

    @abstractmethod
    def with_examples(self, factor: float) -> Self:
        """The task with ``factor`` (positive) times the training examples."""

    @abstractmethod
    def make_dataset(self, mix: Mix, seed: int) -> Dataset:
        """Data for a run of this mix and data seed (>= 0): a pure function of the three.

        Raises ``SettingsError`` where these settings cannot give the data.
        """


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
