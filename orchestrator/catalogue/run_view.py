"""One run as a terminal shows it: what it was asked, how it ended, its learning curve."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.catalogue.lookup import RunPlace
from orchestrator.catalogue.reading import State, StoredSweep
from orchestrator.catalogue.views import plain_table
from orchestrator.errors import UserError
from orchestrator.space.plain import flatten, plain_settings
from orchestrator.store.probed import failures, numbers_of
from orchestrator.store.records import RunRecord
from trainables.base import Evaluation, Outcome

BLOCKS, ASCII_BLOCKS = "▁▂▃▄▅▆▇█", "_.-=*#"
SPARKS = 24
"""The most characters of a learning curve."""


def run_view(stored: StoredSweep, place: RunPlace, *, ascii_only: bool = False) -> RenderableType:
    """One run of a sweep: what it was asked, how it ended, its learning curve, its traceback."""
    spec = stored.spec
    ended = {run.key: run for run in stored.runs}.get(place.key)
    begun = {run.key: run for run in stored.training}.get(place.key)
    config = ended.config if ended else begun.config if begun else None
    if config is None:
        raise UserError(f"run {place.key} ended while it was being read; ask again")
    facts = {
        "run": place.key,
        "sweep": ", ".join(place.sweeps),
        "mix": config.label,
        spec.size_axis: str(config.size),
        "seed": str(config.seed),
        "status": _status_words(stored, ended),
    }
    if ended is not None:
        facts |= _outcome_facts(ended.outcome)
        facts |= {name: f"{value:.3g}" for name, value in numbers_of(ended.directory).items()}
        facts["files"] = str(ended.directory) if ended.directory.is_dir() else "none"
    facts |= {key: str(value) for key, value in flatten(plain_settings(config.settings)).items()}
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in facts.items():
        table.add_row(label, Text(value))
    curve = ended.outcome.curve if ended else begun.curve if begun else ()
    parts: list[RenderableType] = [table, Text(), curve_table(curve, ascii_only=ascii_only)]
    if ended is not None and ended.outcome.error:
        parts += [Text(), Text(ended.outcome.error.strip(), style="red")]
    for _, result in failures([ended] if ended is not None else []):
        parts += [Text(), Text(f"the probe {result.name} failed:\n{result.error.strip()}", style="red")]
    return Group(*parts)


def curve_table(curve: Sequence[Evaluation], *, ascii_only: bool = False) -> RenderableType:
    """A learning curve: a line of small bars for each task, and a row for each evaluation."""
    if not curve:
        return Text("no evaluation yet")
    tasks = sorted(curve[-1].accuracy)
    blocks = ASCII_BLOCKS if ascii_only else BLOCKS
    sparks = [Text(f"{task} {sparkline([point.accuracy[task] for point in curve], blocks)}") for task in tasks]
    measures = sorted({name for point in curve for name in point.measures})
    table = plain_table("step", "loss", *tasks, *(f"measure/{name}" for name in measures))
    for point in curve:
        measured = (f"{point.measures[name]:.4g}" if name in point.measures else "" for name in measures)
        accuracies = (f"{point.accuracy[task]:.2f}" for task in tasks)
        table.add_row(str(point.step), f"{point.loss:.4f}", *accuracies, *measured)
    for column in table.columns:
        column.justify = "right"
    return Group(*sparks, table)


def sparkline(shares: Sequence[float], blocks: str = BLOCKS) -> str:
    """Shares in [0, 1] as small bars, at most :data:`SPARKS` of them: means of neighbours where there are more."""
    count = min(len(shares), SPARKS)
    bars = []
    for place in range(count):
        held = shares[place * len(shares) // count : (place + 1) * len(shares) // count]
        share = min(max(sum(held) / len(held), 0.0), 1.0)
        bars.append(blocks[round(share * (len(blocks) - 1))])
    return "".join(bars)


def _status_words(stored: StoredSweep, ended: RunRecord | None) -> str:
    if ended is None:
        return "training" if stored.state is State.RUNNING else "interrupted; `run --resume` goes on with it"
    reused = ended.found_in
    return f"{ended.outcome.status}" + (f", trained in {reused}" if reused else "")


def _outcome_facts(outcome: Outcome) -> dict[str, str]:
    facts = {"steps": str(outcome.steps)}
    for task, accuracy in outcome.accuracy.items():
        facts[f"test accuracy of {task}"] = f"{accuracy:.3f} (best constant answer {outcome.floor[task]:.3f})"
    return facts | {name: f"{value:.6g}" for name, value in outcome.measures.items()}
