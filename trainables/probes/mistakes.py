"""Answers of a model, right or wrong: their spread, and the groupings that wrong ones keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from trainables.base import Family, RunConfig
from trainables.contract.tables import Integers, entropy
from trainables.probes.base import Probed
from trainables.probes.nulls import other_groupings, p_value
from trainables.probes.transformer_probe import TransformerProbe, answers, last_steps
from trainables.tasks.datasets import Dataset
from trainables.transformer.generation import TrainedTransformer

FEWEST = 20
"""Wrong answers below which nothing is said of them: a share of so many deviates by .11."""


class Mistakes(TransformerProbe):
    """On the last steps of up to 300 different held-out expressions of every task, given the right steps before; the
    model's answer is its most likely value after the last '='.

    * ``TASK.right``: the share of right answers, in [0, 1].
    * ``TASK.entropy``: the entropy of its answers in that of the right ones, above 0; near 0 where it says the same to
      all questions, 1 where its answers are as spread as they should be.
    * for every grouping of the items that the family knows (parity is ``mod2``), among at least 20 wrong answers:
      ``TASK.GROUPING`` is the share that lies in the right answer's group, ``TASK.GROUPING.chance`` what that share
      would be if each wrong answer were drawn from the wrong answers to other questions, without the right one. A model
      that works with parity, and fails elsewhere, keeps parity in its mistakes; one that guesses or memorises does not.
      ``TASK.GROUPING.p`` is the share of groupings into groups of the same sizes (all, or this one and 19), in which
      wrong answers exceed chance by as much: a permutation test, at least .1 for parity modulo 6.

    The array ``answers`` [tasks, n], float64, is the share of each item among the answers, tasks in the order of the
    mix.
    """

    name: ClassVar[str] = "mistakes"
    version: ClassVar[int] = 2

    def ask(self, family: Family, run: RunConfig, model: TrainedTransformer, data: Dataset) -> Probed:
        items = run.settings.task.vocabulary().items
        groupings = {name: np.array(labels) for name, labels in family.groupings().items()}
        numbers: dict[str, float] = {}
        shares = []
        for task, questions in last_steps(run, data).items():
            if questions.answers.max() >= items:
                continue  # What comes of it is no item, but a sign or a point.
            given = answers(model, questions, items)
            numbers[f"{task}.right"] = float((given == questions.answers).mean())
            if (spread := entropy(questions.answers)) > 0:
                numbers[f"{task}.entropy"] = entropy(given) / spread
            shares.append(np.bincount(given, minlength=items) / len(given))
            numbers |= {f"{task}.{name}": value for name, value in kept(given, questions.answers, groupings).items()}
        return Probed(numbers, {"answers": np.array(shares)} if shares else {})


def kept(given: Integers, right: Integers, groupings: Mapping[str, Integers]) -> dict[str, float]:
    """For each grouping (a label an item) the share of wrong answers [M] in the right one's group, its ``.chance`` if
    they were drawn from all wrong ones without the right one, and its ``.p``; empty for few wrong answers."""
    wrong = given != right
    if wrong.sum() < FEWEST:
        return {}
    given, right = given[wrong], right[wrong]
    found: dict[str, float] = {}
    rng = np.random.default_rng(0)
    for name, labels in groupings.items():
        share, chance = _kept(given, right, labels)
        found |= {name: share, f"{name}.chance": chance}
        if others := [_kept(given, right, other) for other in other_groupings(labels, rng)]:
            found[f"{name}.p"] = p_value(share - chance, [theirs - by_chance for theirs, by_chance in others])
    return found


def _kept(given: Integers, right: Integers, labels: Integers) -> tuple[float, float]:
    """The share of wrong answers in the right one's group, and what it would be by chance."""
    shares = np.bincount(given, minlength=len(labels)) / len(given)
    in_group = np.array([shares[labels == label].sum() for label in labels])
    other = 1 - shares[right]
    possible = other > 0
    chance = (in_group[right] - shares[right])[possible] / other[possible]
    return float((labels[given] == labels[right]).mean()), float(chance.mean()) if possible.any() else 0.0
