"""Nested expressions as a task: their settings, and the parts that a family adds (values, operations, nouns).

A text such as ``add(3,max(1,4),2)=add(3,4,2)=9<eos>`` has one token for each item, answer, operation and sign.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from trainables.base import Mix, SettingsError
from trainables.contract.settings import ADDED_LATER, described_fields, require
from trainables.contract.tables import Function, Integers
from trainables.transformer.vocabulary import ExpressionVocabulary

DEEPEST_TREE = 64
"""Maximum of ``depth``."""
MOST_TUPLES = 2**22
"""Maximum number of tuples. All tuples are listed once to choose the held-out tuples. S5 has 1.7 million triples."""
MOST_ARGUMENTS = 22
"""Maximum of ``max_arguments``. With more arguments, even two values make more than :data:`MOST_TUPLES` tuples."""
MOST_EXAMPLES = 10**8
"""Maximum number of expressions, about two gigabytes of text."""
MOST_ASKED = 2**20
"""Number of tuples above which a test set is a random sample of the held-out tuples."""
FEWEST_HELD_OUT = 10
"""Number of held-out tuples below which settings are refused."""
FEW_HELD_OUT = 40
"""Number of held-out tuples below which there is a warning."""
HELD_OUT_RANGE = (0.001, 0.5)
"""Minimum and maximum of ``held_out_fraction``."""
RAREST_TRAINED = 1e-2
"""Smallest share of random expressions that must fit the training data."""
TRAIN_EXAMPLES_PER_VALUE = 5_000
"""The sibling code trains on 50,000 expressions at modulus 10 and scales them linearly."""


@dataclass(frozen=True)
class ExpressionTask(ABC):
    """Expressions of operations on ``value_count`` values. Equal settings, mixes and seeds give the same data.

    Raises:
        SettingsError: With the key ``task.<field>``.
    """

    kind: ClassVar[str]
    """Short name of the family, which starts the names of its datasets on disk."""
    generator_version: ClassVar[int] = 2
    """Raise it when the same settings, mix and seed give other data."""
    value_word: ClassVar[str]
    """Noun for a value: number, element."""
    values_setting: ClassVar[str]
    """Name in messages of the setting that decides the number of values: ``task.modulus``."""

    depth: int = 2
    """Levels of operations: 1 is flat (``add(3,1,2)``), 2 allows flat expressions as arguments, and so on."""
    max_arguments: int = 3
    """Maximum number of arguments of an operation. Every number from 2 to this maximum is equally likely."""
    nesting: float = 0.25
    """Probability in [0, 1] that an argument is an operation, if depth allows."""
    held_out_fraction: float = 0.05
    """Share of all tuples of max_arguments values that are never the arguments of an operation in training text."""
    held_out: Literal["ordered", "unordered"] = "ordered"
    """Kind of held-out tuples. ``ordered``: some of the value_count**max_arguments tuples; their permutations may be in
    training (the paper). ``unordered``: some multisets of max_arguments values, in every order. All orders of a
    multiset count as one case (``test_cases_*`` in a run's record)."""
    train_examples: int | None = None
    """Number of training expressions; None means 5000 times the number of values."""
    validation_examples: int = 500
    """Number of validation expressions for each operation if expressions nest. Flat expressions use every held-out
    tuple once, or a sample of this size if value_count**max_arguments is above a million."""
    test_examples: int = 2000
    """Number of test expressions for each operation, with the same rules as ``validation_examples``."""
    held_out_numbers: Literal["any", "distinct"] = field(default="any", metadata=ADDED_LATER)
    """Tuples that can be held out: ``any``, or only those of ``distinct`` values, as in the public code of the sibling
    paper (github.com/bhoov/nrgpt). The held-out share is of all tuples in both cases."""
    decoding: Literal["greedy", "sampled"] = field(default="greedy", metadata=ADDED_LATER)
    """How a model writes text when it is scored: ``greedy``, or ``sampled`` from its own distribution at temperature 1,
    as in the sibling's code. It changes scores but not data."""

    def __post_init__(self) -> None:
        self._require("depth", 1 <= self.depth <= DEEPEST_TREE, f"at least 1 and at most {DEEPEST_TREE}")
        rule = f"at least 2 and at most {MOST_ARGUMENTS}"
        self._require("max_arguments", 2 <= self.max_arguments <= MOST_ARGUMENTS, rule)
        self._require("nesting", 0 <= self.nesting <= 1, "from 0 to 1")
        least, most = HELD_OUT_RANGE
        self._require("held_out_fraction", least <= self.held_out_fraction <= most, f"from {least:g} to {most:g}")
        for name in ("train_examples", "validation_examples", "test_examples"):
            given = getattr(self, name)
            rule = f"at least 1 and at most {MOST_EXAMPLES}"
            self._require(name, given is None or 1 <= given <= MOST_EXAMPLES, rule)
        for name, message in self._mistakes():
            raise SettingsError(message, key=f"task.{name}", given=str(getattr(self, name)))

    def _require(self, name: str, holds: bool, rule: str) -> None:
        require(holds, f"task.{name}", getattr(self, name), rule)

    @property
    @abstractmethod
    def value_count(self) -> int:
        """Number of values of an argument, which are 0..value_count-1, for numbers and for elements of a group."""

    @property
    def levels(self) -> int:
        """Levels of operations that can occur: ``depth``, or 1 if nothing nests."""
        return self.depth if self.nesting > 0 else 1

    @property
    def longest_text(self) -> int:
        """Tokens of the longest possible text from prompt to ``<eos>``: 60 for depth 2 and 3 arguments."""
        k = self.max_arguments
        operations: int = sum(k**level for level in range(self.levels))
        # Reducing an operation replaces its k + 3 tokens (name, brackets, k values) by one, so the steps have
        # 1 + (k + 2) j tokens for j = operations..0, joined by ``=``.
        return operations + 1 + (k + 2) * operations * (operations + 1) // 2 + operations + 1

    @property
    def tuple_count(self) -> int:
        """Number of tuples of max_arguments values. With ``unordered``, the number of multisets: C(n + k - 1, k)."""
        if self.held_out == "unordered":
            return math.comb(self.value_count + self.max_arguments - 1, self.max_arguments)
        return int(self.value_count**self.max_arguments)

    @property
    def held_out_tuples(self) -> int:
        """Number of held-out tuples (with ``unordered``, multisets), validation and test together."""
        return int(self.held_out_fraction * self.tuple_count + 1e-9)

    @property
    def training_examples(self) -> int:
        """``train_examples`` with its default resolved."""
        return TRAIN_EXAMPLES_PER_VALUE * self.value_count if self.train_examples is None else self.train_examples

    def described(self) -> dict[str, Any]:
        """Return everything that decides the data, for run keys."""
        # In earlier versions ``unordered`` meant a share of ordered tuples, and a hash chose among many tuples.
        marks = {"held_out": "multisets"} if self.held_out == "unordered" else {}
        marks |= {"tuples": "listed"} if self.value_count**self.max_arguments > MOST_ASKED else {}
        return described_fields(self) | marks

    @property
    def share_trained(self) -> float:
        """Share of random expressions without a held-out tuple, the mean over seeds. Only these can be training
        data."""
        share = 1.0
        inner = 1.0
        for _ in range(self.levels):  # From the innermost level out; only lists of max_arguments can be held out.
            counts = [inner**count for count in range(2, self.max_arguments + 1)]
            share = (sum(counts) - self.held_out_fraction * counts[-1]) / len(counts)
            inner = 1 - self.nesting + self.nesting * share
        return share

    def _mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield the settings that do not fit the others, and why."""
        # The first rule bounds the numbers that the next rules compute.
        k = self.max_arguments
        count = self.value_count
        words = f"{self.value_word}s"
        unordered = self.held_out == "unordered"
        if count**k > MOST_TUPLES:
            lower = f"lower task.max_arguments or {self.values_setting}"
            yield "max_arguments", f"{k} arguments out of {count} {words} make more than {MOST_TUPLES} tuples; {lower}"
        of = f"{self.tuple_count} multisets of {k} {words}" if unordered else f"{count}^{k} tuples"
        held = f"task.held_out_fraction {self.held_out_fraction:g} of {of}"
        number = self.held_out_tuples
        if number < FEWEST_HELD_OUT:
            wrong = f"is {number}; a meaningful accuracy needs at least {FEWEST_HELD_OUT}: raise the fraction, "
            yield "held_out_fraction", f"{held} {wrong}{self.values_setting} or task.max_arguments"
        distinct = (math.comb if unordered else math.perm)(count, k)
        if self.held_out_numbers == "distinct" and number > distinct:
            wrong = f"is {number}, but only {distinct} have {k} different {words}"
            other = f"lower the fraction, raise {self.values_setting} or set task.held_out_numbers=any"
            yield "held_out_fraction", f"{held} {wrong}: {other}"
        if self.share_trained < RAREST_TRAINED:
            wrong = f"leaves under {RAREST_TRAINED:.0%} of all expressions for training"
            yield "held_out_fraction", f"{held} {wrong}: lower the fraction, task.depth or task.nesting"

    @abstractmethod
    def tasks(self) -> tuple[str, ...]:
        """Return the names of the operations that a mix may contain."""

    @abstractmethod
    def vocabulary(self) -> ExpressionVocabulary:
        """Return the tokens of the texts, the same for every mix."""

    @abstractmethod
    def function(self, operation: str, seed: int) -> Function:
        """Return the function of an operation. Random tables depend on the seed. Raises ``KeyError`` if unknown."""

    def commutes(self) -> bool:
        """Return True if the value of some operation does not depend on the order of its arguments."""
        return True

    def tables(self, tasks: Sequence[str], seed: int) -> dict[str, Integers]:
        """Return the values of each operation for every ordered tuple of min(max_arguments, 3) values."""
        tuples = np.moveaxis(np.indices((self.value_count,) * min(self.max_arguments, 3)), 0, -1)
        return {task: self.function(task, seed)(tuples) for task in tasks}

    def gives_values(self, operation: str) -> bool:
        """Return True if the result of an operation is a value, so that it can be an argument of another operation."""
        return True

    def check_mix(self, mix: Mix) -> None:
        """Raise :class:`SettingsError` (key ``mixes``) for a task that does not exist or cannot be trained."""
        for task in mix.tasks:
            if task not in self.tasks():
                raise SettingsError(f"there is no operation {task!r}", key="mixes", given=task, allowed=self.tasks())

    def stackable(self) -> Any:
        """Return a plain value that runs of one stack share: everything that decides the tokens and the scoring."""
        return self.value_count if self.decoding == "greedy" else [self.value_count, self.decoding]

    def with_examples(self, factor: float) -> Self:
        """Return the task with ``factor`` (positive) times the training examples."""
        examples = max(1, round(self.training_examples * factor))
        return self if factor == 1 else replace(self, train_examples=examples)

    def warnings(self) -> list[str]:
        """Return caveats about results with these settings."""
        unordered = self.held_out == "unordered"
        word = self.value_word
        scored = math.ceil(self.held_out_tuples / 2)
        kind = f"multisets of {self.max_arguments} {word}s" if unordered else f"{word} tuples"
        few = (
            f"This sweep tests only {scored} {kind}, so accuracy moves in steps of {1 / scored:.2g}. "
            "Raise settings.task.held_out_fraction to test more."
        )
        leak = (
            "Some test examples may be training examples with their arguments in another order. "
            "Set settings.task.held_out=unordered to exclude that."
        )
        applies = {few: self.held_out_tuples < FEW_HELD_OUT, leak: not unordered and self.commutes()}
        return [warning for warning, holds in applies.items() if holds]
