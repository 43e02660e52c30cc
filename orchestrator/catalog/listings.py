"""Sweeps and runs as shown in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from orchestrator.catalog.reading import StoredSweep
from orchestrator.catalog.summary import Summary, mixes_of, mixes_text
from orchestrator.history.sweeps import UnreadableError
from orchestrator.home.run_files import failed_probes, numbers_of
from orchestrator.jobs.state import State
from orchestrator.report.answer_table import labeled, plain_table
from orchestrator.report.sentences.costs import bad_runs
from orchestrator.space.settings import flatten, plain_value
from orchestrator.system.text import counted, first_of, moment, size_on_disk
from orchestrator.transition.types import Verdict
from trainables.base import Evaluation

STATE_STYLES: Mapping[str, str] = {
    State.RUNNING: "yellow",
    State.FINISHED: "green",
    State.INTERRUPTED: "",
    State.FAILED: "red",
}
"""Style of each state of a sweep in a terminal."""


def sweeps_view(sweeps: Sequence[Summary | UnreadableError]) -> RenderableType:
    """Return a paragraph for each sweep (state, size, changes and transitions) and a line for each unreadable sweep."""
    paragraphs: list[RenderableType] = []
    problems: list[str] = []
    for sweep in sweeps:
        if isinstance(sweep, UnreadableError):
            problems.append(f"unreadable: {sweep}")
            if sweep.answer:
                stored = f"its stored answer, not checked:\n{sweep.answer}"
                paragraphs += [Text(sweep.record_id, style="bold"), Padding(Text(stored), (0, 0, 0, 2))]
            continue
        problems += sweep.damage
        details = [sweep.profile, counted(sweep.runs, "run"), size_on_disk(sweep.disk_bytes)]
        details += [f"started {moment(sweep.begun_at)}", sweep.changes]
        state = (sweep.state_text, STATE_STYLES[sweep.state])
        text = Text.assemble(state, "".join(f", {part}" for part in details if part), "\n", sweep.words)
        paragraphs += [Text(sweep.id, style="bold"), Padding(text, (0, 0, 0, 2))]
    return Group(*paragraphs, *(Text(problem, style="yellow") for problem in problems))


def sweep_text(stored: StoredSweep) -> str:
    """Return each mix with its transition and its comparison with its baseline, in one line."""
    return mixes_text(mixes_of(stored.answer))


def status_view(summary: Summary, rows: Sequence[dict[str, Any]] = ()) -> RenderableType:
    """Return a sweep with a row for each mix and, if passed, the rows of its runs
    (:func:`~orchestrator.catalog.summary.run_rows`)."""
    table = plain_table("mix", summary.size_axis, summary.parameters, "done", summary.learned, "now")
    for index, column in enumerate(table.columns[1:]):
        column.no_wrap = True
        column.justify = "right" if index > 1 else "left"
    for mix in summary.mixes:
        transition = Text(mix.transition, style="green" if mix.verdict == Verdict.FOUND else "")
        counts = map(str, (mix.done, mix.learned, summary.training.get(mix.mix, 0)))
        table.add_row(Text(mix.mix), transition, Text(mix.parameters), *counts)
    parts: list[RenderableType] = [
        Text(f"{summary.id}: {summary.question}", style="bold"),
        Text.assemble(
            (summary.state_text, STATE_STYLES[summary.state]),
            f", started {moment(summary.begun_at)}, last changed {moment(summary.changed_at)}",
            f"; {summary.changes}" if summary.changes else "",
        ),
        Text(summary.head, style="dim"),
        table,
    ]
    parts += [Text(mix.words) for mix in summary.mixes if mix.done]
    parts += [Text(sentence, style="bold") for sentence in summary.findings]
    if summary.evidence:
        parts.append(Text(summary.evidence))
    bad = {mix.mix: bad_runs(mix.diverged, mix.failed) for mix in summary.mixes}
    parts += [Text(f"{mix}: {text}", style="yellow") for mix, text in bad.items() if text]
    parts += [Text(f"  {line}") for line in summary.unfinished]
    if summary.cost_words:
        parts.append(Text(summary.cost_words, style="dim"))
    if rows:
        every = plain_table("run", "mix", summary.size_axis, "seed", "status", "step", summary.target)
        for row in sorted(rows, key=itemgetter("mix", "size", "seed")):
            accuracy = "-" if row["accuracy"] is None else f"{row['accuracy']:.2f}"
            cells = (*itemgetter("key", "mix", "size", "seed", "status", "step")(row), accuracy)
            every.add_row(*(Text(str(cell)) for cell in cells))
        parts.append(every)
    return Group(*parts)


def run_view(key: str, stored: StoredSweep, sweeps: Sequence[str]) -> RenderableType:
    """Return a run of a sweep: settings, outcome, learning curve, traceback. ``sweeps`` are the names of all sweeps
    that have it."""
    spec = stored.spec
    ended = next((run for run in stored.runs if run.key == key), None)
    begun = next((run for run in stored.training if run.key == key), None)
    run = ended or begun
    assert run is not None, "the sweep has it"
    facts = {
        "run": key,
        "sweep": first_of(sweeps),
        "mix": run.config.label,
        spec.size_axis: str(run.config.size),
        "seed": str(run.config.seed),
        "status": "training" if stored.state is State.RUNNING else "interrupted; `run --resume` continues the run",
    }
    curve = begun.curve if begun else ()
    errors = []
    if ended is not None:
        outcome = ended.outcome
        score = spec.family_class.words.final_score
        facts["status"] = f"{outcome.status}" + (f", trained in {ended.trained_for}" if ended.trained_for else "")
        facts["steps"] = str(outcome.steps)
        for task, accuracy in outcome.accuracy.items():
            facts[f"{score} of {task}"] = f"{accuracy:.3f} (best constant answer {outcome.floor[task]:.3f})"
        facts |= {name: f"{value:.6g}" for name, value in outcome.measures.items()}
        facts |= {name: f"{value:.3g}" for name, value in numbers_of(ended.directory).items()}
        facts["files"] = str(ended.directory) if ended.directory.is_dir() else "none"
        curve = outcome.curve
        errors = [outcome.error.strip()] if outcome.error else []
        failed = failed_probes(outcome, ended.directory)
        errors += [f"the probe {result.name} failed:\n{result.error.strip()}" for result in failed]
    facts |= {name: str(value) for name, value in flatten(plain_value(run.config.settings)).items()}
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
