"""What the ListOps task family is asked to be: size of the numbers, shape of the expressions, what is held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from trainables.base import SettingsError
from trainables.described import described_fields
from trainables.listops.multisets import multiset_count, tuple_share
from trainables.listops.operations import OPERATIONS

LARGEST_MODULUS = 65_000
"""Token ids are stored in 16 bits; this leaves room for the tokens that are no numbers."""
MOST_ARGUMENTS = 32
LONGEST_TEXT_TOKENS = 8_192
"""Longer expressions than this no block of these models holds."""
FEWEST_HELD_OUT = 10
FEW_HELD_OUT = 40
"""Below the first the settings are refused, below the second the user is warned (SCIENCE.md, "Held-out tuples")."""
HELD_OUT_RANGE = (0.001, 0.5)
RAREST_TRAINED = 1e-2
RAREST_HELD_OUT = 1e-4
"""Smallest shares of random expressions that may end up in training and in the test set (see ``share_clean``)."""
TRAIN_EXAMPLES_PER_NUMBER = 5_000
"""The sibling code trains on 50 000 expressions at modulus 10 and scales them linearly."""


@dataclass(frozen=True)
class TaskSettings:
    """The task, whole: two equal objects and a seed give the same data.

    ``modulus``
        Numbers are 0..modulus-1 and every operation is taken modulo it.
    ``depth``
        Levels of operations: 1 is flat (``add(3,1,2)``), 2 lets an argument be a flat expression, and so on.
    ``max_arguments``
        An operation has 2..max_arguments arguments, each count equally likely.
    ``nesting``
        Probability in [0, 1] that an argument is itself an operation while depth is left.
    ``held_out_fraction``
        Share of all number tuples, ``tuple_count`` of them, that never stand side by side in training text.
    ``held_out``
        What a tuple is. ``ordered``: of modulus**max_arguments tuples some are held out, and permutations of them may
        be trained on (the paper). ``unordered``: of the multisets of max_arguments numbers some are held out, in every
        order. A flat test set asks each order; as cases they count once (``test_cases_*`` in a run's record).
    ``train_examples``
        Training expressions; None means 5000 times the modulus.
    ``validation_examples``, ``test_examples``
        Expressions for each operation where expressions nest. Flat expressions use every tuple of the split once (of a
        multiset every order), or about so many tuples where modulus**max_arguments is over a million.

    Raises :class:`SettingsError` with the key ``task.<field>``.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    modulus: int = 20
    depth: int = 2
    max_arguments: int = 3
    nesting: float = 0.25
    held_out_fraction: float = 0.05
    held_out: Literal["ordered", "unordered"] = "ordered"
    train_examples: int | None = None
    validation_examples: int = 500
    test_examples: int = 2000

    def __post_init__(self) -> None:
        _whole("modulus", self.modulus, 2, LARGEST_MODULUS)
        _whole("depth", self.depth, 1)
        _whole("max_arguments", self.max_arguments, 2, MOST_ARGUMENTS)
        _within("nesting", self.nesting, 0.0, 1.0)
        _within("held_out_fraction", self.held_out_fraction, *HELD_OUT_RANGE)
        if self.held_out not in ("ordered", "unordered"):
            raise SettingsError(
                f"task.held_out is {self.held_out!r}; it must be 'ordered' or 'unordered'",
                key="task.held_out",
                given=str(self.held_out),
                allowed=("ordered", "unordered"),
            )
        if self.train_examples is not None:
            _whole("train_examples", self.train_examples, 1)
        _whole("validation_examples", self.validation_examples, 1)
        _whole("test_examples", self.test_examples, 1)
        self._check_length()
        self._check_held_out()

    @property
    def levels(self) -> int:
        """Levels of operations that can occur: ``depth``, or 1 where nothing is ever nested."""
        return self.depth if self.nesting > 0 else 1

    @property
    def longest_expression(self) -> int:
        """Tokens of the longest possible text from prompt to ``<eos>``: 60 for depth 2 and 3 arguments.

        The largest tree has N = 1 + k + ... + k**(levels-1) operations. Reducing one replaces its k + 3 tokens (name,
        brackets, numbers) by 1, so the steps have 1 + (k + 2) j tokens for j = N..0, joined by N ``=``.
        """
        k = self.max_arguments
        operations: int = sum(k**level for level in range(self.levels))
        return (operations + 1) + (k + 2) * operations * (operations + 1) // 2 + operations + 1

    @property
    def tuple_count(self) -> int:
        """Tuples of max_arguments numbers there are; with ``unordered`` multisets, (n + k - 1 over k) of them."""
        if self.held_out == "unordered":
            return multiset_count(self.modulus, self.max_arguments)
        return int(self.modulus**self.max_arguments)

    @property
    def held_out_tuples(self) -> int:
        """Tuples held out (with ``unordered`` multisets), validation and test together."""
        return int(self.held_out_fraction * self.tuple_count + 1e-9)

    @property
    def training_examples(self) -> int:
        """``train_examples`` with its default resolved."""
        return TRAIN_EXAMPLES_PER_NUMBER * self.modulus if self.train_examples is None else self.train_examples

    def described(self) -> dict[str, Any]:
        """Everything that decides the data, for run keys. ``unordered`` once meant a share of the ordered tuples."""
        said = {"held_out": "multisets"} if self.held_out == "unordered" else {}
        return described_fields(self) | said

    def tuple_share(self, fraction: float) -> tuple[float, float]:
        """Least and most share of all ordered tuples that ``fraction`` of ``tuple_count`` are, whatever the seed.

        With ``unordered`` it depends on the seed: on average it is ``fraction``, and hardly ever outside these
        (multisets.py).
        """
        if self.held_out == "unordered":
            return tuple_share(self.modulus, self.max_arguments, fraction)
        return fraction, fraction

    def share_clean(self, fraction: float) -> float:
        """Share of random expressions that contain none of ``fraction`` of all ordered tuples, for uniform values.

        From the innermost level out: an operation is clean if each nested argument is, and its own argument list is
        no such tuple (only the longest lists can be).
        """
        k = self.max_arguments
        clean = 1.0
        for level in reversed(range(self.levels)):
            argument = 1.0 if level == self.levels - 1 else 1 - self.nesting + self.nesting * clean
            counts = [argument**count for count in range(2, k + 1)]
            clean = (sum(counts) - fraction * counts[-1]) / len(counts)
        return clean

    def _check_length(self) -> None:
        # A tree of depth 14 has at least 2**14 - 1 operations: refuse it before computing k**depth.
        if self.levels < 14 and self.longest_expression <= LONGEST_TEXT_TOKENS:
            return
        key = "task.depth" if self.levels > 1 else "task.max_arguments"
        raise SettingsError(
            f"task.depth {self.depth} with task.max_arguments {self.max_arguments} allows expressions of more than "
            f"{LONGEST_TEXT_TOKENS} tokens; lower one of them",
            key=key,
            given=str(self.depth if key == "task.depth" else self.max_arguments),
        )

    def _check_held_out(self) -> None:
        of = f"{self.modulus}^{self.max_arguments} tuples"
        if self.held_out == "unordered":
            of = f"{self.tuple_count} multisets of {self.max_arguments} numbers"
        described = f"task.held_out_fraction {self.held_out_fraction:g} of {of}"
        key, given = "task.held_out_fraction", f"{self.held_out_fraction:g}"
        if self.held_out_tuples < FEWEST_HELD_OUT:
            raise SettingsError(
                f"{described} is {self.held_out_tuples}; at least {FEWEST_HELD_OUT} are needed for an accuracy that "
                "means something: raise the fraction, task.modulus or task.max_arguments",
                key=key,
                given=given,
            )
        if self.share_clean(self.tuple_share(self.held_out_fraction)[1]) < RAREST_TRAINED:
            raise SettingsError(
                f"{described} leaves under {RAREST_TRAINED:.0%} of all expressions for training: lower the fraction, "
                "task.depth or task.nesting",
                key=key,
                given=given,
            )
        if 1 - self.share_clean(self.tuple_share(self.held_out_fraction / 2)[0]) < RAREST_HELD_OUT:
            raise SettingsError(
                f"{described} are met by fewer than 1 in {1 / RAREST_HELD_OUT:.0f} expressions: raise the fraction",
                key=key,
                given=given,
            )


def warnings(settings: TaskSettings) -> list[str]:
    """What the user should know about these settings before paying for them, a sentence each."""
    said = []
    count = settings.held_out_tuples
    if count < FEW_HELD_OUT:
        what, asked = "number tuples", ""
        if settings.held_out == "unordered":
            what = f"multisets of {settings.max_arguments} numbers"
            asked = "; orders of one are no cases of their own"
        said.append(
            f"only {count} {what} are held out ({count - count // 2} of them for the final score{asked}), so accuracy "
            f"rests on few cases and moves in steps of about {1 / (count - count // 2):.2g}; raise "
            "task.held_out_fraction for finer ones."
        )
    if settings.held_out == "ordered":
        blind = [operation.name for operation in OPERATIONS.values() if operation.commutative]
        said.append(
            "task.held_out is 'ordered': permutations of held-out tuples stay in the training data, a leak for "
            f"operations that ignore the order of their arguments ({', '.join(blind)}); 'unordered' closes it."
        )
    return said


def _whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Raise unless ``value`` is an int in [least, most]."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= least and (most is None or value <= most):
        return
    allowed = f"a whole number of at least {least}" + ("" if most is None else f" and at most {most}")
    raise SettingsError(f"task.{name} is {value!r}; it must be {allowed}", key=f"task.{name}", given=str(value))


def _within(name: str, value: object, least: float, most: float) -> None:
    """Raise unless ``value`` is a number in [least, most]."""
    if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
        return
    raise SettingsError(
        f"task.{name} is {value!r}; it must be a number from {least:g} to {most:g}",
        key=f"task.{name}",
        given=str(value),
    )
