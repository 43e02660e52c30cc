"""Sweeps and runs as shown in a terminal, and the progress of a sweep for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from orchestrator.catalog.reading import StoredSweep
from orchestrator.cost import cost_of
from orchestrator.home.run_files import numbers_of
from orchestrator.home.sweeps import UnreadableError, failures
from orchestrator.machine.state import State
from orchestrator.report.answer_table import head_of, labeled, plain_table
from orchestrator.report.rows import targets
from orchestrator.report.side_by_side import finding
from orchestrator.report.words.changes import changed_words
from orchestrator.report.words.costs import bad_runs, cost
from orchestrator.report.words.findings import evidence_words
from orchestrator.report.words.transitions import verdict_line
from orchestrator.space.settings import flatten, plain_value
from orchestrator.system.text import counted, moment, size_on_disk
from orchestrator.transition.types import Verdict
from trainables.base import Evaluation

STATE_STYLES = {State.RUNNING: "yellow", State.FINISHED: "green", State.INTERRUPTED: "", State.FAILED: "red"}


def run_statuses(stored: StoredSweep) -> list[dict[str, Any]]:
    """Return the ended runs, then the runs in training or interrupted, with the last accuracy on the target."""
    target, unfinished = stored.spec.target, "training" if stored.state is State.RUNNING else "interrupted"
    ended = [(run.key, run.config, run.outcome.status.value, run.outcome.steps, run.outcome) for run in stored.runs]
    begun = [
        (run.key, run.config, unfinished, run.step, run.curve[-1] if run.curve else None) for run in stored.training
    ]
    return [
        {"key": key, "mix": run.label, "size": run.size, "seed": run.seed, "status": status, "step": step}
        | {"accuracy": None if last is None else last.accuracy.get(target)}
        for key, run, status, step, last in [*ended, *begun]
    ]


def mix_statuses(stored: StoredSweep) -> list[dict[str, Any]]:
    """Return the progress of each mix. ``done`` counts the runs behind its transition, ``training`` those that train
    now."""
    training = [run.config.label for run in stored.training] if stored.state is State.RUNNING else []
    return [
        {
            "mix": row.mix,
            "done": row.answer.runs,
            "learned": row.answer.learned,
            "diverged": row.answer.diverged,
            "failed": row.answer.failed,
            "training": training.count(row.mix),
            "verdict": row.task.transition.verdict.value,
            "transition": row.size_words,
            "parameters": row.count_words,
            "value": row.task.transition.relative.value,
            "low": row.task.transition.relative.low,
            "high": row.task.transition.relative.high,
            "words": verdict_line(stored.answer, row.answer),
        }
        for row in targets(stored.answer)
    ]


def status_json(stored: StoredSweep) -> dict[str, Any]:
    """Return the progress of a sweep as plain JSON values, with names that do not change between versions. Times are
    ISO 8601 in UTC."""
    spec, total = stored.spec, cost_of(stored.spec, stored.runs)
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
        "mixes": mix_statuses(stored),
        "runs": run_statuses(stored),
        "cost": asdict(total) | {"share": total.share},
        "failure": stored.failure,
        "damage": stored.damage,
        "disk_bytes": stored.disk_bytes,
    }


def sweeps_view(sweeps: Sequence[StoredSweep | UnreadableError]) -> RenderableType:
    """Return a paragraph per sweep (state, size, changes and transitions) and a line per unreadable sweep."""
    paragraphs: list[RenderableType] = []
    problems: list[str] = []
    for sweep in sweeps:
        if isinstance(sweep, UnreadableError):
            problems.append(f"unreadable: {sweep}")
            if sweep.answer:
                stored = f"its stored answer, not checked:\n{sweep.answer}"
                paragraphs += [Text(sweep.id, style="bold"), Padding(Text(stored), (0, 0, 0, 2))]
            continue
        problems += sweep.damage
        details = [sweep.spec.profile, counted(sweep.answer.runs, "run"), size_on_disk(sweep.disk_bytes)]
        details += [f"started {moment(sweep.begun)}", changed_words(sweep.spec)]
        state = (sweep.state_words, STATE_STYLES[sweep.state])
        text = Text.assemble(state, "".join(f", {part}" for part in details if part), "\n", sweep_words(sweep))
        paragraphs += [Text(sweep.id, style="bold"), Padding(text, (0, 0, 0, 2))]
    return Group(*paragraphs, *(Text(problem, style="yellow") for problem in problems))


def sweep_words(stored: StoredSweep) -> str:
    """Return each mix with its transition and its comparison with its baseline, in one line."""
    parts = ([f"{row.mix} {row.size_words}", row.compared] for row in targets(stored.answer))
    return "; ".join(", ".join(filter(None, words)) for words in parts)


def status_view(stored: StoredSweep, *, runs: bool = False) -> RenderableType:
    """Return a sweep with a row per mix and, with ``runs``, a row per run."""
    spec, words, mixes, statuses = stored.spec, stored.answer.words, mix_statuses(stored), run_statuses(stored)
    table = plain_table("mix", spec.size_axis, words.parameters, "done", words.learned, "now")
    for place, column in enumerate(table.columns[1:]):
        column.no_wrap, column.justify = True, "right" if place > 1 else "left"
    for mix in mixes:
        transition = Text(mix["transition"], style="green" if mix["verdict"] == Verdict.FOUND else "")
        counts = [str(mix[name]) for name in ("done", "learned", "training")]
        table.add_row(Text(mix["mix"]), transition, Text(mix["parameters"]), *counts)
    changes = changed_words(spec)
    parts: list[RenderableType] = [
        Text(f"{stored.id}: {spec.question}", style="bold"),
        Text.assemble(
            (stored.state_words, STATE_STYLES[stored.state]),
            f", started {moment(stored.begun)}, last changed {moment(stored.changed)}",
            f"; {changes}" if changes else "",
        ),
        Text(head_of(stored.answer), style="dim"),
        table,
    ]
    parts += [Text(mix["words"]) for mix in mixes if mix["done"]]
    parts += [Text(sentence, style="bold") for sentence in finding(stored.answer)]
    if evidence := evidence_words(stored.answer):
        parts.append(Text(evidence))
    bad = {mix["mix"]: bad_runs(mix["diverged"], mix["failed"]) for mix in mixes}
    parts += [Text(f"{mix}: {text}", style="yellow") for mix, text in bad.items() if text]
    for run in statuses:
        if run["status"] in ("training", "interrupted"):
            score = "no evaluation yet" if run["accuracy"] is None else f"step {run['step']}, {run['accuracy']:.2f}"
            name = f"{run['mix']} {run['size']} seed {run['seed']}"
            parts.append(Text(f"  {run['status']} {run['key']}: {name}: {score}"))
    if stored.runs:
        parts.append(Text(cost(cost_of(spec, stored.runs)), style="dim"))
    if runs:
        every = plain_table("run", "mix", spec.size_axis, "seed", "status", "step", spec.target)
        for run in sorted(statuses, key=lambda run: (run["mix"], run["size"], run["seed"])):
            accuracy = "-" if run["accuracy"] is None else f"{run['accuracy']:.2f}"
            every.add_row(*(Text(str(value)) for value in [*run.values()][:-1]), accuracy)
        parts.append(every)
    return Group(*parts)


def run_view(key: str, sweeps: Sequence[StoredSweep]) -> RenderableType:
    """Return a run of these sweeps: settings, outcome, learning curve, traceback."""
    stored, spec = sweeps[0], sweeps[0].spec
    ended = next((run for run in stored.runs if run.key == key), None)
    begun = next((run for run in stored.training if run.key == key), None)
    run = ended or begun
    assert run is not None, "the sweeps have it"
    facts = {
        "run": key,
        "sweep": ", ".join(sweep.id for sweep in sweeps),
        "mix": run.config.label,
        spec.size_axis: str(run.config.size),
        "seed": str(run.config.seed),
        "status": "training" if stored.state is State.RUNNING else "interrupted; `run --resume` continues the run",
    }
    curve, errors = begun.curve if begun else (), []
    if ended is not None:
        outcome, score = ended.outcome, spec.family_class.words.final_score
        facts["status"] = f"{outcome.status}" + (f", trained in {ended.found_in}" if ended.found_in else "")
        facts["steps"] = str(outcome.steps)
        for task, accuracy in outcome.accuracy.items():
            facts[f"{score} of {task}"] = f"{accuracy:.3f} (best constant answer {outcome.floor[task]:.3f})"
        facts |= {name: f"{value:.6g}" for name, value in outcome.measures.items()}
        facts |= {name: f"{value:.3g}" for name, value in numbers_of(ended.directory).items()}
        facts["files"] = str(ended.directory) if ended.directory.is_dir() else "none"
        curve, errors = outcome.curve, [outcome.error.strip()] if outcome.error else []
        errors += [f"the probe {result.name} failed:\n{result.error.strip()}" for _, result in failures([ended])]
    facts |= {key: str(value) for key, value in flatten(plain_value(run.config.settings)).items()}
    tracebacks = [part for error in errors for part in (Text(), Text(error, style="red"))]
    return Group(labeled(facts), Text(), _curve_table(curve), *tracebacks)


def _curve_table(curve: Sequence[Evaluation]) -> RenderableType:
    if not curve:
        return Text("no evaluation yet")
    tasks = sorted(curve[-1].accuracy)
    measures = sorted({name for point in curve for name in point.measures})
    table = plain_table("step", "loss", *tasks, *(f"measure/{name}" for name in measures))
    for point in curve:
        measured = (f"{point.measures[name]:.4g}" if name in point.measures else "" for name in measures)
        accuracies = (f"{point.accuracy[task]:.2f}" for task in tasks)
        table.add_row(str(point.step), f"{point.loss:.4f}", *accuracies, *measured)
    for column in table.columns:
        column.justify = "right"
    return table
