"""The pairs of tasks whose savings the sweeps of a home measured, beside what was predicted of them."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.catalogue.reading import StoredSweep
from orchestrator.prediction.measured import Pair, Saving, mean_saving, saving_of
from orchestrator.prediction.registered import VERSION, predicted, registered, said_elsewhere
from orchestrator.store.files import SweepFiles


def measured_pairs(sweeps: Iterable[StoredSweep]) -> list[Pair]:
    """One pair for each combination of tasks on one subject, over all sweeps and recipes that have a posterior of its
    saving; in the order they are found."""
    savings: dict[str, list[Saving]] = {}
    scores: dict[str, dict[str, float]] = {}
    ids: dict[str, list[str]] = {}
    before: dict[str, bool] = {}
    for sweep in sweeps:
        said = predicted(sweep.spec)
        written = registered(SweepFiles(sweep.sweep.directory), said_elsewhere)
        for mix in sweep.answer.mixes:
            saving = saving_of(sweep.answer, mix) if mix.composition in said else None
            if saving is None:
                continue
            subject = sweep.answer.subject
            about = f"{mix.composition} ({subject})" if subject else mix.composition
            savings.setdefault(about, []).append(saving)
            scores[about] = said[mix.composition]
            ids.setdefault(about, []).append(sweep.id)
            first = written is not None and written.version == VERSION and mix.composition in written.scores
            before[about] = before.get(about, True) and first
    return [
        Pair(about, scores[about], mean_saving(found), tuple(dict.fromkeys(ids[about])), before[about])
        for about, found in savings.items()
    ]
