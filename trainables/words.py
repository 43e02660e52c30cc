"""Words for the things of a family, for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """Words for things, for people.

    ``task`` is one of the things that a mix is made of; ``outside_core`` what core parameters leave out; ``item`` what
    a row of the arrays kept of a model stands for, and ``held`` what those rows are. All in the form that fits after
    "unknown" or "without". ``cyclic`` says that rows stand for the numbers modulo their count, so that a number's
    residues mean something; ``run`` is what one run makes; ``parameters`` are what
    :class:`trainables.runs.Parameters` counts. ``score`` is a share of 1 that says how good a run is, ``final_score``
    that by which it is judged in the end; to come to enough of it is to ``learn``, to have come there ``learned``.
    """

    task: str = "task"
    outside_core: str = "those that the family does not count as the model's body"
    item: str = "item"
    cyclic: bool = False
    held: str = "what models hold"
    parameters: str = "parameters"
    run: str = "model"
    score: str = "accuracy"
    final_score: str = "test accuracy"
    learn: str = "learn"
    learned: str = "learned"
