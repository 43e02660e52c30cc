"""Words and files of an answered sweep: the table, the next step, the figure and the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from orchestrator.home.journal import Ended, State
from orchestrator.home.sweeps import FIGURE, REPORT, RunRecord, Sweep
from orchestrator.report import table
from orchestrator.report.answer import Answer
from orchestrator.report.drawn import drawn
from orchestrator.report.probed import probe_notes
from orchestrator.report.words.next_step import next_step
from orchestrator.report.words.numbers import counted, found_runs
from orchestrator.sweep.run_options import RunOptions
from trainables.base import Status
from trainables.files import write_whole


def draw(sweep: Sweep, found: Answer, runs: Sequence[RunRecord]) -> list[Path]:
    """Put an answered sweep's figure and its page into its directory. Return the paths of those that could be drawn."""
    directory = sweep.files.directory

    def figure() -> list[Path]:
        from orchestrator.report.figures.comparisons import main_figure
        from orchestrator.report.figures.style import save_both

        return save_both(main_figure(sweep.spec, found), directory, Path(FIGURE).stem)

    def report() -> list[Path]:
        from orchestrator.report.page.report import page

        write_whole(directory / REPORT, page(sweep, State.FINISHED.value, found, runs))
        return [directory / REPORT]

    return [path for name, made in ((FIGURE, figure), (REPORT, report)) for path in drawn(name, made) or ()]


def print_answer(found: Answer, console: Console) -> None:
    """Print the table of an answer, between empty lines."""
    said = table.answer_table(found)
    console.print()
    if console.is_terminal:
        console.print(table.render(said))
    else:
        console.print(table.plain(said), markup=False, highlight=False, soft_wrap=True)
    console.print()


def remarks(
    sweep: Sweep, found: Answer, ended: Sequence[Ended], runs: Sequence[RunRecord], options: RunOptions
) -> Iterator[str]:
    """Remarks on an answer and the next step, a line each. ``options`` are those it was run with."""
    yield from found.tuned
    if there := [entry.reused_from for entry in ended if entry.reused_from]:
        yield f"{found_runs(there)}."
    if failed := sum(entry.outcome.status is Status.FAILED for entry in ended):
        yield f"retry   {counted(failed, 'run')} that failed\n  {options.resumed(sweep.id)} --retry-failed"
    if (step := next_step(sweep.spec, found)) is not None:
        yield f"next    {step.why if options.space else step}"
        if step.overrides and options.space:
            extended = sweep.id if step.extends else ""
            yield f"  {options.asking(sweep.spec.variant, step.overrides, extended)}"
    yield from probe_notes(sweep.spec, runs)
