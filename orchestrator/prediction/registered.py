"""A sweep's predictions: made from its search space alone, written down before its first run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from orchestrator.prediction.scores import mix_scores, output_entropy
from orchestrator.space.spec import SweepSpec
from orchestrator.store.files import SweepFiles, write_whole

VERSION = 1
"""Of the scores: raise it when one is computed otherwise."""


@dataclass(frozen=True)
class Registered:
    """Scores by mix and name, and when they were written down (ISO 8601, UTC)."""

    at: str
    version: int
    scores: dict[str, dict[str, float]]


def predicted(spec: SweepSpec) -> dict[str, dict[str, float]]:
    """The scores of every mix beside the baseline, by the mix's name without recipe; empty where the family has no
    tables for its tasks. Partners are the tasks of all phases but the target."""
    partners = {
        arm.composition: sorted({task for phase in arm.phases for task in phase.mix.tasks} - {spec.target})
        for arm in spec.mixes
    }
    asked = {name: tasks for name, tasks in partners.items() if tasks}
    if not asked:
        return {}
    tables = spec.make_family().tables(
        sorted({spec.target, *(task for each in asked.values() for task in each)}), spec.seed
    )
    if tables is None:
        return {}
    return {name: mix_scores(spec.target, tasks, tables) for name, tasks in asked.items()}


def entropies(spec: SweepSpec) -> dict[str, float]:
    """The entropy of every task's answers in nats, from the tasks' tables; empty where the family has none."""
    tasks = sorted({spec.target, *(task for arm in spec.mixes for phase in arm.phases for task in phase.mix.tasks)})
    tables = spec.make_family().tables(tasks, spec.seed)
    return {} if tables is None else {task: output_entropy(task, tables) for task in tasks}


def register(spec: SweepSpec, files: SweepFiles) -> None:
    """Write the predictions down, beside the specification of a sweep that has no run yet."""
    scores = predicted(spec)
    if scores:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        write_whole(files.prediction, json.dumps({"at": at, "version": VERSION, "scores": scores}, indent=1))


def registered(files: SweepFiles, say: Callable[[str], object]) -> Registered | None:
    """What was written down; None for sweeps that were begun without, and for a damaged file, of which ``say`` is
    told."""
    try:
        read: Any = json.loads(files.prediction.read_text(encoding="utf-8"))
        scores = {
            str(mix): {str(name): float(value) for name, value in each.items()} for mix, each in read["scores"].items()
        }
        return Registered(str(read["at"]), int(read["version"]), scores)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        say(
            f"{files.prediction} is damaged ({type(error).__name__}: {error}): restore it from a copy, or delete it; "
            "without it nothing counts as predicted before the sweep's first run"
        )
        return None


def said_elsewhere(flaw: str) -> None:
    """For who reads a prediction where its damage has been, or will be, said by another."""
