"""Sweeps and runs as a terminal shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orchestrator.catalogue.reading import StoredSweep
from orchestrator.catalogue.status import RunStatus, SweepStatus
from orchestrator.home.journal import State
from orchestrator.home.run_files import numbers_of
from orchestrator.home.sweeps import RunRecord, Unreadable, failures
from orchestrator.report.rows import targets
from orchestrator.report.table import plain_table
from orchestrator.report.words import numbers
from orchestrator.report.words.numbers import bad_runs, moment, size_on_disk
from orchestrator.space.settings import flatten, plain_settings
from orchestrator.terminal.snapshot import legend, posterior_bar
from trainables.base import Evaluation, Outcome, Words

STATE_STYLES = {State.RUNNING: "yellow", State.FINISHED: "green", State.INTERRUPTED: "", State.FAILED: "red"}
WIDE, WITH_BARS = 120, 100
"""Columns from which ``sweeps`` is a table, and from which ``status`` has room for posteriors."""


def sweeps_view(sweeps: Sequence[StoredSweep | Unreadable], width: int) -> RenderableType:
    """Question, state, findings and size of each sweep: one line a sweep if ``width`` columns hold it, else a
    paragraph. Below them a line for each that cannot be read."""
    known = [each for each in sweeps if not isinstance(each, Unreadable)]
    table = [_sweeps_table(known)] if known and width >= WIDE else map(_sweep_paragraph, known)
    unread = [(f"unreadable: {each}",) if isinstance(each, Unreadable) else each.damage for each in sweeps]
    return Group(*table, *(Text(text, style="yellow") for lines in unread for text in lines))


def status_view(status: SweepStatus, *, runs: bool = False, width: int = WIDE) -> RenderableType:
    """A sweep, one row a mix, with its posterior as a bar if ``width`` columns hold it; with ``runs`` every run."""
    words, bars = status.words, width >= WITH_BARS
    axis = [f"{status.size_axis} {status.sizes[0]}-{status.sizes[-1]}"] if bars else []
    table = plain_table("mix", *axis, status.size_axis, words.parameters, "done", words.learned, "now")
    for place, column in enumerate(table.columns[len(axis) + 1 :]):
        column.no_wrap, column.justify = True, "right" if place > 1 else "left"
    for mix in status.mixes:
        bar = posterior_bar(status.sizes, mix.posterior, mix.low, mix.high)
        found = Text(mix.transition, style="green" if mix.verdict == "found" else "")
        cells = (found, Text(mix.parameters), str(mix.done), str(mix.learned), str(mix.training))
        table.add_row(Text(mix.mix), *([bar] if bars else []), *cells)
    parts: list[RenderableType] = [
        Text(f"{status.id}: {status.question}", style="bold"),
        Text.assemble(
            (status.state.value, STATE_STYLES[status.state]),
            f", begun {moment(datetime.fromisoformat(status.begun))}, "
            f"last changed {moment(datetime.fromisoformat(status.changed))}",
        ),
        table,
    ]
    parts += [Text(mix.words) for mix in status.mixes if mix.done]
    bad = {mix.mix: bad_runs(mix.diverged, mix.failed) for mix in status.mixes}
    parts += [Text(f"{mix}: {text}", style="yellow") for mix, text in bad.items() if text]
    training = [run for run in status.runs if run.status in ("training", "interrupted")]
    parts += [Text(_training_line(run)) for run in training]
    parts.append(Text(numbers.cost(status.cost), style="dim"))
    reached = f"{status.size_axis} where {words.score} of {status.target} is 80% of its asymptote, with 90% intervals"
    parts.append(Text(reached))
    if bars:
        parts.append(Text(legend(words)))
    if runs:
        every = plain_table("run", "mix", status.size_axis, "seed", "status", "step", status.target)
        for run in sorted(status.runs, key=lambda run: (run.mix, run.size, run.seed)):
            accuracy = "-" if run.accuracy is None else f"{run.accuracy:.2f}"
            every.add_row(run.key, Text(run.mix), str(run.size), str(run.seed), run.status, str(run.step), accuracy)
        parts.append(every)
    return Group(*parts)


def sweep_words(stored: StoredSweep) -> str:
    """Each mix with its transition, in one line."""
    return "; ".join(f"{row.mix} {row.size_words}" for row in targets(stored.answer))


def _sweeps_table(sweeps: Iterable[StoredSweep]) -> Table:
    table = plain_table("sweep", "profile", "state", "runs", "transitions", "disk", "begun")
    for each in sweeps:
        table.add_row(
            Text(each.id),
            Text(each.spec.profile or "-"),
            Text(each.state.value, style=STATE_STYLES[each.state]),
            str(each.counted),
            Text(sweep_words(each)),
            size_on_disk(each.disk_bytes),
            moment(each.begun),
        )
    for column in table.columns:
        column.no_wrap = column.header != "transitions"
    return table


def _sweep_paragraph(each: StoredSweep) -> RenderableType:
    profile = f"{each.spec.profile}, " if each.spec.profile else ""
    text = Text.assemble(
        profile,
        (each.state.value, STATE_STYLES[each.state]),
        f", {numbers.counted(each.counted, 'run')}, {size_on_disk(each.disk_bytes)}, begun {moment(each.begun)}\n",
        sweep_words(each),
    )
    return Group(Text(each.id, style="bold"), Padding(text, (0, 0, 0, 2)))


def _training_line(run: RunStatus) -> str:
    accuracy = "no evaluation yet" if run.accuracy is None else f"step {run.step}, {run.accuracy:.2f}"
    return f"  {run.status} {run.key}: {run.mix} {run.size} seed {run.seed}: {accuracy}"


def run_view(key: str, sweeps: Sequence[StoredSweep]) -> RenderableType:
    """One run of the sweeps that hold it: settings, outcome, learning curve, traceback."""
    stored, spec = sweeps[0], sweeps[0].spec
    ended = {run.key: run for run in stored.runs}.get(key)
    begun = {run.key: run for run in stored.training}.get(key)
    run = ended or begun
    assert run is not None, "the sweeps hold it"
    config = run.config
    facts = {
        "run": key,
        "sweep": ", ".join(each.id for each in sweeps),
        "mix": config.label,
        spec.size_axis: str(config.size),
        "seed": str(config.seed),
        "status": _status_words(stored, ended),
    }
    if ended is not None:
        facts |= _outcome_facts(ended.outcome, spec.family_class.words)
        facts |= {name: f"{value:.3g}" for name, value in numbers_of(ended.directory).items()}
        facts["files"] = str(ended.directory) if ended.directory.is_dir() else "none"
    facts |= {key: str(value) for key, value in flatten(plain_settings(config.settings)).items()}
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in facts.items():
        table.add_row(label, Text(value))
    curve = ended.outcome.curve if ended else begun.curve if begun else ()
    parts: list[RenderableType] = [table, Text(), _curve_table(curve)]
    if ended is not None and ended.outcome.error:
        parts += [Text(), Text(ended.outcome.error.strip(), style="red")]
    for _, result in failures([ended] if ended is not None else []):
        parts += [Text(), Text(f"the probe {result.name} failed:\n{result.error.strip()}", style="red")]
    return Group(*parts)


def _curve_table(curve: Sequence[Evaluation]) -> RenderableType:
    """A learning curve, a row an evaluation."""
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


def _status_words(stored: StoredSweep, ended: RunRecord | None) -> str:
    if ended is None:
        return "training" if stored.state is State.RUNNING else "interrupted; `run --resume` goes on with it"
    reused = ended.found_in
    return f"{ended.outcome.status}" + (f", trained in {reused}" if reused else "")


def _outcome_facts(outcome: Outcome, words: Words) -> dict[str, str]:
    facts = {"steps": str(outcome.steps)}
    for task, accuracy in outcome.accuracy.items():
        facts[f"{words.final_score} of {task}"] = f"{accuracy:.3f} (best constant answer {outcome.floor[task]:.3f})"
    return facts | {name: f"{value:.6g}" for name, value in outcome.measures.items()}
