"""The nouns and verbs with which reports describe a family of models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """Nouns and verbs of a family for reports, such as ``method`` for the tasks of a race. ``size`` and ``parameters``
    name the units of ``Family.size_axis`` and :class:`Parameters`; ``item`` names one row of a model's arrays, and
    ``held`` all rows together. ``cyclic``: the items are the numbers modulo their count."""

    size: str = "size"
    task: str = "task"
    item: str = "item"
    cyclic: bool = False
    held: str = "what models hold"
    parameters: str = "parameters"
    run: str = "model"
    score: str = "accuracy"
    final_score: str = "test accuracy"
    learned: str = "learned"
