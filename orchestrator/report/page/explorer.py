"""Data of the page's script: every run, similarities inside models, and the posterior as it narrowed. Plain values, as
small as they can be: a page stays under 3 MB."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from orchestrator.home.run_files import numbers_of
from orchestrator.home.sweeps import RunRecord
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.figures.rows import mix_styles, points_id
from orchestrator.report.figures.similarity import principal_components, similarity_of
from orchestrator.space.evidence import is_evidence, point_of
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.posterior import narrowed, steps_shown
from orchestrator.transition.types import Point

MOST_MAP_BYTES = 1_200_000
"""Of all similarity matrices together, a byte a number. Beyond it only the median run of each mix and size keeps its
own, as far as these fit."""
MOST_STEPS = 60
"""Steps of a posterior that are kept for each mix; of more runs every second, third, ... and the last."""


def explorer_data(spec: SweepSpec, answer: Answer, runs: Sequence[RunRecord]) -> Markup | None:
    """The data as JSON that can stand in a page; None without a run that ended with an accuracy."""
    places = {mix.mix: place for place, mix in enumerate(answer.mixes)}
    evidence = [run for run in runs if run.config.label in places and is_evidence(run.config)]
    shown = [run for run in evidence if point_of(run.config, run.outcome, answer.target) is not None]
    if not shown:
        return None
    colours = {name: each.colour for name, each in mix_styles(answer).items()}
    by_mix = {mix.mix: [run for run in shown if run.config.label == mix.mix] for mix in answer.mixes}
    drawn = {
        run.key: place
        for mine in by_mix.values()
        for place, run in enumerate(sorted(mine, key=lambda run: _point(run, answer.target)))
    }
    lines = {mix: sorted(_with_curve(evidence, mix), key=lambda run: run.config.size) for mix in by_mix}
    order = {run.key: place for place, run in enumerate(shown)}
    data = {
        "axis": answer.size_axis,
        "target": answer.target,
        "final": answer.words.final_score,
        "learned": answer.words.learned,
        "item": answer.words.item,
        "cyclic": answer.words.cyclic,
        "sizes": sorted({run.config.size for run in shown}),
        "mixes": [{"name": mix.mix, "colour": colours[mix.mix], "points": points_id(mix)} for mix in answer.mixes],
        "runs": [
            {
                "mix": places[run.config.label],
                "point": drawn[run.key],
                "line": lines[run.config.label].index(run) if run.outcome.curve else None,
                **_run(run, answer.mix(run.config.label), answer.target),
            }
            for run in shown
        ],
        "maps": _maps(shown, answer.target),
        "posterior": [_steps(by_mix[mix.mix], answer, order) for mix in answer.mixes],
    }
    # What people write may hold "</script>"; JSON may escape any character.
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def _with_curve(runs: Sequence[RunRecord], mix: str) -> list[RunRecord]:
    """The runs that the figure of learning curves draws for a mix."""
    return [run for run in runs if run.config.label == mix and run.outcome.curve]


def _run(run: RunRecord, mix: MixAnswer, target: str) -> dict[str, Any]:
    accuracy, level = _point(run, target).accuracy, mix.target.transition.level
    numbers = {name.removeprefix("probe/"): float(f"{value:.3g}") for name, value in numbers_of(run.directory).items()}
    return {
        "key": run.key,
        "size": run.config.size,
        "seed": run.config.seed,
        "status": run.outcome.status.value,
        "accuracy": round(accuracy, 3),
        "learned": level is not None and accuracy >= level,
        "probes": numbers,
    }


def _point(run: RunRecord, target: str) -> Point:
    """A run that is shown as the statistics see it."""
    point = point_of(run.config, run.outcome, target)
    assert point is not None, "no run that failed is shown"
    return point


def _maps(runs: Sequence[RunRecord], target: str) -> dict[str, dict[str, Any]]:
    """By the place of a run its similarities in hundredths (a byte each, 100 added) and its first two principal
    components."""
    found = {place: similarity_of(run) for place, run in enumerate(runs)}
    kept = {place: matrix for place, matrix in found.items() if matrix is not None}
    if sum(matrix.size for matrix in kept.values()) > MOST_MAP_BYTES:
        kept = _median_runs(runs, kept, target)
    told, room = {}, MOST_MAP_BYTES
    for place, matrix in kept.items():
        room -= matrix.size
        if room >= 0:
            told[str(place)] = _map(matrix)
    return told


def _median_runs(
    runs: Sequence[RunRecord], kept: dict[int, NDArray[np.float64]], target: str
) -> dict[int, NDArray[np.float64]]:
    cells: dict[tuple[str, int], list[int]] = {}
    for place in kept:
        cells.setdefault((runs[place].config.label, runs[place].config.size), []).append(place)
    chosen = []
    for places in cells.values():
        places.sort(key=lambda place: _point(runs[place], target).accuracy)
        chosen.append(places[(len(places) - 1) // 2])
    return {place: kept[place] for place in sorted(chosen)}


def _map(matrix: NDArray[np.float64]) -> dict[str, Any]:
    scores, shares = principal_components(matrix)
    hundredths = np.clip(np.rint(100 * matrix), -100, 100).astype(np.int16) + 100
    return {
        "n": len(matrix),
        "cosines": base64.b64encode(hundredths.astype(np.uint8).tobytes()).decode(),
        "plane": [[round(float(x), 3), round(float(y), 3)] for x, y in scores],
        "shares": [round(float(share), 4) for share in shares],
    }


def _steps(runs: Sequence[RunRecord], answer: Answer, order: dict[str, int]) -> dict[str, Any]:
    """The posterior of one mix after its runs, in the order they ended."""
    points = [_point(run, answer.target) for run in runs]
    places = steps_shown(len(points), MOST_STEPS)
    found = narrowed(points, [count.size for count in answer.counts], answer.confidence, places=places)
    steps = []
    for each, place in zip(found, places, strict=True):
        most, estimate = max(each.density.weights) or 1.0, each.estimate
        steps.append(
            {
                "run": order[runs[place].key],
                "above": round(each.above_before, 3),
                "estimate": [
                    None if side is None else round(side, 2) for side in (estimate.value, estimate.low, estimate.high)
                ],
                "density": [round(99 * weight / most) for weight in each.density.weights],
            }
        )
    return {"sizes": [round(size, 2) for size in found[0].density.sizes] if found else [], "steps": steps}
