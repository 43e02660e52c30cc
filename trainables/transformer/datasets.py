"""The data of a run as arrays, and their file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save

from trainables.contract.files import write_whole


@dataclass(frozen=True)
class Examples:
    """Expressions with their worked solutions.

    Attributes:
        tokens: Full texts [M, W], padded with ``<eos>``.
        prompt_lengths: Number of tokens [M] up to and including the first '='.
        lengths: Number of tokens [M] up to and including ``<eos>``.
        answers: Token ids [M] of the right answers.
    """

    tokens: NDArray[np.unsignedinteger]
    prompt_lengths: NDArray[np.int64]
    lengths: NDArray[np.int64]
    answers: NDArray[np.int64]

    @property
    def floor(self) -> float:
        """Accuracy of the best constant answer, in [0, 1]."""
        return float(np.bincount(self.answers).max() / len(self.answers))


@dataclass(frozen=True)
class Dataset:
    """Training and test data of one run: a function of (task settings, mix, seed).

    Attributes:
        tokens: Training text [L], expression after expression.
        answer: True for tokens [L] after the first '=' of their expression, including ``<eos>``.
        starts: Offsets [E] of the expressions' first tokens, ascending.
        validation: For every task of the mix, expressions of that task alone.
        test: For every task of the mix, expressions of that task alone.
        mixed: Test expressions drawn from the mix, None for a mix of one task.
        nodes: Number of operations of each task in the training text.
        cases: Number of different held-out tuples (with ``unordered``, multisets) in the test expressions of each task.
    """

    tokens: NDArray[np.unsignedinteger]
    answer: NDArray[np.bool_]
    starts: NDArray[np.int64]
    validation: Mapping[str, Examples]
    test: Mapping[str, Examples]
    mixed: Examples | None
    nodes: Mapping[str, int]
    cases: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Hash of all arrays, for the record. It is the same on every machine."""
        content = hashlib.sha256()
        for name, array in sorted(self._arrays().items()):
            content.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        return content.hexdigest()[:32]

    def write(self, path: Path) -> None:
        """Write the dataset to a file. The file's content depends only on the dataset."""
        # The counts of cases are not part of the digest.
        arrays = self._arrays() | {"cases": np.array(list(self.cases.values()), dtype=np.int64)}
        write_whole(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))

    @classmethod
    def read(cls, path: Path, tasks: Sequence[str]) -> Dataset:
        """Read a dataset from a file that :meth:`write` wrote. ``tasks`` are the tasks of its mix, in order."""
        arrays = load_file(path)

        def examples(name: str) -> Examples:
            return Examples(**{field.name: arrays[f"{name}-{field.name}"] for field in fields(Examples)})

        return cls(
            tokens=arrays["tokens"],
            answer=arrays["answer"],
            starts=arrays["starts"],
            validation={task: examples(f"validation-{task}") for task in tasks},
            test={task: examples(f"test-{task}") for task in tasks},
            mixed=examples("mixed") if "mixed-tokens" in arrays else None,
            nodes=dict(zip(tasks, arrays["nodes"].tolist(), strict=True)),
            cases=dict(zip(tasks, arrays["cases"].tolist(), strict=True)),
        )

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name, with ``nodes`` in the order of the mix."""
        nodes = np.array(list(self.nodes.values()), dtype=np.int64)
        arrays = {"tokens": self.tokens, "answer": self.answer, "starts": self.starts, "nodes": nodes}
        sets = {f"validation-{task}": examples for task, examples in self.validation.items()}
        sets |= {f"test-{task}": examples for task, examples in self.test.items()}
        sets |= {} if self.mixed is None else {"mixed": self.mixed}
        for name, examples in sets.items():
            arrays |= {f"{name}-{field.name}": getattr(examples, field.name) for field in fields(examples)}
        return arrays
