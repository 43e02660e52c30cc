"""A task as text: the contract of its settings, and its data as plain arrays, to train on and to be scored on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trainables.contract.arms import Mix
from trainables.contract.tables import TaskTables


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

    def tables(self, tasks: Sequence[str], seed: int) -> TaskTables | None:
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
