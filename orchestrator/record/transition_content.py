"""Contents of the records of transitions and answers. content.py lists the names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from orchestrator.home.sweeps import Sweep
from orchestrator.record.content import Content, Sample, finite, metric_name, sweep_note, with_settings
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.rows import Row, rows
from orchestrator.report.side_by_side import finding
from orchestrator.report.table import answer_table, plain
from orchestrator.report.words.findings import compared_words, sentence
from orchestrator.report.words.next_step import next_step
from orchestrator.report.words.transitions import verdict_lines

SIZES = ("transition", "low", "high")
METRICS = (
    *(f"{name}{unit}" for unit in ("", "_parameters", "_core_parameters", "_absolute") for name in SIZES),
    *("evidence", "evidence_highest", "at_least", "at_least_core", "pairs", "synergy", "synergy_low", "synergy_high"),
    *("runs", "diverged", "failed", "p_above", "p_below"),
)


def transition_content(sweep: Sweep, answer: Answer, mix: MixAnswer) -> Content:
    """Return the record of one mix's transition."""
    spec, transition = sweep.spec, mix.target.transition
    target, *others = (row for row in rows(answer) if row.mix == mix.mix)
    metrics = _metrics(target, METRICS)
    for row in others:
        metrics |= _metrics(row, SIZES, f"/{metric_name(row.task.task)}")
    identity = {
        "mix": mix.mix,
        "target": answer.target,
        "baseline": answer.baseline_of(mix).mix,
        "recipe": mix.recipe,
        "verdict": transition.verdict.value,
        "size_axis": answer.size_axis,
        "family": spec.family,
        "profile": spec.profile,
        **({"variant": spec.variant} if spec.variant else {}),
    }
    if mix.comparison is not None:
        identity["decided"] = str(mix.comparison.decided or "no")
    return Content(
        name=f"transition {mix.mix}",
        tags={
            "kind": "transition",
            "sweep": sweep.id,
            "mix": mix.mix,
            "found": target.size_words,
            "found_parameters": target.count_words,
            "seeds_learned": ", ".join(f"{share.learned}/{share.tried} at {share.size}" for share in mix.shares),
            "compared": compared_words(answer, mix) or "-",
        },
        params=with_settings(spec, identity, spec.recipe_settings.get(mix.recipe)),
        samples=finite((*(Sample(name, value) for name, value in metrics.items()), *_curve(answer, mix))),
        note=sentence(answer, mix),
        texts={"transition.json": json.dumps(asdict(mix), indent=1)},
    )


def _curve(answer: Answer, mix: MixAnswer) -> list[Sample]:
    """Return the posterior curve of the figure, at the candidate sizes."""
    curve = answer.curve(mix.target.transition, [count.size for count in answer.counts])
    if curve is None:
        return []
    bands = (("median", curve.middle), ("low", curve.low), ("high", curve.high))
    return [
        Sample(f"curve/{name}", value, int(size))
        for name, values in bands
        for size, value in zip(curve.sizes, values, strict=True)
    ]


def answer_content(sweep: Sweep, answer: Answer, state: str) -> Content:
    """Return the additions to a sweep's record when it ends."""
    text = plain(answer_table(answer), next_step(sweep.spec, answer))
    head = "" if state == "finished" else f"This sweep is **{state}**; this is the answer of its runs so far.\n\n"
    return Content(
        name=sweep.id,
        tags={"state": state, "answer": "; ".join((*finding(answer), *verdict_lines(answer)))},
        params={},
        note=f"{head}```\n{text}\n```\n\n{sweep_note(sweep)}",
        texts={"answer.json": json.dumps(asdict(answer), indent=1)},
    )


def _metrics(row: Row, names: Sequence[str], suffix: str = "") -> dict[str, float]:
    columns = row.columns()
    return {f"{name}{suffix}": float(columns[name]) for name in names if columns.get(name) is not None}
