"""Contents of the records of sweeps and runs: pure values, which a tracker copies into its store.

Names never change, because users sort, filter and draw charts by them. ``+`` in a mix becomes ``.`` in the names of
metrics, because MLflow rejects it. Censored and unknown values are missing.

Runs, with the tag ``kind`` = ``run``:

    parameters
        ``mix``, ``seed``, ``target``, ``family``: the run
        the name of the size axis: its size
        NAME: every setting by its dotted name, or ``settings.NAME`` if a parameter above has that name
    metrics over steps
        ``loss``: the training loss
        ``accuracy/TASK``: the validation score of a task
        ``measure/NAME``: every other measure at an evaluation
    metrics at the last step
        ``test_accuracy/TASK``, ``floor/TASK``: the score and the best constant answer of a task
        ``parameters``, ``core_parameters``, ``steps``: as in the table ``runs`` of catalog/export.py
        ``probe/PROBE/NUMBER``: numbers of probes
        NAME: every other measure of the run, or ``measure/NAME`` if a metric above has that name
    tags
        ``sweep``: the id of the sweep, with " (imported)" if it was imported (in all records of a sweep)
        ``status``: finished, diverged or failed
        ``data``: a hash of the data for training and scoring
    artifacts
        ``arrays.npz``: arrays from the family
        ``probes/PROBE.npz``: arrays from a probe
        ``weights.safetensors``: weights, with the setting ``record.weights``
        ``traceback.txt``: the error of a failed run

Transitions, with the tag ``kind`` = ``transition``. There is one per mix, and its name contains the estimate:

    parameters
        ``mix``, ``recipe``, ``target``, ``baseline``: the subject
        ``verdict``, ``decided``: the result
        NAME: every setting of the recipe, as for runs
    metrics over sizes, so that MLflow's charts overlay the curves of any sweeps
        ``curve/median``, ``curve/low``, ``curve/high``: the posterior curve
    metrics over pairs of equal sizes
        ``evidence``: the e-value of the comparison with the baseline
    metrics over percentiles (5, 50 and 95)
        ``interval``: ``low``, ``transition`` and ``high``, which a chart shows as a line
    other metrics
        ``transition``, ``low``, ``high``: on the size axis, at 80% of the asymptote. With the suffixes ``_parameters``
            and ``_core_parameters`` the same in parameters, with ``_absolute`` at accuracy 0.8, and with ``/TASK`` for
            the other tasks
        ``midpoint``, ``slope``, ``floor``, ``asymptote``: parameters of the logistic curve (the slope per unit of ln
            size), also with the suffixes ``_low`` and ``_high``
        ``p_levels_off``, ``p_above``, ``p_below``, ``evidence_highest``, ``at_least``, ``at_least_core``, ``pairs``,
            ``runs``, ``diverged``, ``failed``: as in the table ``transitions`` of catalog/export.py
        ``synergy``, ``synergy_low``, ``synergy_high``: the estimated ratio of parameters
    artifacts
        ``transition.json``: points, probabilities and estimates

Sweeps, with the tag ``kind`` = ``sweep``:

    tags
        ``imported_runs``: the number of its runs that came with archives, including those that tuned its settings
    artifacts
        ``report.html``: the report
        ``transitions.png``, ``transitions.svg``: the figure
        ``answer.json``: the answer
        ``search_space.yaml``: the search space, which ``run`` accepts
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.history.journal import Ended, read_journal
from orchestrator.history.sweeps import Sweep
from orchestrator.home.directories import PROBES
from orchestrator.home.run_files import array_files, read_origin, weights_file
from orchestrator.record.names_and_values import curve_samples, finite, mlflow_name, with_settings
from orchestrator.record.tracker import Content, Sample
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.answer_table import plain
from orchestrator.report.conclusions import conclusion_of
from orchestrator.report.rows import MEASURE, Row, rows, run_values
from orchestrator.report.sentences.changes import changed_text
from orchestrator.report.sentences.findings import compared_text, sentence
from orchestrator.report.sentences.next_step import next_step
from orchestrator.report.sentences.transitions import verdict_lines
from orchestrator.report.side_by_side import finding
from orchestrator.space.runs import IMPORTED, Run
from orchestrator.space.settings import flatten
from orchestrator.transition.types import LEVEL, QUANTILES, Estimate
from trainables.base import Status

NO_METRICS = frozenset({"size", "seed", "accuracy", "floor"})
"""Numbers of a run that are no metrics of these names: they identify the run, or are logged once for each task."""
SIZE_METRICS = ("transition", "low", "high")
"""Columns of the table ``transitions`` that are metrics of every task of a transition."""
TRANSITION_METRICS = (
    *(f"{name}{unit}" for unit in ("", "_parameters", "_core_parameters", "_absolute") for name in SIZE_METRICS),
    *("evidence_highest", "at_least", "at_least_core", "pairs", "synergy", "synergy_low", "synergy_high"),
    *("runs", "diverged", "failed", "asymptote", "p_levels_off", "p_above", "p_below"),
)
"""Columns of the table ``transitions`` that are metrics of a transition."""


def sweep_content(sweep: Sweep) -> Content:
    """Return the record of a sweep at its start."""
    spec = sweep.spec
    identity = {
        "target": spec.target,
        "baseline": spec.baseline.name,
        "mixes": ", ".join(mix.name for mix in spec.mixes),
        "budget": spec.budget,
        "size_axis": spec.size_axis,
        "sizes": ", ".join(map(str, spec.sizes)),
        "seeds": ", ".join(map(str, spec.seed_list)),
        "profile": spec.profile,
        **({"variant": spec.variant} if spec.variant else {}),
        "family": spec.family,
        **{f"search.{key}": str(value) for key, value in flatten(spec.search.model_dump(mode="json")).items()},
    }
    environment = {f"env.{key}": str(value) for key, value in flatten(sweep.environment).items()}
    return Content(
        name=sweep.record_id,
        tags={
            "kind": "sweep",
            "sweep": sweep.record_id,
            "question": spec.question,
            "changes": changed_text(spec),
            **environment,
        },
        params=with_settings(identity, spec.settings),
        note=sweep_note(sweep),
        texts={"search_space.yaml": spec.to_yaml()},
        ended=sweep.created,
        group=spec.name,
    )


def run_content(sweep: Sweep, run: Run) -> Content:
    """Return the record of one run."""
    spec = sweep.spec
    config = run.config
    outcome = run.outcome
    identity = {
        "mix": config.label,
        spec.size_axis: str(config.size),
        "seed": str(config.seed),
        "target": spec.target,
        "family": spec.family,
    }
    final = [
        Sample(mlflow_name(name if name != "loss" else f"{MEASURE}{name}"), float(value), outcome.steps)
        for name, value in run_values(sweep, [run])[0].items()
        if isinstance(value, int | float) and name not in NO_METRICS
    ]
    return Content(
        name=f"{config.label} {spec.size_axis} {config.size} seed {config.seed}",
        tags={
            "kind": "run",
            "sweep": sweep.record_id,
            "run_key": run.key,
            "status": outcome.status.value,
            **({"data": outcome.data} if outcome.data else {}),
            **({"trained_for": run.trained_for} if run.trained_for else {}),
        },
        params=with_settings(identity, config.settings),
        samples=finite((*curve_samples(outcome), *final)),
        texts={"traceback.txt": outcome.error} if outcome.status is Status.FAILED else {},
        files={
            f"{PROBES}/{path.name}" if path.parent.name == PROBES else path.name: path
            for path in (*array_files(run.directory), *_weights(sweep, run))
        },
        seconds=outcome.measures.get("seconds", 0.0),
        ended=origin.ended if (origin := read_origin(run.directory)) else run.at or sweep.created,
        group=spec.name,
        draw=partial(_draw_similarity, sweep, run),
    )


def _weights(sweep: Sweep, run: Run) -> list[Path]:
    """Return the file of a run's weights if the search space requests it and the family stores weights, otherwise
    nothing."""
    path = weights_file(run.directory) if sweep.spec.record.weights else None
    return [] if path is None else [path]


def _draw_similarity(sweep: Sweep, run: Run, directory: Path) -> dict[str, Path]:
    """Draw a run's similarities, but only for the first seed of each size. A picture takes 120 ms, as long as the rest
    of the record."""
    from orchestrator.report.figures.probes import SIMILARITY, save_similarity

    config = run.config
    if config.seed != sweep.spec.seed:  # Unlike the best seed, the first seed is the same in every replay.
        return {}
    path = directory / f"{SIMILARITY}.png"
    title = f"{config.label}, {sweep.spec.size_axis} {config.size}, seed {config.seed}"
    return {path.name: path} if save_similarity(run.directory, path, title, sweep.spec.family_class.words) else {}


def transition_content(sweep: Sweep, answer: Answer, mix: MixAnswer, ended: str) -> Content:
    """Return the record of a mix's transition. ``ended`` is the end of the sweep's last run."""
    spec = sweep.spec
    transition = mix.target.transition
    target, *others = (row for row in rows(answer) if row.mix == mix.mix)
    metrics = _metrics(target, TRANSITION_METRICS)
    for row in others:
        metrics |= _metrics(row, SIZE_METRICS, f"/{mlflow_name(row.task.task)}")
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
        conclusion = conclusion_of(answer, mix)
        identity["decided"] = str(mix.comparison.decided or "no")
        identity["claim"] = "no" if conclusion is None else "parameters" if conclusion.is_about_parameters else "often"
    return Content(
        name=f"{mix.mix} {target.size_text}",
        tags={
            "kind": "transition",
            "sweep": sweep.record_id,
            "mix": mix.mix,
            "found": target.size_text,
            "found_parameters": target.count_text,
            "seeds_learned": ", ".join(f"{share.learned}/{share.tried} at {share.size}" for share in mix.shares),
            "compared": compared_text(answer, mix) or "-",
        },
        params=with_settings(identity, spec.recipe_settings.get(mix.recipe, spec.settings)),
        samples=finite(
            (
                *(Sample(name, value) for name, value in metrics.items()),
                *_interval(transition.relative),
                *_curve(answer, mix),
                *_curve_parameters(answer, mix),
                *_evidence(mix),
            )
        ),
        note=sentence(answer, mix),
        texts={"transition.json": json.dumps(_values(mix), indent=1)},
        ended=ended,
        group=spec.name,
    )


def _curve(answer: Answer, mix: MixAnswer) -> list[Sample]:
    """Return the posterior curve at the candidate sizes, as in the sweep's figure."""
    curve = answer.curve(mix.target.transition, [count.size for count in answer.counts])
    if curve is None:
        return []
    bands = (("median", curve.middle), ("low", curve.low), ("high", curve.high))
    return [
        Sample(f"curve/{name}", value, int(size))
        for name, values in bands
        for size, value in zip(curve.sizes, values, strict=True)
    ]


