"""The answer as a table: plain text for pipes and files, rich for terminals, both from the same rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rich.console import Group
from rich.table import Table
from rich.text import Text

from orchestrator.report import wording
from orchestrator.report.answer import Answer, MixAnswer, TaskAnswer
from orchestrator.report.fairness import standing
from orchestrator.report.panel import Panel, panel, variation_text
from orchestrator.report.prose import Prose
from orchestrator.report.saying import count_words, finding_line, rests_on, size_words, verdict_line
from orchestrator.search.base import BY_HAND
from orchestrator.transition.types import LEVEL, Estimate, Verdict

GAP = "  "
SAME = 1.05
"""Sizes closer than this factor are not told apart in the table."""


@dataclass(frozen=True)
class Row:
    """One line of the table: cells in the order of :func:`header`. ``lead`` rows answer the question itself."""

    cells: tuple[str, str, str, str]
    lead: bool


@dataclass(frozen=True)
class AnswerTable:
    """The answer in words: a head line that says what the table's columns are, the table, each mix's verdict with how
    many seeds ``learned``, what each mix saves, and notes on how to read all that."""

    head: str
    header: tuple[str, str, str, str]
    rows: tuple[Row, ...]
    learned: tuple[str, ...]
    conclusions: tuple[str, ...]
    notes: tuple[str, ...]


def answer_table(answer: Answer) -> AnswerTable:
    """Say an answer in words."""
    subject = f", {answer.subject}" if answer.subject else ""
    several = panel(answer)
    return AnswerTable(
        head=f"target {answer.target}{subject}"
        + (f", under {len(answer.recipes)} recipes" if several else "")
        + f": transitions at {LEVEL:.0%} of the asymptote, with {answer.confidence:.0%} intervals",
        header=("mix", answer.size_axis, answer.words.parameters, "runs"),
        rows=tuple(_rows(answer) if several is None else _rows_by_recipe(answer)),
        learned=tuple(verdict_line(answer, mix) for mix in answer.mixes if mix.target.transition.shares),
        conclusions=tuple(
            _panel_lines(answer, several)
            if several
            else (line for mix in answer.mixes for line in _conclusions(answer, mix))
        ),
        notes=tuple(_notes(answer)),
    )


def plain(answered: AnswerTable) -> str:
    """The answer as plain text, columns aligned, without a trailing newline."""
    table = [answered.header, *(row.cells for row in answered.rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(answered.header))]
    lines = [GAP.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in table]
    return "\n".join([answered.head, *lines, *answered.learned, *answered.conclusions, *answered.notes])


def render(answered: AnswerTable) -> Group:
    """The answer for a terminal: the same words, wrapped to the console's width."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column, title in enumerate(answered.header):
        table.add_column(title, no_wrap=column in (0, 3), overflow="fold")
    for row in answered.rows:
        table.add_row(*map(Prose, row.cells), style="" if row.lead else "dim")
    return Group(
        Text(answered.head, style="bold"),
        table,
        *(Prose(line, hanging=True) for line in answered.learned),
        *(
            Prose(line, "bold" if " fewer " in line and "undecided" not in line else "", hanging=True)
            for line in answered.conclusions
        ),
        *(Prose(line, "dim", hanging=True) for line in answered.notes),
    )


def _rows(answer: Answer) -> list[Row]:
    """The target in every mix, then the other tasks."""
    rows: list[Row] = []
    for mix in answer.mixes:
        rows.append(_row(answer, mix, mix.target, lead=True))
        rows += [_absolute_row(answer, mix)] if _differs(mix.target) else []
    for mix in answer.mixes:
        rows += [_row(answer, mix, task, lead=False) for task in mix.tasks[1:]]
    return rows


def _rows_by_recipe(answer: Answer) -> list[Row]:
    """The target in every mix, recipe by recipe."""
    rows: list[Row] = []
    for recipe in answer.recipes:
        rows.append(Row((f"recipe {recipe.name}", "", "", ""), lead=False))
        under = answer.under(recipe.name)
        for mix in under.mixes:
            row = _row(under, mix, mix.target, lead=True)
            rows.append(replace(row, cells=(GAP + row.cells[0], *row.cells[1:])))
    return rows


def _panel_lines(answer: Answer, several: Panel) -> list[str]:
    """Each finding with what it is under every recipe, and what transitions vary with."""
    lines = []
    for finding in several.findings:
        under_each = {recipe: answer.under(recipe) for recipe in finding.by_recipe}
        weak = {recipe: rests_on(under, under.mix(finding.mix)) for recipe, under in under_each.items()}
        lines.append(finding_line(answer, finding))
        width = max(len(recipe) for recipe in finding.by_recipe)
        for recipe, found in finding.by_recipe.items():
            rests = f", resting on {weak[recipe]}" if weak[recipe] else ""
            lines.append(f"{GAP}{recipe.ljust(width)}{GAP}{wording.saving(found)}{rests}")
    if several.variation is not None:
        lines.append(variation_text(several.variation, answer.size_axis))
    return lines


