"""Contents of the records of transitions and answers; content.py lists the names."""

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
from orchestrator.report.words.next_step import next_step
from orchestrator.report.words.numbers import counted
from orchestrator.report.words.verdicts import (
    count_words,
    saving,
    sentence,
    size_words,
    verdict_lines,
)
from orchestrator.transition.types import CONFIDENCE, LEVEL, Transition

SIZES = ("transition", "low", "high")
MAIN_METRICS = (
    *SIZES,
    *(f"{name}_parameters" for name in SIZES),
    *("synergy", "synergy_low", "synergy_high", "runs"),
)
ALL_METRICS = (
    *MAIN_METRICS,
    *(f"{name}{unit}" for unit in ("_core_parameters", "_absolute") for name in SIZES),
    *("synergy_core", "synergy_core_low", "synergy_core_high", "diverged", "failed", "p_above", "p_below"),
)


def transition_content(sweep: Sweep, answer: Answer, mix: MixAnswer) -> Content:
    """The record of one mix's transition. Its figure is a file, which the tracker adds."""
    spec, found = sweep.spec, mix.target.transition
    target, *others = (row for row in rows(answer) if row.mix == mix.mix)
    metrics = _metrics(target, ALL_METRICS)
    if found.fit is not None:
        metrics |= {f"fit.{name}": value for name, value in asdict(found.fit).items()}
    for row in others:
        metrics |= _metrics(row, SIZES, f"/{metric_name(row.found.task)}")
    identity = {
        "mix": mix.mix,
        "target": answer.target,
        "baseline": answer.baseline_of(mix),
        "recipe": mix.recipe,
        "verdict": found.verdict.value,
        "size_axis": answer.size_axis,
        "family": spec.family,
        "profile": spec.profile,
        **({"variant": spec.variant} if spec.variant else {}),
    }
    if mix.synergy_total is not None:
        identity["synergy_decided"] = "yes" if mix.synergy_total.decided else "no"
    return Content(
        name=f"transition {mix.mix}",
        tags={"kind": "transition", "sweep": sweep.id, "mix": mix.mix, **words(answer, mix)},
        params=with_settings(spec, identity, spec.recipe_settings.get(mix.recipe)),
        samples=finite(tuple(Sample(name, value) for name, value in metrics.items())),
        note=_transition_note(sweep, answer, mix),
        texts={"transition.json": json.dumps(asdict(mix), indent=1)},
    )


def words(answer: Answer, mix: MixAnswer) -> dict[str, str]:
    """A transition in words, as tags: readable columns that may change while a sweep runs."""
    return {
        "found": size_words(answer, mix.target.transition),
        "found_parameters": count_words(answer, mix.target),
        "seeds_learned": _seeds(mix.target.transition),
        "saving": _saving(answer, mix),
    }


def _saving(answer: Answer, mix: MixAnswer) -> str:
    if mix.synergy_total is not None:
        return saving(mix.synergy_total)
    return "the baseline" if mix.mix == answer.baseline_of(mix) else "not compared"


def answer_content(sweep: Sweep, answer: Answer, state: str) -> Content:
    """Additions to a sweep's record when it ends."""
    text = plain(answer_table(answer), next_step(sweep.spec, answer))
    head = "" if state == "finished" else f"This sweep is **{state}**; this is the answer of its runs so far.\n\n"
    return Content(
        name=sweep.id,
        tags={"state": state, "answer": "; ".join((*finding(answer), *verdict_lines(answer)))},
        params={},
        note=f"{head}```\n{text}\n```\n\n{sweep_note(sweep)}",
        texts={"answer.json": json.dumps(asdict(answer), indent=1)},
    )


def _seeds(found: Transition) -> str:
    """Seeds that learned of those tried, by size: ``0/2 at 12, 4/4 at 36``."""
    return ", ".join(f"{share.learned}/{share.tried} at {share.size}" for share in found.shares) or (
        "not measurable" if found.points else "none tried"
    )


def _metrics(row: Row, names: Sequence[str], behind: str = "") -> dict[str, float]:
    """The columns of these names that are known."""
    columns = row.columns()
    return {f"{name}{behind}": float(columns[name]) for name in names if columns.get(name) is not None}


def _transition_note(about: Sweep, answer: Answer, mix: MixAnswer) -> str:
    """Description of a mix's transition: size, parameters, saving and the scores it rests on."""
    words = answer.words
    saves = "" if mix.synergy_total is None else f"**{sentence(answer, mix)}**"
    runs = counted(mix.runs, "run")
    return f"""Transition of `{answer.target}` trained with `{mix.mix}`, from {runs} of `{about.id}`:
{answer.size_axis} **{size_words(answer, mix.target.transition)}**, {words.parameters}
**{count_words(answer, mix.target)}** ({CONFIDENCE:.0%} intervals; {LEVEL:.0%} of the asymptote).

{saves}

`curve.png` shows the runs and the posterior. `transition.json` holds all estimates: for each task its points, the
probability of every size (`density`) and the curve
`floor + (asymptote - floor) / (1 + exp(-slope (ln {answer.size_axis} - midpoint)))` (`fit`).
"""