def _interval(estimate: Estimate) -> list[Sample]:
    """Return the known ends and the value of an estimate as one metric, which a chart shows as a line. The steps are
    percentiles."""
    ends = zip(QUANTILES, (estimate.low, estimate.value, estimate.high), strict=True)
    return [Sample("interval", end, round(100 * quantile)) for quantile, end in ends if end is not None]


def _curve_parameters(answer: Answer, mix: MixAnswer) -> list[Sample]:
    """Return the parameters of the posterior curve, except the asymptote, which is already a metric."""
    parameters = answer.curve_parameters(mix.target.transition)
    if parameters is None:
        return []
    values = {
        f"{name}{suffix}": value
        for name, estimate in vars(parameters).items()
        for suffix, value in (("", estimate.value), ("_low", estimate.low), ("_high", estimate.high))
    }
    return [Sample(name, value) for name, value in values.items() if name not in TRANSITION_METRICS]


def _evidence(mix: MixAnswer) -> list[Sample]:
    """Return the evidence before the first pair of equal sizes and after each such pair."""
    path = () if mix.comparison is None else mix.comparison.path
    return [Sample("evidence", value, pairs) for pairs, value in enumerate(path)]


def answer_content(sweep: Sweep, answer: Answer, state: str, ended: str, files: Sequence[Path] = ()) -> Content:
    """Return the additions to a sweep's record when it ends. ``files`` are its figure and report."""
    text = plain(answer, next_step(sweep.spec, answer))
    ended_runs = {line.key: line for line in read_journal(sweep.files.journal) if isinstance(line, Ended)}
    imported = sum(line.trained_for.endswith(IMPORTED) for line in ended_runs.values())
    head = "" if state == "finished" else f"This sweep is **{state}**; this is the answer of its runs so far.\n\n"
    return Content(
        name=sweep.record_id,
        tags={
            "state": state,
            "answer": "; ".join((*finding(answer), *verdict_lines(answer))),
            **({"imported_runs": str(imported)} if imported else {}),
        },
        params={},
        note=f"{head}```\n{text}\n```\n\n{sweep_note(sweep)}",
        texts={"answer.json": json.dumps(_values(answer), indent=1)},
        files={path.name: path for path in files},
        ended=ended,
        group=sweep.spec.name,
    )


