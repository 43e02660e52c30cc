"""What a family of transformers asks of its task: the settings under ``task``, which know how to make the data."""

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
        """What is learned, in a few words (``modulus 6``)."""

    @abstractmethod
    def texts(self) -> str:
        """What the texts are, in a few words that fit before "are up to 60 tokens long"."""

    @abstractmethod
    def warnings(self) -> list[str]:
        """What the user should know about these settings before paying for them, a sentence each."""

    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """Every token as a person reads it, in the order of the ids; the same for every mix."""

    @abstractmethod
    def alphabet(self) -> Alphabet:
        """What a learner must know of the tokens; the same for every mix."""

    @property
    @abstractmethod
    def longest_text(self) -> int:
        """Tokens of the longest possible text, ``<eos>`` included."""

    @abstractmethod
    def stackable(self) -> Any:
        """What runs of one stack must share of the task, as a plain value: what decides its tokens."""

    @abstractmethod
    def with_examples(self, factor: float) -> Self:
        """The task with ``factor`` (positive) times the training examples."""

    @abstractmethod
    def make_dataset(self, mix: Mix, seed: int) -> Dataset:
        """What a run of this mix and data seed (>= 0) is trained and scored on: a pure function of the three.

        Raises ``SettingsError`` where these settings cannot give the data.
        """
