"""Settings of training: optimizer, schedule and budget. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainables.contract.settings import ADDED_LATER, require

Precision = Literal["float32", "tf32", "bf16"]
Decay = Literal["matrices", "all"]

MOST_STEPS = 10**9
"""Maximum number of steps: twelve days for one run, at a millisecond per step."""
MOST_WINDOWS = 2**20
"""Maximum number of windows in a step."""
LARGEST_RATE = 1e30
"""Limit of learning rate and weight decay. Training diverges far below it, and float32 ends at 3.4e38."""
SOLVED = 0.99
"""Validation accuracy of every task of a solved run (``stop_when_solved``)."""
SOLVED_EVALUATIONS = 3
"""Number of consecutive evaluations at which a solved run has this accuracy."""
PROBATION = 10
"""One in this many given-up runs trains on, chosen by its key, to show how many would have learned late."""


@dataclass(frozen=True)
class SettleSettings:
    """When the outcome of a run counts as settled, so that it ends early: the definition of *learned* for these runs.

    A task's score is the share of the way from the best constant answer to a perfect validation accuracy. A task is
    learned at the first evaluation with a score of at least ``learned``. It is given up at the first evaluation after
    the share ``after`` of the steps if no score has reached ``hopeless``. A run ends once all its tasks are settled.

    Check on full runs of a recipe that it loses no learners: tests/bench/early_ends.py. It holds for flat sums, but not
    for nested ones, which some runs learn in the last quarter of the steps.
    """

    learned: float = 0.9
    """Score from which a task is learned."""
    hopeless: float = 0.4
    """Score that a task must have reached to be trained further."""
    after: float = 0.75
    """Share of the steps after which hopeless tasks are given up."""

    def __post_init__(self) -> None:
        for name, holds, rule in (
            ("learned", 0 < self.learned <= 1, "above 0 and at most 1"),
            ("hopeless", 0 <= self.hopeless < self.learned, f"at least 0 and below learned ({self.learned:g})"),
            ("after", 0 < self.after <= 1, "above 0 and at most 1"),
        ):
            require(holds, f"training.settle.{name}", getattr(self, name), rule)

    def text(self) -> str:
        """Return the rule in three sentences."""
        return (
            f"A run ends once all its tasks are settled: learned at {self.learned:.0%} of the way to a perfect "
            f"validation score, or given up after {self.after:.0%} of the steps if never above {self.hopeless:.0%}. "
            f"One in {PROBATION} given-up runs trains on."
        )


@dataclass(frozen=True)
class TrainingSettings:
    """AdamW with per-run gradient clipping on random windows of a token stream.

    Most defaults are from the code of the same group's sibling paper (github.com/bhoov/nrgpt): 64 windows a step from
    anywhere in the stream, learning rate 5e-4 decayed exponentially to 2e-5 without warm-up, gradient norm clipped at
    1, loss on all tokens, beta1 0.9, and 20,000 steps (its sweep uses 100,000). This project chose beta2 0.95 and
    weight decay 0.1 (as in GPT-3, Brown et al. 2020, appendix B), on matrices only; the sibling uses torch's 0.999 and
    0.01, on all parameters. The choice of arXiv 2505.18369 is not known. The recipe as published is the profile
    ``paper`` of search_spaces/add_vs_add_prod.yaml.
    """

    steps: int = 20_000
    """Maximum number of optimizer steps of a run."""
    batch: int = 64
    """Number of windows of ``model.block`` tokens in each step."""
    learning_rate: float = 5e-4
    """Learning rate after the warm-up, its largest value."""
    learning_rate_end: float = 2e-5
    """Learning rate that the schedule reaches after the last step, unless ``schedule`` is ``constant``."""
    schedule: Literal["cosine", "exponential", "constant"] = "exponential"
    """How the learning rate falls after the warm-up from ``learning_rate`` to ``learning_rate_end``. With ``constant``
    it stays the same."""
    warmup_steps: int = 0
    """Number of steps at the start during which the learning rate rises linearly from 0."""
    weight_decay: float = 0.1
    """Weight decay of the parameters that ``decay`` selects."""
    beta1: float = 0.9
    """AdamW's decay rate of the running mean of gradients."""
    beta2: float = 0.95
    """AdamW's decay rate of the running mean of squared gradients."""
    clip: float = 1.0
    """Maximum gradient norm; a larger gradient is scaled down to it. Each run of a stack is clipped separately."""
    loss: Literal["all", "answer"] = "all"
    """Tokens that count in the loss: ``all``, or only the ``answer``, which follows an expression's first '='."""
    windows: Literal["anywhere", "expression"] = "anywhere"
    """First token of a training window: ``anywhere`` in the stream, or the first of an ``expression``."""
    evaluate_every: int = 1_000
    """Steps between two points of the learning curve."""
    stop_when_solved: bool = False
    """End a run once every task of its mix has a validation accuracy of at least .99 at three evaluations in a row."""
    precision: Precision = "float32"
    """Precision of matrix products; weights and optimizer state are always float32. ``tf32`` needs a GPU."""
    decay: Decay = field(default="matrices", metadata=ADDED_LATER)
    """Parameters that weight decay shrinks: ``matrices`` and embeddings, or ``all`` parameters, including norm gains
    and biases, which is the default of torch.optim.AdamW."""

    settle: SettleSettings | None = field(default=None, metadata=ADDED_LATER)
    """Rule that ends a run early and defines which tasks it learned (:class:`SettleSettings`); none by default."""

    def __post_init__(self) -> None:
        rate = self.learning_rate
        falls = self.schedule == "constant" or self.learning_rate_end <= self.learning_rate
        for name, holds, rule in (
            ("steps", 1 <= self.steps <= MOST_STEPS, f"at least 1 and at most {MOST_STEPS}"),
            ("batch", 1 <= self.batch <= MOST_WINDOWS, f"at least 1 and at most {MOST_WINDOWS}"),
            ("evaluate_every", 1 <= self.evaluate_every <= MOST_STEPS, f"at least 1 and at most {MOST_STEPS}"),
            ("warmup_steps", 0 <= self.warmup_steps < self.steps, f"at least 0 and less than steps ({self.steps})"),
            ("learning_rate", 0 < rate <= LARGEST_RATE, f"above 0 and at most {LARGEST_RATE:g}"),
            ("learning_rate_end", self.learning_rate_end > 0, "positive"),
            ("learning_rate_end", falls, f"at most learning_rate ({rate:g}), from which it falls"),
            ("weight_decay", 0 <= self.weight_decay <= LARGEST_RATE, f"from 0 to {LARGEST_RATE:g}"),
            ("beta1", 0 <= self.beta1 < 1, "in [0, 1)"),
            ("beta2", 0 <= self.beta2 < 1, "in [0, 1)"),
            ("clip", self.clip > 0, "positive"),
        ):
            require(holds, f"training.{name}", getattr(self, name), rule)

    def learning_rates(self, first: int, last: int) -> NDArray[np.float64]:
        """Return the learning rate of steps ``first`` .. ``last - 1`` (from 0)."""
        step = np.arange(first, last, dtype=np.float64)
        warm = np.minimum(1.0, (step + 1) / (self.warmup_steps + 1))
        t = np.clip((step - self.warmup_steps) / max(1, self.steps - self.warmup_steps), 0.0, 1.0)
        start, end = self.learning_rate, self.learning_rate_end
        if self.schedule == "cosine":
            rate = end + (start - end) * 0.5 * (1 + np.cos(math.pi * t))
        elif self.schedule == "exponential":
            rate = start * (end / start) ** t
        else:
            rate = np.full_like(t, start)
        return np.asarray(warm * rate)
