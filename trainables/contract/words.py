"""The nouns and verbs with which reports describe a family of models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """Nouns and verbs of a family for reports, such as ``method`` for the tasks of a race.

    Attributes:
        size: Noun for ``Family.size_axis``.
        task: Noun for a task.
        item: Noun for one row of a model's arrays.
        cyclic: True if the items are the numbers modulo their count.
        held: Noun phrase for all rows together.
        parameters: Noun for the unit of :class:`Parameters`.
        run: Noun for a trained model.
        score: Noun for the score during training.
        final_score: Noun for the score at the end.
        learned: Participle for a run that reached the bar.
    """

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
