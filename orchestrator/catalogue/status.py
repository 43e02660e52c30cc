"""The progress of a sweep as plain values, for a table or for other programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.catalogue.reading import StoredSweep
from orchestrator.cost import cost_of
from orchestrator.home.journal import State
from orchestrator.report.rows import targets
from orchestrator.report.words.changes import changed_words
from orchestrator.report.words.transitions import verdict_line


@dataclass(frozen=True)
class RunStatus:
    """Status of a run: the last reported ``step``, and ``accuracy`` on the target at the last evaluation or the end."""

    key: str
    mix: str
    size: int
    seed: int
    status: str
    step: int
    accuracy: float | None


def run_statuses(stored: StoredSweep) -> list[RunStatus]:
    """Return the ended runs, then the runs in training or interrupted."""
    target, unfinished = stored.spec.target, "training" if stored.state is State.RUNNING else "interrupted"
    ended = [(run.key, run.config, run.outcome.status.value, run.outcome.steps, run.outcome) for run in stored.runs]
    begun = [
        (run.key, run.config, unfinished, run.step, run.curve[-1] if run.curve else None) for run in stored.training
    ]
    return [
        RunStatus(key, run.label, run.size, run.seed, status, step, None if last is None else last.accuracy.get(target))
        for key, run, status, step, last in [*ended, *begun]
    ]


def training_count(stored: StoredSweep, mix: str) -> int:
    """Return the number of runs of a mix that train now."""
    return sum(run.config.label == mix for run in stored.training) if stored.state is State.RUNNING else 0


def status_json(stored: StoredSweep) -> dict[str, Any]:
    """Return the progress of a sweep as plain JSON values, with names that do not change between versions.

    For a mix, ``done`` counts the runs behind its transition. Times are ISO 8601 in UTC.
    """
    spec, cost = stored.spec, cost_of(stored.spec, stored.runs)
    mixes = []
    for row in targets(stored.answer):
        mix, transition = row.answer, row.task.transition
        mixes.append(
            {
                "mix": mix.mix,
                "done": mix.runs,
                "learned": mix.learned,
                "diverged": mix.diverged,
                "failed": mix.failed,
                "training": training_count(stored, mix.mix),
                "verdict": transition.verdict.value,
                "transition": row.size_words,
                "parameters": row.count_words,
                "value": transition.relative.value,
                "low": transition.relative.low,
                "high": transition.relative.high,
                "words": verdict_line(stored.answer, mix),
            }
        )
    return {
        "id": stored.id,
        "question": spec.question,
        "profile": spec.profile,
        "changes": changed_words(spec),
        "state": stored.state.value,
        "begun": stored.begun.isoformat(timespec="seconds"),
        "changed": stored.changed.isoformat(timespec="seconds"),
        "size_axis": spec.size_axis,
        "sizes": spec.sizes,
        "target": spec.target,
        "mixes": mixes,
        "runs": [asdict(run) for run in run_statuses(stored)],
        "cost": asdict(cost) | {"share": cost.share},
        "damage": stored.damage,
        "disk_bytes": stored.disk_bytes,
    }