def _values(part: Answer | MixAnswer) -> dict[str, Any]:
    """Return an answer, or a mix of it, as JSON values. Omit the seconds of its runs: the records of the runs contain
    them, and an answer does not depend on them."""
    values = asdict(part)
    for mix in values.get("mixes", [values]):
        for task in mix["tasks"]:
            for point in task["transition"]["points"]:
                del point["cost"]
    return values


def _metrics(row: Row, names: Sequence[str], suffix: str = "") -> dict[str, float]:
    columns = row.columns()
    return {f"{name}{suffix}": float(columns[name]) for name in names if columns.get(name) is not None}


def sweep_note(sweep: Sweep) -> str:
    """Return the description of a sweep."""
    spec = sweep.spec
    mixes = ", ".join(f"`{mix.name}`" for mix in spec.mixes)
    words = spec.family_class.words
    return f"""**{spec.question}**

For each of the mixes {mixes}, this sweep looks for the smallest `{spec.size_axis}` at which {words.final_score} of
`{spec.target}` reaches {LEVEL:.0%} of its asymptote. Nested below: one record per {words.run} and one per mix's
transition. A {words.run} trained for an earlier sweep is listed under that sweep. `search_space.yaml` reproduces this
sweep: `python -m orchestrator run search_space.yaml`.
"""
