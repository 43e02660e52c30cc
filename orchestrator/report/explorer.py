"""What the page's script shows: every run with its learning curve, what models hold at every size, and the posterior
as it narrowed. Plain values, as small as they can be: a page stays under 3 MB."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from orchestrator.report.answer import Answer
from orchestrator.report.looks import looks
from orchestrator.report.panels import kept_similarity
from orchestrator.report.plane import principal_components
from orchestrator.space.evidence import is_evidence, point_of
from orchestrator.space.spec import SweepSpec
from orchestrator.store.probed import numbers_of
from orchestrator.store.records import RunRecord
from orchestrator.transition.posterior import Narrowed, narrowed, steps_shown
from orchestrator.transition.types import Point

MOST_POINTS = 60
"""Evaluations of a learning curve that are kept; of longer ones every second, third, ..."""
MOST_MAP_BYTES = 1_200_000
"""Of all similarity matrices together, a byte a number. Beyond it only the median run of each mix and size keeps its
own, and of those the ones that fit."""
MOST_STEPS = 60
"""Steps of a posterior that are kept for each mix; of more runs every second, third, ... and the last."""


def explorer_data(spec: SweepSpec, answer: Answer, runs: Sequence[RunRecord]) -> Markup | None:
    """The data as JSON that can stand in a page; None without a run that ended with an accuracy."""
    places = {mix.mix: place for place, mix in enumerate(answer.mixes)}
    shown = [
        run
        for run in runs
        if run.config.label in places
        and is_evidence(run.config)
        and point_of(run.config, run.outcome, answer.target) is not None
    ]
    if not shown:
        return None
    known = looks(answer)
    order = {run.key: place for place, run in enumerate(shown)}
    data = {
        "axis": answer.size_axis,
        "target": answer.target,
        "score": answer.words.score,
        "final": answer.words.final_score,
        "learned": answer.words.learned,
        "item": spec.family_class.words.item,
        "cyclic": spec.family_class.words.cyclic,
        "sizes": sorted({run.config.size for run in shown}),
        "mixes": [{"name": mix.mix, "colour": known[mix.mix].colour} for mix in answer.mixes],
        "runs": [_run(run, answer, places) for run in shown],
        "maps": _maps(shown, answer.target),
        "posterior": [
            _steps([run for run in shown if run.config.label == mix.mix], spec, answer, order) for mix in answer.mixes
        ],
    }
    # What people write may hold "</script>"; JSON may escape any character.
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def _run(run: RunRecord, answer: Answer, places: dict[str, int]) -> dict[str, Any]:
    curve = run.outcome.curve
    kept = curve[:: -(-len(curve) // MOST_POINTS) or 1]
    if curve and kept[-1] is not curve[-1]:
        kept = (*kept, curve[-1])
    accuracy, level = _point(run, answer.target).accuracy, answer.mix(run.config.label).target.transition.level
    numbers = {name.removeprefix("probe/"): float(f"{value:.3g}") for name, value in numbers_of(run.directory).items()}
    return {
        "key": run.key,
        "mix": places[run.config.label],
        "size": run.config.size,
        "seed": run.config.seed,
        "status": run.outcome.status.value,
        "accuracy": round(accuracy, 3),
        "learned": level is not None and accuracy >= level,
        "steps": [point.step for point in kept],
        "curve": [round(point.accuracy[answer.target], 3) for point in kept],
        "probes": numbers,
    }


def _point(run: RunRecord, target: str) -> Point:
    """What the statistics see of a run that is shown."""
    point = point_of(run.config, run.outcome, target)
    assert point is not None, "no run that failed is shown"
    return point


def _maps(runs: Sequence[RunRecord], target: str) -> dict[str, dict[str, Any]]:
    """By the place of a run what its model holds: similarities in hundredths (a byte each, 100 added), the order in
    which alike ones stand together, and the first two principal components."""
    found = {place: kept_similarity(run) for place, run in enumerate(runs)}
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
        "order": [int(place) for place in _clustered_order(matrix)],
        "plane": [[round(float(x), 3), round(float(y), 3)] for x, y in scores],
        "shares": [round(float(share), 4) for share in shares],
    }


def _clustered_order(similarity: NDArray[Any]) -> NDArray[np.intp]:
    """The rows of cosine similarities [n, n] as leaves of average-linkage clustering of 1 - cosine, turned so that
    neighbours are as alike as the tree allows (Bar-Joseph, Gifford and Jaakkola 2001, Bioinformatics 17 Suppl 1)."""
    gram = np.asarray(similarity, dtype=np.float64)
    if len(gram) < 3:
        return np.arange(len(gram))
    apart = np.clip(1 - (gram + gram.T) / 2, 0.0, None)
    np.fill_diagonal(apart, 0.0)
    return np.asarray(leaves_list(linkage(squareform(apart), "average", optimal_ordering=True)), dtype=np.intp)


def _steps(runs: Sequence[RunRecord], spec: SweepSpec, answer: Answer, order: dict[str, int]) -> dict[str, Any]:
    """The posterior of one mix after its runs, in the order they ended."""
    points = [_point(run, spec.target) for run in runs]
    places = steps_shown(len(points), MOST_STEPS)
    found = narrowed(points, [count.size for count in answer.counts], answer.confidence, places=places)
    sizes = [round(size, 2) for size in found[0].density.sizes] if found else []
    shown = zip(found, places, strict=True)
    return {"sizes": sizes, "steps": [_step(each, order[runs[place].key]) for each, place in shown]}


def _step(found: Narrowed, run: int) -> dict[str, Any]:
    most = max(found.density.weights) or 1.0
    told = found.estimate
    return {
        "run": run,
        "above": round(found.above_before, 3),
        "beyond": round(found.density.above, 3),
        "estimate": [None if side is None else round(side, 2) for side in (told.value, told.low, told.high)],
        "density": [round(99 * weight / most) for weight in found.density.weights],
    }
