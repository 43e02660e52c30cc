"""Rows of tables, for terminal, page, exports, Python and MLflow: a row per mix and task, and a row per run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from orchestrator.history.sweeps import Sweep
from orchestrator.home.run_files import numbers_of
from orchestrator.report.answer import Answer, Count, MixAnswer, TaskAnswer
from orchestrator.report.conclusions import Conclusion, conclusion_of
from orchestrator.report.sentences.costs import bad_runs
from orchestrator.report.sentences.findings import compared_text
from orchestrator.report.sentences.transitions import count_text, size_text
from orchestrator.space.runs import Run
from orchestrator.transition.types import Estimate

MEASURE = "measure/"
"""Prefix of measures whose names clash with other columns."""
TUNED = "tuned/"
"""Prefix of settings that were tuned for each mix."""
COLUMNS = (
    *("sweep", "space", "variant", "profile", "key", "mix", "size", "seed", "status", "steps"),
    *("seconds", "accuracy", "floor", "parameters", "core_parameters", "reused_from"),
)
"""Exported columns that every run has. :mod:`orchestrator.catalog.export` explains them."""
NUMBERS = ("seconds", "accuracy", "floor", "parameters", "core_parameters")
"""Columns of floats, missing if unknown."""


@dataclass(frozen=True)
class Row:
    """One task of one mix.

    Attributes:
        label: Name of the answer, if several are compared.
        smallest: Smallest tested size.
        largest: Largest tested size.
        name: The mix, or ``prod in add+prod`` for a task that is not the target.
        runs_text: Number of runs, such as ``12 (1 diverged, 2 failed)``. Empty for a task that is not the target.
        size_text: The transition as text, on the size axis.
        count_text: The transition as text, in parameters.
        compared: The target's comparison with the baseline. Empty if there is no baseline.
        conclusion: Result of that comparison, None if it is undecided.
    """

    label: str
    answer: MixAnswer
    task: TaskAnswer
    smallest: Count
    largest: Count
    mix: str
    name: str
    is_target: bool
    runs_text: str
    size_text: str
    count_text: str
    compared: str
    conclusion: Conclusion | None

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Cells in a table of answers: mix, size, parameters and runs."""
        return self.name, self.size_text, self.count_text, self.runs_text

    def columns(self) -> dict[str, Any]:
        """Return plain values by their names in exported tables and in MLflow."""
        mix = self.answer
        transition = self.task.transition
        comparison = mix.comparison if self.is_target else None
        ratio = mix.synergy if self.is_target else None
        conclusion = self.conclusion
        about = "" if conclusion is None else "parameters" if conclusion.is_about_parameters else "often"
        place = () if conclusion is None else (*conclusion.place.mix.sizes, *conclusion.place.baseline.sizes)
        return {
            "mix": mix.mix,
            "recipe": mix.recipe,
            "task": self.task.task,
            "is_target": self.is_target,
            "verdict": transition.verdict.value,
            **_ends("", transition.relative),
            **_ends("_parameters", self.task.total),
            **_ends("_core_parameters", self.task.core),
            **_ends("_absolute", transition.absolute),
            "p_above": transition.p_above,
            "p_below": transition.p_below,
            "tested_from": self.smallest.size,
            "tested_to": self.largest.size,
            **{name: getattr(mix, name) for name in ("runs", "diverged", "failed")},
            "decided": comparison and str(comparison.decided or ""),
            "claim": comparison and about,
            "claim_from": min(place, default=None),
            "claim_to": max(place, default=None),
            "evidence": comparison and comparison.evidence,
            "evidence_highest": comparison and comparison.highest,
            **{name: comparison and getattr(comparison, name) for name in ("at_least", "at_least_core", "pairs")},
            "synergy": ratio and ratio.value,
            "synergy_low": ratio and ratio.low,
            "synergy_high": ratio and ratio.high,
            "words": self.size_text,
            "asymptote": transition.asymptote,
            "p_levels_off": transition.p_levels_off,
        }


def rows(answer: Answer, label: str = "") -> tuple[Row, ...]:
    """Return a row per task of every mix, the target first in each mix."""
    made = []
    for mix in answer.mixes:
        bad = bad_runs(mix.diverged, mix.failed)
        runs = f"{mix.runs} ({bad})" if bad else str(mix.runs)
        for task in mix.tasks:
            is_target = task is mix.target
            made.append(
                Row(
                    *(label, mix, task, *answer.tested(task.transition), mix.mix),
                    name=mix.mix if is_target else f"{task.task} in {mix.mix}",
                    is_target=is_target,
                    runs_text=runs if is_target else "",
                    size_text=size_text(answer, task.transition),
                    count_text=count_text(answer, task),
                    compared=compared_text(answer, mix) if is_target else "",
                    conclusion=conclusion_of(answer, mix) if is_target else None,
                )
            )
    return tuple(made)


def targets(answer: Answer, label: str = "") -> tuple[Row, ...]:
    """Return the rows of the target, one per mix."""
    return tuple(row for row in rows(answer, label) if row.is_target)


def _ends(unit: str, estimate: Estimate) -> dict[str, float | None]:
    return {f"transition{unit}": estimate.value, f"low{unit}": estimate.low, f"high{unit}": estimate.high}


def run_values(sweep: Sweep, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per run: :data:`COLUMNS`, the score and floor of every task, the numbers of probes, and measures."""
    spec = sweep.spec
    family = sweep.spec.make_family()
    tuned = () if spec.tune is None else tuple(spec.tune.settings)
    values = []
    for run in runs:
        config = run.config
        outcome = run.outcome
        count = family.parameters(run.config.size)
        about = (sweep.record_id, spec.name, spec.variant, spec.profile, run.key)
        cell = (config.label, config.size, config.seed)
        scores = (outcome.accuracy.get(spec.target), outcome.floor.get(spec.target))
        ended = (outcome.status.value, outcome.steps, outcome.measures.get("seconds"), *scores)
        row = dict(zip(COLUMNS, (*about, *cell, *ended, count.total, count.core, run.trained_for), strict=True))
        row |= {f"test_accuracy/{task}": accuracy for task, accuracy in outcome.accuracy.items()}
        row |= {f"floor/{task}": floor for task, floor in outcome.floor.items()}
        row |= {f"{TUNED}{name}": attrgetter(name)(config.settings) for name in tuned}
        row |= numbers_of(run.directory)
        for name, value in outcome.measures.items():
            if name != "seconds":  # A family may name a measure like a column, and columns never change.
                row[f"{MEASURE}{name}" if name in COLUMNS or "/" in name else name] = value
        values.append(row)
    return values
