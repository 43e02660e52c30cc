"""A probe of a model's answers: which groupings wrong answers keep."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trainables.base import Family, RunConfig
from trainables.contract.tables import Integers
from trainables.probes.base import Probed
from trainables.probes.nulls import other_groupings, p_value
from trainables.probes.transformer_probe import TransformerProbe, answers, last_steps
from trainables.transformer.datasets import Dataset
from trainables.transformer.generation import TrainedTransformer

FEWEST_MISTAKES = 20
"""Minimum number of wrong answers to report on. A share of twenty has a standard error of .11."""


class Mistakes(TransformerProbe):
    """Which groupings of the items a model's wrong answers preserve. The probe uses the last steps of up to 300
    different held-out expressions of every task, given the right earlier steps. The model's answer is its most likely
    value after the last '='. ``TASK.right`` is the share of right answers, in [0, 1].

    Three numbers for every grouping of the items that the family knows (parity is ``mod2``), if at least 20 answers are
    wrong. A model that computes parity and fails elsewhere keeps parity in its mistakes; a model that guesses or
    memorizes does not.

    * ``TASK.GROUPING``: the share of wrong answers in the right answer's group.
    * ``TASK.GROUPING.chance``: the same share if each wrong answer were drawn from the wrong answers to all questions,
      except its own question's right answer.
    * ``TASK.GROUPING.p``: the share of groupings into groups of the same sizes (all, or this grouping and 19 others)
      whose wrong answers exceed chance by as much: the p-value of a permutation test, at least .1 for parity modulo 6.
    """

    name = "mistakes"
    version = 2

    def measure(self, family: Family, run: RunConfig, model: TrainedTransformer, data: Dataset) -> Probed:
        items = run.settings.task.vocabulary().items
        groupings = {name: np.array(labels) for name, labels in family.groupings().items()}
        numbers: dict[str, float] = {}
        for task, questions in last_steps(run, data).items():
            if questions.answers.max() >= items:
                continue  # This task's results are signs or points rather than items.
            given = answers(model, questions, items)
            numbers[f"{task}.right"] = float((given == questions.answers).mean())
            numbers |= {f"{task}.{name}": value for name, value in kept(given, questions.answers, groupings).items()}
        return Probed(numbers)


def kept(given: Integers, right: Integers, groupings: Mapping[str, Integers]) -> dict[str, float]:
    """Return the share of wrong answers [M] in the right answer's group, its ``.chance`` and ``.p``, by grouping.

    Return nothing if fewer than :data:`FEWEST_MISTAKES` answers are wrong.
    """
    wrong = given != right
    if wrong.sum() < FEWEST_MISTAKES:
        return {}
    given = given[wrong]
    right = right[wrong]
    numbers: dict[str, float] = {}
    rng = np.random.default_rng(0)
    for name, labels in groupings.items():
        share, chance = _kept(given, right, labels)
        numbers |= {name: share, f"{name}.chance": chance}
        if others := [_kept(given, right, other) for other in other_groupings(labels, rng)]:
            numbers[f"{name}.p"] = p_value(share - chance, [other - by_chance for other, by_chance in others])
    return numbers


def _kept(given: Integers, right: Integers, labels: Integers) -> tuple[float, float]:
    """Return the share of wrong answers in the right answer's group, and the share expected by chance."""
    shares = np.bincount(given, minlength=len(labels)) / len(given)
    in_group = np.array([shares[labels == label].sum() for label in labels])
    other = 1 - shares[right]
    possible = other > 0
    chance = (in_group[right] - shares[right])[possible] / other[possible]
    return float((labels[given] == labels[right]).mean()), float(chance.mean()) if possible.any() else 0.0
