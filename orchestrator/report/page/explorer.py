"""Data of the page's script: every run with its point in the figure and its learning curve."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from orchestrator.home.sweeps import RunRecord
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.figures.bars import points_id
from orchestrator.space.evidence import is_evidence, point_of


def explorer_data(answer: Answer, runs: Sequence[RunRecord]) -> Markup | None:
    """The data as JSON that can stand in a page; None without a run that ended with an accuracy."""
    shown = [each for place, mix in enumerate(answer.mixes) for each in _runs(answer, mix, place, runs)]
    if not shown:
        return None
    data = {
        "axis": answer.size_axis,
        "target": answer.target,
        "final": answer.words.final_score,
        "learned": answer.words.learned,
        "mixes": [{"name": mix.mix, "points": points_id(mix)} for mix in answer.mixes],
        "runs": shown,
    }
    # What people write may hold "</script>"; JSON may escape any character.
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def _runs(answer: Answer, mix: MixAnswer, place: int, runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """The runs of a mix in the order of its transition's points; ``line`` is a curve's place in the figure of learning
    curves."""
    mine = [run for run in runs if run.config.label == mix.mix and is_evidence(run.config)]
    lines = sorted((run for run in mine if run.outcome.curve), key=lambda run: run.config.size)
    points = [(point, run) for run in mine if (point := point_of(run.config, run.outcome, answer.target)) is not None]
    return [
        {
            "mix": place,
            "point": at,
            "line": lines.index(run) if run.outcome.curve else None,
            "key": run.key,
            "size": run.config.size,
            "seed": run.config.seed,
            "status": run.outcome.status.value,
            "accuracy": round(point.accuracy, 3),
            "learned": answer.has_learned(point.accuracy, point.floor),
        }
        for at, (point, run) in enumerate(sorted(points, key=lambda pair: pair[0]))
    ]
