"""The table of results: one row a mix and task, from which every view is drawn: terminal, page, comparison, status,
export, MLflow and Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.report.answer import Answer, Count, MixAnswer, TaskAnswer
from orchestrator.report.words.verdicts import count_words, saving, size_words
from orchestrator.transition.types import Estimate, SizeShare, Synergy, Verdict


@dataclass(frozen=True)
class Row:
    """One task in one mix. ``label`` tells the answers of a comparison apart, ``baseline`` is the mix compared with.

    ``size`` is the transition on the size axis, ``absolute`` the size at absolute accuracy 0.8, ``parameters`` and
    ``core`` the transition in trainable parameters; their sides are None if unknown. ``size_words`` and ``count_words``
    are size and parameters as text, ``saving`` the comparison with the baseline (``""`` without one). Synergies and
    ``budget_limited`` are of the target alone.
    """

    label: str
    mix: str
    plain: str
    recipe: str
    baseline: str
    task: str
    is_target: bool
    verdict: Verdict
    size: Estimate
    parameters: Estimate
    core: Estimate
    absolute: Estimate
    p_above: float
    p_below: float
    smallest: Count
    largest: Count
    runs: int
    diverged: int
    failed: int
    learned: tuple[SizeShare, ...]
    synergy: Synergy | None
    synergy_core: Synergy | None
    budget_limited: bool | None
    size_words: str
    count_words: str
    saving: str

    @property
    def name(self) -> str:
        """The mix; of a task that is not the target ``prod in add+prod``."""
        return self.mix if self.is_target else f"{self.task} in {self.mix}"

    @property
    def runs_words(self) -> str:
        """``12 (1 diverged, 2 failed)``."""
        bad = [f"{count} {word}" for count, word in ((self.diverged, "diverged"), (self.failed, "failed")) if count]
        return f"{self.runs} ({', '.join(bad)})" if bad else str(self.runs)

    def columns(self) -> dict[str, Any]:
        """Plain values by the names of :mod:`orchestrator.catalogue.export`, the same in MLflow's metrics."""
        return {
            "mix": self.mix,
            "recipe": self.recipe,
            "task": self.task,
            "is_target": self.is_target,
            "verdict": self.verdict.value,
            **_estimate("", self.size),
            **_estimate("_parameters", self.parameters),
            **_estimate("_core_parameters", self.core),
            **_estimate("_absolute", self.absolute),
            "p_above": self.p_above,
            "p_below": self.p_below,
            "tested_from": self.smallest.size,
            "tested_to": self.largest.size,
            "runs": self.runs,
            "diverged": self.diverged,
            "failed": self.failed,
            **_synergy("synergy", self.synergy),
            **_synergy("synergy_core", self.synergy_core),
            "budget_limited": self.budget_limited,
            "words": self.size_words,
        }


def rows(answer: Answer) -> tuple[Row, ...]:
    """Every task of every mix, the target of each mix first."""
    return tuple(_row(answer, mix, task, "") for mix in answer.mixes for task in mix.tasks)


def targets(answer: Answer, label: str = "") -> tuple[Row, ...]:
    """The rows of the target, one a mix."""
    return tuple(_row(answer, mix, mix.target, label) for mix in answer.mixes)


def named(found: Sequence[Row], mix: str) -> Row:
    """The target's row of one mix. Raises ``KeyError``."""
    for row in found:
        if row.is_target and row.mix == mix:
            return row
    raise KeyError(mix)


def _row(answer: Answer, mix: MixAnswer, task: TaskAnswer, label: str) -> Row:
    found, is_target = task.transition, task is mix.target
    smallest, largest = answer.tested(found)
    synergy = mix.synergy_total if is_target else None
    return Row(
        label=label,
        mix=mix.mix,
        plain=mix.plain or mix.mix,
        recipe=mix.recipe,
        baseline=answer.baseline_of(mix),
        task=task.task,
        is_target=is_target,
        verdict=found.verdict,
        size=found.relative,
        parameters=task.total,
        core=task.core,
        absolute=found.absolute,
        p_above=found.p_above,
        p_below=found.p_below,
        smallest=smallest,
        largest=largest,
        runs=mix.runs,
        diverged=mix.diverged,
        failed=mix.failed,
        learned=found.shares,
        synergy=synergy,
        synergy_core=mix.synergy_core if is_target else None,
        budget_limited=mix.budget_limited if is_target else None,
        size_words=size_words(answer, found),
        count_words=count_words(answer, task),
        saving="" if synergy is None else saving(synergy),
    )


def _estimate(unit: str, found: Estimate) -> dict[str, float | None]:
    return {f"transition{unit}": found.value, f"low{unit}": found.low, f"high{unit}": found.high}


def _synergy(name: str, found: Synergy | None) -> dict[str, Any]:
    sides = (None,) * 4 if found is None else (found.value, found.low, found.high, found.decided)
    return dict(zip((name, f"{name}_low", f"{name}_high", f"{name}_decided"), sides, strict=True))
