"""The table of results: one row a mix and task, from which every view is drawn: terminal, page, comparison, status,
export, MLflow and Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orchestrator.report.answer import Answer, Count, MixAnswer, TaskAnswer
from orchestrator.report.words.numbers import bad_runs
from orchestrator.report.words.verdicts import count_words, saving, size_words
from orchestrator.transition.types import Estimate, Synergy


@dataclass(frozen=True)
class Row:
    """One task of one mix. ``label`` tells the answers of a comparison apart.

    ``smallest`` and ``largest`` are the ends of what was tested. ``size_words`` and ``count_words`` are the transition
    as text, on the size axis and in parameters; ``saving`` is the target's comparison with the baseline (``""`` without
    one).
    """

    label: str
    answer: MixAnswer
    found: TaskAnswer
    smallest: Count
    largest: Count
    size_words: str
    count_words: str
    saving: str

    @property
    def mix(self) -> str:
        return self.answer.mix

    @property
    def is_target(self) -> bool:
        return self.found is self.answer.target

    @property
    def name(self) -> str:
        """The mix; of a task that is not the target ``prod in add+prod``."""
        return self.mix if self.is_target else f"{self.found.task} in {self.mix}"

    @property
    def runs_words(self) -> str:
        """``12 (1 diverged, 2 failed)``."""
        bad = bad_runs(self.answer.diverged, self.answer.failed)
        return f"{self.answer.runs} ({bad})" if bad else str(self.answer.runs)

    def columns(self) -> dict[str, Any]:
        """Plain values by the names of :mod:`orchestrator.catalogue.export`, the same in MLflow's metrics."""
        mix, transition, target = self.answer, self.found.transition, self.is_target
        return {
            "mix": mix.mix,
            "recipe": mix.recipe,
            "task": self.found.task,
            "is_target": target,
            "verdict": transition.verdict.value,
            **_estimate("", transition.relative),
            **_estimate("_parameters", self.found.total),
            **_estimate("_core_parameters", self.found.core),
            **_estimate("_absolute", transition.absolute),
            "p_above": transition.p_above,
            "p_below": transition.p_below,
            "tested_from": self.smallest.size,
            "tested_to": self.largest.size,
            "runs": mix.runs,
            "diverged": mix.diverged,
            "failed": mix.failed,
            **_synergy("synergy", mix.synergy_total if target else None),
            **_synergy("synergy_core", mix.synergy_core if target else None),
            "words": self.size_words,
        }


def rows(answer: Answer) -> tuple[Row, ...]:
    """Every task of every mix, the target of each mix first."""
    return tuple(_row(answer, mix, task, "") for mix in answer.mixes for task in mix.tasks)


def targets(answer: Answer, label: str = "") -> tuple[Row, ...]:
    """The rows of the target, one a mix."""
    return tuple(_row(answer, mix, mix.target, label) for mix in answer.mixes)


def _row(answer: Answer, mix: MixAnswer, task: TaskAnswer, label: str) -> Row:
    saved = mix.synergy_total if task is mix.target else None
    return Row(
        label,
        mix,
        task,
        *answer.tested(task.transition),
        size_words=size_words(answer, task.transition),
        count_words=count_words(answer, task),
        saving="" if saved is None else saving(saved),
    )


def _estimate(unit: str, found: Estimate) -> dict[str, float | None]:
    return {f"transition{unit}": found.value, f"low{unit}": found.low, f"high{unit}": found.high}


def _synergy(name: str, found: Synergy | None) -> dict[str, Any]:
    sides = (None,) * 4 if found is None else (found.value, found.low, found.high, found.decided)
    return dict(zip((name, f"{name}_low", f"{name}_high", f"{name}_decided"), sides, strict=True))
