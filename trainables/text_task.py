"""Contract of a transformer family's task: the settings under ``task``, which know how to make the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from trainables.arms import Mix
from trainables.corpus import Alphabet, Dataset
from trainables.tables import TaskTables


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
