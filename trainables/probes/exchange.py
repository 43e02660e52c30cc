"""A probe of computation with groups: it makes one argument look like an item of another group."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from trainables.base import Family, RunConfig
from trainables.contract.tables import Function, Integers, group_of, respects
from trainables.probes.base import Probed
from trainables.probes.nulls import other_groupings, p_value
from trainables.probes.transformer_probe import QUESTIONS, LastSteps, TransformerProbe, answers, group_means, last_steps
from trainables.transformer.datasets import Dataset
from trainables.transformer.generation import TrainedTransformer

Floats = NDArray[np.float64]

FEWEST_EXCHANGES = 20
"""Minimum number of exchanges to report on. A share of twenty has a standard error of up to .11."""
OTHERS = 9
"""Maximum number of other groupings to compare a grouping with."""


class Exchange(TransformerProbe):
    """Does a model compute with the groups of its arguments? The probe tests every grouping of the items that the
    family knows (parity is ``mod2``) on every task of the mix that respects it. A task respects a grouping if the
    group of its result is a function of the groups of its arguments (contract/tables.py): ADD respects parity, MAX
    does not.

    The probe takes the last step of a held-out expression, given the right earlier steps. It moves one argument from
    its group g to another group h that changes the result's group. To do so, it adds mean(h) - mean(g), the difference
    of the groups' mean embeddings, to the argument's embedding at its own position. A model that computes with groups
    should then answer in the group that the result would have with an argument from h. There are at least 20 and at
    most 300 such exchanges, from up to 300 different expressions whose answer was in the right group.

    * ``TASK.moved_GROUPING``: the share of exchanges after which the answer is in the predicted group, in [0, 1].
    * ``TASK.others_GROUPING``: the same share after exchanges by another grouping into groups of the same sizes,
      averaged over up to 9 such groupings. If it is high, the answer follows this grouping after any exchange.
    * ``TASK.moved_GROUPING.p``: the share of all these groupings, including this grouping, that move as many answers:
      the p-value of a permutation test. It is at least .1 for parity modulo 6.
    * ``TASK.kept_GROUPING``: the share of exchanges after which the answer stays in its group in every other grouping
      that the task respects and that is independent of this grouping: all pairs of groups have equally many items in
      common, as for ``mod3`` and ``mod2`` of 6. Omitted if no such grouping exists.
    * ``TASK.only_GROUPING``: the share of exchanges after which the answer moved as predicted and ``kept`` holds.

    How to read it: ``only`` near 1 with ``others`` near 0 shows that the model computes with this component, in these
    directions. ``moved`` near 0 shows that the model does not read the group there: it memorized, separates the groups
    by more than their means, or read the argument in earlier steps. ``moved`` well above ``others`` with a low ``kept``
    shows a side effect of the shift: on a ring of numbers, a step to the next number also changes parity. If ``moved``
    is near 1 / groups and ``others`` is as high, any shift breaks the model. With two items in a group (parity modulo
    4), even a model that memorized its answers may follow, and ``others`` does not expose this.

    One run decides nothing, because its exchanges use few held-out tuples. Over the runs of a sweep, `expects`
    (``finds: higher``, ``number: exchange/add.only_mod2``, ``than: exchange/add.others_mod2``) answers yes, no or
    undecided with an interval. For interventions of this kind see Geiger et al. 2021 (interchange), arXiv 2106.02997.
    """

    name = "exchange"
    version = 2

    def measure(self, family: Family, run: RunConfig, model: TrainedTransformer, data: Dataset) -> Probed:
        groupings = {name: np.array(labels) for name, labels in family.groupings().items()}
        rng = np.random.default_rng(run.seed)
        numbers: dict[str, float] = {}
        for task, questions in (last_steps(run, data) if groupings else {}).items():
            table = run.settings.task.tables([task], run.seed)[task]
            items = len(table)
            codes = max(len(table), int(table.max()) + 1)
            known = {name: labels for name, labels in groupings.items() if respects(table, labels, items)}
            before = answers(model, questions, codes)
            for name, labels in known.items():
                exchanges = drawn(questions, before, labels, run.settings.task.function(task, run.seed), rng)
                if len(exchanges.rows) < FEWEST_EXCHANGES:
                    continue
                after, *others = (
                    answers_after(model, questions, exchanges, codes, shifts(model, questions, exchanges, along))
                    for along in (labels, *other_groupings(labels, rng, OTHERS))
                )
                effects = {"moved": group_of(after, labels, items) == exchanges.predicted}
                if others:
                    null = [float((group_of(other, labels, items) == exchanges.predicted).mean()) for other in others]
                    numbers[f"{task}.others_{name}"] = float(np.mean(null))
                    numbers[f"{task}.moved_{name}.p"] = p_value(float(effects["moved"].mean()), null)
                own = before[exchanges.rows]
                if apart := [other for other in known.values() if independent(other, labels)]:
                    same = [group_of(after, other, items) == group_of(own, other, items) for other in apart]
                    effects["kept"] = np.all(same, axis=0)
                    effects["only"] = effects["moved"] & effects["kept"]
                numbers |= {f"{task}.{number}_{name}": float(effect.mean()) for number, effect in effects.items()}
        return Probed(numbers)


class Exchanges(NamedTuple):
    """M exchanges: in the question ``rows``, the argument at the position ``places`` moves by ``steps`` in the sorted
    list of groups. The answer should then be in the group ``predicted``. All are [M]."""

    rows: Integers
    places: Integers
    steps: Integers
    predicted: Integers


def drawn(
    questions: LastSteps, before: Integers, labels: Integers, function: Function, rng: np.random.Generator
) -> Exchanges:
    """Return up to 300 exchanges in the questions whose answer ``before`` [M] is in the right group.

    There are none if the task, with the number of arguments of a question, does not respect the groups.
    """
    right = group_of(questions.answers, labels, len(labels))
    groups, first = np.unique(labels, return_index=True)
    exchanges: list[Integers] = []
    for row in np.flatnonzero(group_of(before, labels, len(labels)) == right):
        places = questions.places[row]
        arguments = questions.tokens[row].numpy()[places]
        group = np.searchsorted(groups, labels[arguments])
        argument = np.arange(len(places))
        exchanged = np.tile(arguments, (len(places), len(groups), 1))
        exchanged[argument, :, argument] = first
        predicted = group_of(function(exchanged), labels, len(labels))
        if (predicted[argument, group] != right[row]).any():
            return Exchanges(*np.empty((4, 0), np.int64))
        for place, own, results in zip(places, group, predicted, strict=True):
            if len(others := np.flatnonzero(results != right[row])):
                given = rng.choice(others)
                exchanges.append(np.array([row, place, given - own, results[given]]))
    chosen = rng.permutation(len(exchanges))[:QUESTIONS]
    return Exchanges(*np.array(exchanges, np.int64).reshape(-1, 4)[chosen].T)


def shifts(model: TrainedTransformer, questions: LastSteps, exchanges: Exchanges, along: Integers) -> Floats:
    """Return the shifts of the arguments' embeddings [M, C] by the groups' means of the grouping ``along`` [n].

    For the grouping of the exchanges these are mean(given) - mean(own). In another grouping, each argument moves from
    its own group by as many groups, around the list of groups.
    """
    groups, means = group_means(model.parameters["token"][: len(along)].double().numpy(), along)
    of = np.searchsorted(groups, along[questions.tokens.numpy()[exchanges.rows, exchanges.places]])
    shift_MC: Floats = means[(of + exchanges.steps) % len(groups)] - means[of]
    return shift_MC


def answers_after(
    model: TrainedTransformer, questions: LastSteps, exchanges: Exchanges, codes: int, shift_MC: Floats
) -> Integers:
    """Return the answers [M] with a shift added to each exchange's argument, at its own position."""
    p = model.parameters
    row = torch.arange(len(exchanges.rows))
    at = torch.from_numpy(questions.equals[exchanges.rows])
    places = torch.from_numpy(exchanges.places)
    tokens_MT = questions.tokens[torch.from_numpy(exchanges.rows), : int(at.max()) + 1]
    shifted_MC = p["token"][tokens_MT[row, places]] + torch.from_numpy(shift_MC).float()
    # Each shifted argument becomes a new token after the vocabulary.
    tokens_MT[row, places] = len(p["token"]) + row
    changed = {"token": torch.cat([p["token"], shifted_MC])}
    if model.settings.tied and "head_bias" in p:  # A tied head also has a column for each new token.
        changed["head_bias"] = torch.cat([p["head_bias"], torch.zeros(len(row))])
    logits_MTV = model.logits(tokens_MT, None, **changed)
    chosen: Integers = logits_MTV[row, at, :codes].argmax(dim=-1).numpy()
    return chosen


def independent(one: Integers, other: Integers) -> bool:
    """Return True if every group of ``one`` [n] has equally many items in common with each group of ``other`` [n]."""
    pairs = np.stack([one, other])
    counts = np.unique(pairs, axis=1, return_counts=True)[1]
    return len(counts) == len(np.unique(one)) * len(np.unique(other)) and bool((counts == counts[0]).all())
