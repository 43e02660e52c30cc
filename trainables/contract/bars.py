"""A bar for scores that are any number, such as a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainables.contract.words import Words


@dataclass(frozen=True)
class Bar:
    """A number that a run's score must reach for the task to count as learned: ``{at_least: 0.9}``, or
    ``{at_most: 1.2}`` for a loss.

    Evidence and curves of learning need shares from 0 to 1. With a bar, a share is 1 if the score reaches the bar and 0
    otherwise. The score itself is the measure ``score_TASK``.
    """

    limit: float
    is_upper: bool
    """True if lower scores are better."""

    @classmethod
    def of(cls, written: Any) -> Bar:
        """Read a bar. Raises ``ValueError``."""
        kinds = ("at_least", "at_most")
        if not isinstance(written, Mapping) or len(written) != 1 or next(iter(written)) not in kinds:
            raise ValueError(f"must be {{at_least: NUMBER}} or {{at_most: NUMBER}}; got {written!r}")
        [(kind, limit)] = written.items()
        if type(limit) not in (int, float) or not math.isfinite(limit):
            raise ValueError(f"{kind} must be a number; got {limit!r}")
        return cls(float(limit), kind == "at_most")

    def __str__(self) -> str:
        return f"{'at most' if self.is_upper else 'at least'} {self.limit:g}"

    def share(self, score: float) -> float:
        """Return 1 if a score reaches the bar, otherwise 0. NaN does not reach any bar."""
        return float(score <= self.limit if self.is_upper else score >= self.limit)

    def shares(self, scores: Mapping[str, float]) -> dict[str, float]:
        """Return the share of each score, by task."""
        return {task: self.share(score) for task, score in scores.items()}

    def words(self, words: Words) -> Words:
        """Return a family's words, with the words for scores replaced."""
        return replace(words, score="success", final_score=f"success (score {self})")

    @staticmethod
    def measures(scores: Mapping[str, float]) -> dict[str, float]:
        """Return the scores as measures of a run, by name."""
        return {f"score_{task}": score for task, score in scores.items()}
