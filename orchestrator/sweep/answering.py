"""The end of a sweep: print and store its answer, next step, figure and report, or print how to resume it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.text import Text

from orchestrator.engine.campaign import Campaign
from orchestrator.forecast.simulation import continued, outlook
from orchestrator.history.journal import Answered, Broken, recall
from orchestrator.history.known_runs import recall_sweep
from orchestrator.history.other_code import has_other_script
from orchestrator.history.sweeps import ANSWER_FILE, FIGURE_FILE, REPORT_FILE, Sweep
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.run_files import is_outdated
from orchestrator.jobs.plan import Stack
from orchestrator.jobs.state import State
from orchestrator.record.recorder import Recorder
from orchestrator.record.sweep_records import SweepRecords
from orchestrator.report import answer_table
from orchestrator.report.answer import Answer, answer
from orchestrator.report.drawing import try_to_draw
from orchestrator.report.probe_findings import probe_notes
from orchestrator.report.sentences.costs import found_runs
from orchestrator.report.sentences.next_step import next_step
from orchestrator.report.sentences.origin import imported_text, origin_line
from orchestrator.search.base import Searcher
from orchestrator.search.pairs import Pairs
from orchestrator.space.runs import Run
from orchestrator.sweep.driving import Drive
from orchestrator.sweep.interruption import stopped_text
from orchestrator.sweep.probe_stored_runs import probe_runs, say_unknown_files
from orchestrator.sweep.run_options import RECORDS, RunOptions
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.system.commands import command_line
from orchestrator.system.errors import SweepError
from orchestrator.system.files import replace_whole
from orchestrator.system.text import counted, listed
from trainables.base import Status
from trainables.probes.base import load_probe

log = logging.getLogger(__name__)

RECORD_TIMEOUT_S = 60.0
"""Seconds to wait for the record at the end of a sweep. Entries that are missing then are still in the journal."""
INTERRUPTED_TIMEOUT_S = 10.0
"""Seconds to wait for the record at an interruption."""


def finish(plan: StudyPlan, record: SweepRecords, recorder: Recorder, drive: Drive) -> Answer:
    """Print and record the answer of a sweep, draw its figure and report, and return the answer.

    Raises:
        SweepError: if every run failed.
    """
    sweep = plan.sweep
    options = drive.options
    runs = plan.runs
    errors = [run.outcome.error for run in runs if run.outcome.status is Status.FAILED]
    result = _answer(plan)
    if errors and len(errors) == len(runs):
        record.end(result, State.FAILED)
        _close(recorder, options, RECORD_TIMEOUT_S)
        raise SweepError(f"every run failed. The first error:\n{errors[0].strip()}")
    _update_probes(sweep, runs)
    record.end(result, State.FINISHED)
    plan.journal.append(Answered())
    if drive.view.named:
        drive.view.console.print(Text(f"\n{sweep.spec.title}: {sweep.spec.question}", style="bold"))
    print_answer(result, drive.view.console)
    trials = () if sweep.spec.tune is None else recall_sweep(sweep).trials
    origin = origin_line(imported_text(sweep.files.is_imported, sum(run.is_imported for run in (*runs, *trials))))
    replace_whole(sweep.files.directory / ANSWER_FILE, "\n".join(filter(None, (answer_table.plain(result), origin))))
    # Recorded again, now with the files. The first record comes before drawing, which may be interrupted.
    if files := draw(sweep, result, runs, trials):
        record.end(result, State.FINISHED, files)
    clear_checkpoints(plan)
    for line in remarks(sweep, result, runs, options, plan.searcher):
        log.info(line)
    missing = _close(recorder, options, RECORD_TIMEOUT_S)
    log.info(f"explain {command_line('explain', sweep.id, '--home', sweep.files.home.root)}")
    for name, path in (
        ("figure", sweep.files.directory / FIGURE_FILE),
        ("report", sweep.files.directory / REPORT_FILE),
    ):
        if path in files:
            log.info(f"{name}  {path}")
    log.info(f"pages   {command_line('ui', '--home', sweep.files.home.root)}{missing}")
    return result


def _update_probes(sweep: Sweep, runs: Sequence[Run]) -> None:
    """Run the sweep's probes on runs that lack their results, or have those of another version or code: runs that other
    sweeps trained, or that ended before a sweep was interrupted."""
    finished = [run for run in runs if run.outcome.status is Status.FINISHED]
    for name in sweep.spec.probes:
        probe = load_probe(name)
        due = [run for run in finished if is_outdated(probe, run.directory)]
        if due:
            counts = probe_runs(probe, sweep.spec, due)
            log.info(f"Probed {counted(len(due), 'earlier run')} with {name}: {counts.text}")
            say_unknown_files(sweep.spec, sweep.spec.probes)


def clear_checkpoints(plan: StudyPlan) -> None:
    """Remove a sweep's checkpoints, except those of stacks with runs that have not ended."""
    # Such runs were dropped because no comparison needed them, or because their mix was stopped. A sweep that extends
    # this one continues them.
    checkpoints = Checkpoints(plan.sweep.files.checkpoints)
    ended = {run.key for run in plan.runs}
    stacks = [Stack(tuple(jobs)) for jobs in checkpoints.interrupted(plan.read)]
    checkpoints.clear(keep={stack.id for stack in stacks if not ended.issuperset(job.key for job in stack.jobs)})


