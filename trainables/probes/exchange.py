"""Computation with the groups of arguments: one argument is made to read as an item of another group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from trainables.base import Family, RunConfig
from trainables.contract.tables import Integers, group_of, respects
from trainables.probes.base import Probed
from trainables.probes.nulls import other_groupings, p_value
from trainables.probes.transformer_probe import ASKED, LastSteps, TransformerProbe, answers, last_steps, traced
from trainables.tasks.datasets import Dataset
from trainables.tasks.functions import Function
from trainables.transformer.generation import TrainedTransformer

Floats = NDArray[np.float64]

FEWEST = 20
"""Exchanges below which nothing is said: a share of so many deviates by up to .11."""
OTHERS = 9
"""Other groupings that a grouping is compared with, at most."""


class Exchange(TransformerProbe):
    """For every grouping of the items that the family knows (parity is ``mod2``) and every task of the mix that
    respects it: the group of what the task makes of items is a function of their groups alone (contract/tables.py;
    so it is for ADD and parity, not for MAX). Does the model compute it from the groups?

    In the last step of a held-out expression, given the right steps before, one argument of a group g is given the
    component of another group h: mean(h) - mean(g), the groups' mean embeddings, is added to its embedding, at its
    place alone. What tells it from others of its group stays. A model that works with groups then answers in the group
    that the task makes of the arguments with any item of h in this one's place; h is drawn among the groups for which
    this is another than before. Asked are at most 300 such exchanges, drawn from all arguments of up to 300 different
    expressions, and at least 20. Only expressions count whose answer lies in the right group as they are, so that
    ``moved`` would be 0 without a shift.

    * ``TASK.moved_GROUPING``: the share of exchanges after which the answer lies in the group foretold, in [0, 1].
    * ``TASK.others_GROUPING``: the same share after exchanges by other groupings into groups of the same sizes, the
      mean over up to 9: each argument is given the component of another of *its* groups there, a difference of means
      as this one's is. Does the answer follow this grouping whatever is exchanged?
    * ``TASK.moved_GROUPING.p``: the share of all these groupings, this one counted in, by which as many answers move: a
      permutation test. At least .1 for parity modulo 6.
    * ``TASK.kept_GROUPING``: the share of exchanges after which the answer lies where it lay before in every other
      grouping that the task respects and that is independent of this one (all pairs of groups have equally many items
      in common, as of ``mod3`` and ``mod2`` for 6), in [0, 1]; left out where there is no such grouping.
    * ``TASK.only_GROUPING``: the share of exchanges after which both hold: the answer has moved as foretold, and in
      nothing else. Left out with ``kept``.

    The array ``exchanged`` [n, n], float64, holds for the first task and grouping asked, where answers are items, the
    shares of the answers after an exchange (columns) by the answer before (rows; zeros where there was none).

    How to read it: ``only`` near 1 with ``others`` near 0 says that the model computes with this component and that it
    stands in these directions. ``moved`` near 0 says that it does not read it there: it has learned by heart, or tells
    the groups apart by more than their means, or has read the argument elsewhere, in the earlier steps of a nested
    expression. ``moved`` well above ``others`` with a low ``kept`` says that the shift does something else besides: on
    a ring of numbers a step to the next one changes parity, too. ``moved`` near 1 / groups with ``others`` as high says
    nothing: any shift breaks the model. The fewer items a group has, the more of one item its mean is: with two in each
    (parity modulo 4) even a model that knows its answers by heart may follow, and ``others`` does not show it.

    One run is no verdict: its exchanges rest on few held-out tuples. Over the runs of a sweep `expects` (``finds:
    higher``, ``number: exchange/add.only_mod2``, ``than: exchange/add.others_mod2``) gives yes, no or undecided with
    an interval. Interventions of this kind: Geiger et al. 2021 (interchange), arXiv 2106.02997.
    """

    name: ClassVar[str] = "exchange"
    version: ClassVar[int] = 2

    def ask(self, family: Family, run: RunConfig, model: TrainedTransformer, data: Dataset) -> Probed:
        groupings = {name: np.array(labels) for name, labels in family.groupings().items()}
        rng = np.random.default_rng(run.seed)
        numbers: dict[str, float] = {}
        found: dict[str, NDArray[Any]] = {}
        for task, questions in (last_steps(run, data) if groupings else {}).items():
            table = run.settings.task.tables([task], run.seed)[task]
            items, codes = len(table), max(len(table), int(table.max()) + 1)
            known = {name: labels for name, labels in groupings.items() if respects(table, labels, items)}
            before = answers(model, questions, codes)
            for name, labels in known.items():
                asked = drawn(questions, before, labels, run.settings.task.function(task, run.seed), rng)
                if len(asked.rows) < FEWEST:
                    continue
                ask = partial(answers_after, model, questions, asked, codes)
                after = ask(shifts(model, questions, asked, labels, labels))
                seen = {"moved": _moved(after, asked, labels)}
                null = [
                    float(_moved(ask(shifts(model, questions, asked, labels, other)), asked, labels).mean())
                    for other in other_groupings(labels, rng, OTHERS)
                ]
                if null:
                    numbers[f"{task}.others_{name}"] = float(np.mean(null))
                    numbers[f"{task}.moved_{name}.p"] = p_value(float(seen["moved"].mean()), null)
                if apart := [each for each in known.values() if independent(each, labels)]:
                    seen["kept"] = _kept(after, before[asked.rows], apart)
                    seen["only"] = seen["moved"] & seen["kept"]
                numbers |= {f"{task}.{number}_{name}": float(each.mean()) for number, each in seen.items()}
                if codes == items:
                    found.setdefault("exchanged", _shares(before[asked.rows], after, items))
        return Probed(numbers, found)


@dataclass(frozen=True)
class Exchanges:
    """M exchanges: in the question ``rows`` [M] the argument at ``places`` [M], of the group ``own`` [M], is given the
    component of the group ``given`` [M]; the answer's group is then ``foretold`` [M]."""

    rows: Integers
    places: Integers
    own: Integers
    given: Integers
    foretold: Integers


