"""What the residual stream carries where the answer is said, application by application: linear probes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.base import Family, RunConfig
from trainables.loaded import TrainedTransformer
from trainables.probes.asking import transformer_of
from trainables.probes.base import Probe, Probed
from trainables.probes.last_steps import LastSteps, last_steps
from trainables.probes.trace import Sublayer, traced

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PARTS = ("first argument", "second argument", "last argument", "first two", "answer", "answer's group")
"""The rows of the array ``carried``."""
FOLDS = 5
FEWEST = 40
"""Questions below which nothing is said: eight in each fold."""
RIDGE = 1e-2
"""Strength of the ridge, in mean squares of the stream."""


class Carried(Probe):
    """On the last steps of up to 300 different held-out expressions, at least 40, where values are one token each: how
    well a linear probe reads off the residual stream at the last '=', before the first application and after each, the
    first, second and last argument, what the task makes of the first two alone, the answer, and the answer's group (of
    the first grouping that the family knows; parity modulo 6).

    A probe is a ridge regression on indicators of the classes, right where its largest output is, in five-fold
    cross-validation; equal arguments are never on both sides. What is said is its *selectivity* (Hewitt and Liang
    2019): accuracy less that of the same probe for the same labels in random order, in [-1, 1].

    The array ``carried`` [6, 1 + applications], float64, has the rows of :data:`PARTS` for the first task of the mix,
    NaN where a row means nothing; numbers are the largest selectivity over applications, ``TASK.answer``,
    ``TASK.group``, ``TASK.first``, ``TASK.second``, ``TASK.last``, ``TASK.first_two``.
    """

    name: ClassVar[str] = "carried"
    needs_model: ClassVar[bool] = True
    needs_data: ClassVar[bool] = True

    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        model, data = transformer_of(self.name, family, model, data)
        groupings = list(family.groupings().values())
        labels = np.array(groupings[0]) if groupings else None
        numbers: dict[str, float] = {}
        found: dict[str, NDArray[Any]] = {}
        for task, questions in last_steps(run, data).items():
            if len(questions.answers) < FEWEST:
                continue
            streams_AMC = streams(model, questions)
            named = _parts(questions, labels)
            rows = np.full((len(PARTS), len(streams_AMC)), np.nan)
            for place, (name, part) in enumerate(named.items()):
                if part is not None:
                    rows[place] = [selectivity(stream, part, questions.cases) for stream in streams_AMC]
                    numbers[f"{task}.{name}"] = float(rows[place].max())
            found.setdefault("carried", rows)
        return Probed(numbers, found)


def streams(model: TrainedTransformer, questions: LastSteps) -> list[Floats]:
    """The residual stream [M, C] at each question's '=': of the embeddings, and after each application."""
    rows, at = torch.arange(len(questions.equals)), torch.from_numpy(questions.equals)
    p = model.parameters
    here_MC = p["token"][questions.tokens[rows, at]] + p["position"][at]
    seen = [here_MC]

    def add(sublayer: Sublayer, application: int, update_MTC: Tensor) -> Tensor:
        nonlocal here_MC
        here_MC = here_MC + update_MTC[rows, at]
        if sublayer == "feed_forward":
            seen.append(here_MC)
        return update_MTC

    with torch.no_grad():
        traced(model.settings, p, questions.tokens, add)
    return [each.double().numpy() for each in seen]


def selectivity(stream_MC: Floats, labels: Integers, cases: Integers) -> float:
    """Cross-validated accuracy of a linear probe of ``labels`` [M], less that with the labels in random order; rows of
    one case are held out together."""
    rng = np.random.default_rng(0)
    fold = rng.permutation(int(cases.max()) + 1)[cases] % FOLDS
    return _accuracy(stream_MC, labels, fold) - _accuracy(stream_MC, rng.permutation(labels), fold)


def _accuracy(stream_MC: Floats, labels: Integers, fold: Integers) -> float:
    classes, places = np.unique(labels, return_inverse=True)
    wanted = np.eye(len(classes))[places]
    right = 0
    for held in range(FOLDS):
        known = fold != held
        mean, scale = stream_MC[known].mean(axis=0), stream_MC[known].std() or 1.0
        x, shift = (stream_MC - mean) / scale, wanted[known].mean(axis=0)
        gram = x[known].T @ x[known] + RIDGE * known.sum() * np.eye(x.shape[1])
        weights = np.linalg.solve(gram, x[known].T @ (wanted[known] - shift))
        right += int(((x[~known] @ weights + shift).argmax(axis=1) == places[~known]).sum())
    return right / len(labels)


def _parts(questions: LastSteps, labels: Integers | None) -> dict[str, Integers | None]:
    """What is read off, in the order of :data:`PARTS`; None for what cannot be."""
    group = None
    if labels is not None and questions.answers.max() < len(labels):
        group = labels[questions.answers]
    return {
        "first": questions.first,
        "second": questions.second,
        "last": questions.last,
        "first_two": questions.first_two,
        "answer": questions.answers,
        "group": group,
    }