def _row(answer: Answer, mix: MixAnswer, task: TaskAnswer, *, lead: bool) -> Row:
    name = mix.mix if lead else f"{task.task} in {mix.mix}"
    size, count = size_words(answer, task.transition), count_words(answer, task)
    return Row((name, size, count, _runs(mix) if lead else ""), lead)


def _absolute_row(answer: Answer, mix: MixAnswer) -> Row:
    task, found = mix.target, mix.target.transition
    smallest, largest = answer.tested(found)
    size = _absolute(found.absolute, smallest.size, largest.size)
    count = _absolute(task.absolute_total, smallest.total, largest.total)
    return Row((f"{GAP}{mix.mix} at {answer.words.score} {LEVEL:.1f}", size, count, ""), lead=False)


def _absolute(found: Estimate, smallest: float, largest: float) -> str:
    """An absolute estimate carries no verdict of its own: a missing side says where it lies."""
    if found.value is None and found.low is not None and found.high is None:
        return f"above {wording.exact(found.low)}"
    if found.value is None and found.low is None and found.high is not None:
        return f"below {wording.exact(found.high)}"
    verdict = Verdict.UNDECIDED if found.value is None else Verdict.FOUND
    return wording.estimate(found, smallest, largest, verdict, None)


def _differs(task: TaskAnswer) -> bool:
    """Whether the size at absolute accuracy 0.8 says something the transition does not."""
    relative, absolute = task.transition.relative.value, task.transition.absolute.value
    if relative is None or absolute is None:
        return (relative is None) != (absolute is None)
    return abs(math.log(relative / absolute)) > math.log(SAME)


def _runs(mix: MixAnswer) -> str:
    counts = [f"{count} {word}" for count, word in ((mix.diverged, "diverged"), (mix.failed, "failed")) if count]
    return f"{mix.runs} ({', '.join(counts)})" if counts else str(mix.runs)


def _conclusions(answer: Answer, mix: MixAnswer) -> list[str]:
    if mix.synergy_total is None or mix.synergy_core is None:
        return []
    total = standing(answer, mix, lambda each: each.synergy_total)
    rests, counted, baseline = rests_on(answer, mix), answer.words.parameters, answer.baseline_of(mix)
    said = [
        (f"resting on {rests}: " if rests else "")
        + wording.synergy(mix.mix, baseline, mix.synergy_total, counted, total),
    ]
    if answer.has_core:
        said.append(f"{GAP}core {counted}: {wording.saving(mix.synergy_core)}")
    return said


def _notes(answer: Answer) -> list[str]:
    notes = []
    if answer.has_core and any(mix.synergy_core is not None for mix in answer.mixes):
        notes.append(f"core {answer.words.parameters}: all but {answer.words.outside_core}")
    if any(mix.target.transition.shares for mix in answer.mixes):
        notes.append(
            f"{answer.words.learned}: a run at {LEVEL:.0%} of the asymptote or more; the table's sizes are where the "
            f"mean {answer.words.score} gets there, not where half of all seeds do"
        )
    for mix in answer.mixes:
        for task in mix.tasks:
            name = mix.mix if task is mix.target else f"{task.task} in {mix.mix}"
            notes += [line] if (line := wording.near_floor(name, task.transition)) else []
    notes += [
        f"{mix.mix}: {BY_HAND}, so that what is said of it rests on the {mix.runs} runs that had ended"
        for mix in answer.mixes
        if mix.stopped
    ]
    if any(mix.budget != 1 for mix in answer.mixes):
        notes.append(f"x2 (x3, ...): with as many times the steps and examples, so that {answer.target} gets its share")
    notes += [f"recipe {recipe.name}: {recipe.changes}" for recipe in answer.recipes]
    notes += answer.tuned
    notes += [line for mix in answer.mixes if (line := wording.budget_limited(mix.mix, mix.budget_limited))]
    plateaus = [found for mix in answer.mixes if (found := mix.target.transition).verdict is Verdict.PLATEAU]
    if plateaus:
        notes.append(f"plateau: {answer.words.score} levels off under 0.9, so there is no transition at this budget")
    compares = any(mix.synergy_total is not None for mix in answer.mixes)
    if compares and any(found.relative.low is not None for found in plateaus):
        notes.append(
            "a plateau is compared as a transition above the largest size where no size can be "
            f"{answer.words.learned} by most seeds"
        )
    return notes