def drawn(
    questions: LastSteps, before: Integers, labels: Integers, function: Function, rng: np.random.Generator
) -> Exchanges:
    """Up to 300 exchanges in the questions whose answer ``before`` [M] lies in the right group; none where the task, of
    as many arguments as there are, does not respect the groups."""
    right = group_of(questions.answers, labels, len(labels))
    groups, first = np.unique(labels, return_index=True)
    found: list[Integers] = []
    for row in np.flatnonzero(group_of(before, labels, len(labels)) == right):
        places = questions.places[row]
        arguments = questions.tokens[row].numpy()[places]
        own, each = np.searchsorted(groups, labels[arguments]), np.arange(len(places))
        exchanged = np.tile(arguments, (len(places), len(groups), 1))
        exchanged[each, :, each] = first
        foretold = group_of(function(exchanged), labels, len(labels))
        if (foretold[each, own] != right[row]).any():
            return Exchanges(*np.empty((5, 0), np.int64))
        for place, mine, theirs in zip(places, own, foretold, strict=True):
            if len(others := np.flatnonzero(theirs != right[row])):
                given = rng.choice(others)
                found.append(np.array([row, place, groups[mine], groups[given], theirs[given]]))
    chosen = rng.permutation(len(found))[:ASKED]
    return Exchanges(*np.array(found, np.int64).reshape(-1, 5)[chosen].T)


def shifts(
    model: TrainedTransformer, questions: LastSteps, asked: Exchanges, labels: Integers, along: Integers
) -> Floats:
    """The shifts of the arguments' embeddings [M, C] by the groups' means of the grouping ``along`` [n].

    With ``labels`` itself these are mean(given) - mean(own). In another grouping of as many groups, each argument moves
    from its own group there by as many groups as in ``labels``, around the list of them.
    """
    embedding = model.parameters["token"][: len(along)].double().numpy()
    groups = np.unique(along)
    means = np.stack([embedding[along == group].mean(axis=0) for group in groups])
    known = np.unique(labels)
    steps = np.searchsorted(known, asked.given) - np.searchsorted(known, asked.own)
    items = questions.tokens.numpy()[asked.rows, asked.places]
    of = np.searchsorted(groups, along[items])
    shift_MC: Floats = means[(of + steps) % len(groups)] - means[of]
    return shift_MC


def answers_after(
    model: TrainedTransformer, questions: LastSteps, asked: Exchanges, codes: int, shift_MC: Floats
) -> Integers:
    """The same [M] where to each exchange's argument, at its place alone, a shift is added."""
    p, each = model.parameters, torch.arange(len(asked.rows))
    at, places = torch.from_numpy(questions.equals[asked.rows]), torch.from_numpy(asked.places)
    tokens_MT = questions.tokens[torch.from_numpy(asked.rows), : int(at.max()) + 1]
    shifted_MC = p["token"][tokens_MT[each, places]] + torch.from_numpy(shift_MC).float()
    # A token of its own for each shifted argument, below those of the vocabulary. The head stays as it is.
    tokens_MT[each, places] = len(p["token"]) + each
    table, head = torch.cat([p["token"], shifted_MC]), p["token"].T if model.settings.tied else p["head"]
    with torch.no_grad():
        logits_MTV = traced(replace(model.settings, tied=False), {**p, "token": table, "head": head}, tokens_MT)
    found: Integers = logits_MTV[each, at, :codes].argmax(dim=-1).numpy()
    return found


def independent(one: Integers, other: Integers) -> bool:
    """True if every group of ``one`` [n] has as many items in common with each group of ``other`` [n]."""
    pairs = np.stack([one, other])
    counts = np.unique(pairs, axis=1, return_counts=True)[1]
    return len(counts) == len(np.unique(one)) * len(np.unique(other)) and bool((counts == counts[0]).all())


def _moved(after: Integers, asked: Exchanges, labels: Integers) -> NDArray[np.bool_]:
    """True for each answer [M] in the group foretold."""
    found: NDArray[np.bool_] = group_of(after, labels, len(labels)) == asked.foretold
    return found


def _kept(after: Integers, before: Integers, groupings: list[Integers]) -> NDArray[np.bool_]:
    """True for each answer [M] in the group of the one before, in all of these groupings."""
    same = [group_of(after, labels, len(labels)) == group_of(before, labels, len(labels)) for labels in groupings]
    found: NDArray[np.bool_] = np.all(same, axis=0)
    return found


def _shares(before: Integers, after: Integers, items: int) -> Floats:
    counts = np.zeros((items, items))
    np.add.at(counts, (before, after), 1)
    shares: Floats = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return shares