def leave_resumable(
    campaign: Campaign,
    plan: StudyPlan,
    record: SweepRecords,
    recorder: Recorder,
    drive: Drive,
) -> NoReturn:
    """Record an interrupted or broken sweep and report how to resume it.

    Raises:
        SweepError: if a machine error or the time limit stopped the sweep.
        KeyboardInterrupt: if the user stopped it.
    """
    sweep = plan.sweep
    options = drive.options
    if campaign.broken:
        plan.journal.append(Broken(campaign.broken))
    record.end(_answer(plan), State.FAILED if campaign.broken else State.INTERRUPTED)
    missing = _close(recorder, options, INTERRUPTED_TIMEOUT_S)
    stacks = len(Checkpoints(sweep.files.checkpoints).stacks())
    if campaign.runs_resume:
        checkpoints = f", and {counted(stacks, 'checkpoint')} of runs in training"
    else:
        checkpoints = f"; {counted(stacks, 'run')} in training will begin again"
    saved = f"{counted(len(plan.runs), 'run')} kept{checkpoints if stacks else ''}{missing}"
    if reason := campaign.machine_error or drive.limit.message:
        refused = has_other_script(sweep.spec)
        raise SweepError(stopped_text(sweep.id, f"{reason}. {saved}", options, is_refused=refused))
    stopped = f"{sweep.id} has stopped" if drive.view.named else "Stopped"
    log.info(f"{stopped}; {saved}. Continue with")
    log.info(options.resumed(sweep.id))
    raise KeyboardInterrupt


def _answer(plan: StudyPlan) -> Answer:
    """Return the answer from the runs of a sweep. Raises :class:`SweepError` if the user's family fails."""
    sweep = plan.sweep
    memory = recall(sweep.files)
    try:
        return answer(sweep.spec, plan.runs, memory.stopped, memory.blocks)
    except Exception as error:
        if not sweep.spec.source:
            raise
        problem = f"{sweep.spec.family} raised {type(error).__name__}: {error}"
        raise SweepError(
            f"{sweep.id} has no answer: {problem}. Its runs are kept: correct the family, then resume"
        ) from error


def _close(recorder: Recorder, options: RunOptions, timeout_s: float) -> str:
    """Wait for the record. Return a clause about its missing entries, or an empty string if it is complete."""
    missing = recorder.close(timeout_s)
    if recorder.warning:
        log.warning(recorder.warning)
    if not missing:
        return ""
    return f"; {counted(missing, 'record')} not in {RECORDS[options.record]} yet; add with `{options.sync_line}`"


def draw(sweep: Sweep, result: Answer, runs: Sequence[Run], trials: Sequence[Run]) -> list[Path]:
    """Write the figure and report of an answered sweep to its directory. Return the paths of the written files."""
    directory = sweep.files.directory

    def figure() -> list[Path]:
        from orchestrator.report.figures.comparisons import main_figure
        from orchestrator.report.figures.style import save_both

        return save_both(main_figure(result, sweep.spec.question), directory, Path(FIGURE_FILE).stem)

    def report() -> list[Path]:
        from orchestrator.report.page.report import page

        replace_whole(directory / REPORT_FILE, page(sweep, State.FINISHED.value, result, runs, trials=trials))
        return [directory / REPORT_FILE]

    return [
        path for name, make in ((FIGURE_FILE, figure), (REPORT_FILE, report)) for path in try_to_draw(name, make) or ()
    ]


def print_answer(result: Answer, console: Console) -> None:
    """Print the table of an answer, between empty lines."""
    console.print()
    if console.is_terminal:
        console.print(answer_table.render(result))
    else:
        console.print(answer_table.plain(result), markup=False, highlight=False, soft_wrap=True)
    console.print()


def _chance_text(searcher: Pairs, result: Answer) -> str:
    """Return a sentence with the probability that twice as many runs decide the open comparisons, or an empty string if
    none is open."""
    still_open = {mix.mix for mix in result.mixes if mix.comparison is not None and mix.comparison.decided is None}
    chances = [chance for (mix, _), chance in outlook(continued(searcher)).items() if mix in still_open]
    if not chances:
        return ""
    comparisons = "the comparison" if len(chances) == 1 else "each comparison"
    # Smaller values would be false precision, because the probability comes from a few simulations.
    probabilities = listed([f"{chance:.1f}" if chance >= 0.05 else "under 0.1" for chance in chances])
    return (
        f"In simulations based on these runs, twice as many runs decide {comparisons} with probability {probabilities}."
    )


def remarks(
    sweep: Sweep, result: Answer, runs: Sequence[Run], options: RunOptions, searcher: Searcher
) -> Iterator[str]:
    """Yield remarks on an answer and the next step, one line each. The searcher must be in its final state."""
    yield from result.tuned
    if reused := [run.trained_for for run in runs if run.trained_for]:
        yield f"{found_runs(reused)}."
    if failed := sum(run.outcome.status is Status.FAILED for run in runs):
        yield f"retry   {counted(failed, 'failed run')}\n  {options.resumed(sweep.id)} --retry-failed"
    if (step := next_step(sweep.spec, result)) is not None:
        yield f"next    {step.why if options.space else step}"
        if step.overrides and options.space:
            extended = sweep.id if step.extends else ""
            yield f"  {options.asking(step.overrides, extended)}"
        if step.continues and isinstance(searcher, Pairs) and (chance := _chance_text(searcher, result)):
            yield f"chance  {chance}"
    yield from probe_notes(sweep.spec, runs)
