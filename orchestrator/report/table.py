"""The answer as a person reads it: a table, a sentence, its caveats, what to do next."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.report.answer import Answer
from orchestrator.report.rows import rows
from orchestrator.report.side_by_side import (
    Compared,
    comparison_rows,
    comparison_sentences,
    finding,
    recipes_of,
)
from orchestrator.report.words.findings import caveats, evidence_words
from orchestrator.report.words.next_step import NextStep
from orchestrator.report.words.transitions import verdict_lines
from orchestrator.transition.types import CONFIDENCE, LEVEL

PLAIN_WIDTH = 200
"""Columns of an answer in a file."""


@dataclass(frozen=True)
class Line:
    """One line of a table: its cells; ``lead`` lines answer the question itself."""

    cells: tuple[str, ...]
    lead: bool


@dataclass(frozen=True)
class AnswerTable:
    """An answer in words.

    Attributes:
        head: Describes the columns.
        header: The columns' names.
        rows: The table's lines.
        sentences: The findings, a line each.
        evidence: The evidence of each comparison and what it means, ``""`` without one.
        caveats: What qualifies the findings, a line each.
        learned: For the report: each mix's own answer with the runs that learned, size by size.
        notes: For the report: how to read it.
    """

    head: str
    header: tuple[str, ...]
    rows: tuple[Line, ...]
    sentences: tuple[str, ...]
    evidence: str
    caveats: tuple[str, ...]
    learned: tuple[str, ...]
    notes: tuple[str, ...]


def answer_table(answer: Answer) -> AnswerTable:
    """An answer in words."""
    recipes = recipes_of(answer)
    subject = f", {answer.subject}" if answer.subject else ""
    return AnswerTable(
        head=f"{answer.target}{subject}: size at {LEVEL:.0%} of the asymptote, with {CONFIDENCE:.0%} intervals",
        header=(*(["recipe"] if recipes else []), "mix", answer.size_axis, answer.words.parameters, "runs")
        + (("compared",) if recipes else ()),
        rows=tuple(_recipe_lines(recipes) if recipes else _lines(answer)),
        sentences=finding(answer),
        evidence=evidence_words(answer),
        caveats=caveats(answer),
        learned=verdict_lines(answer),
        notes=tuple(_notes(answer)),
    )


def _lines(answer: Answer) -> list[Line]:
    """The target in every mix, then the other tasks."""
    return [
        Line((row.name, row.size_words, row.count_words, row.runs_words if row.is_target else ""), row.is_target)
        for row in sorted(rows(answer), key=lambda row: not row.is_target)
    ]


def _recipe_lines(under: Sequence[Compared]) -> list[Line]:
    return [
        Line((row.label, row.mix, row.size_words, row.count_words, row.runs_words, row.compared), lead=True)
        for row in comparison_rows(under)
    ]


def _notes(answer: Answer) -> list[str]:
    words, notes = answer.words, []
    if any(mix.shares for mix in answer.mixes):
        notes.append(
            f"{words.learned}: a run that scores {answer.learned:.0%} of what can be scored above the best constant "
            f"answer. The table's sizes are where the mean {words.score} reaches {LEVEL:.0%} of its asymptote."
        )
    if any(mix.budget != 1 for mix in answer.mixes):
        notes.append(f"x2 (x3, ...): that many times the steps and examples, so that {answer.target} gets its share.")
    notes += [f"recipe {recipe.name}: {recipe.changes}" for recipe in answer.recipes]
    return [*notes, *answer.tuned]


def render(answered: AnswerTable, step: NextStep | None = None) -> Group:
    """The answer for a terminal."""
    table = plain_table(*answered.header)
    for row in answered.rows:
        if row.lead:
            table.add_row(*map(Text, row.cells))
    return Group(
        Text(answered.head, style="dim"),
        table,
        *(Text(sentence, style="bold") for sentence in answered.sentences),
        *([Text(answered.evidence)] if answered.evidence else []),
        *(Text(caveat, style="yellow") for caveat in answered.caveats),
        *([Text(f"next    {step.why}")] if step else []),
    )


def plain(answered: AnswerTable, step: NextStep | None = None) -> str:
    """The same as plain text, without a trailing newline."""
    console = Console(width=PLAIN_WIDTH, file=io.StringIO(), color_system=None)
    for part in render(answered, step).renderables:
        console.print(part, soft_wrap=isinstance(part, Text), markup=False, highlight=False)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def comparison_view(compared: Sequence[Compared], what: str) -> RenderableType:
    """Answers side by side: a table with a row a mix, their labels under ``what``; then a sentence a mix."""
    found = comparison_rows(compared)
    axis = " or ".join({each.answer.size_axis: None for each in compared})
    counted = " or ".join({each.answer.words.parameters: None for each in compared})
    last_column = ["compared"] if any(row.compared for row in found) else []
    table, last = plain_table(what, "mix", axis, counted, "runs", *last_column), ""
    for row in found:
        cells = [row.mix, row.size_words, row.count_words, row.runs_words, *([row.compared] if last_column else [])]
        table.add_row(*map(Text, ["" if row.label == last else row.label, *cells]))
        last = row.label
    return Group(table, *(Text(sentence, style="bold") for sentence in comparison_sentences(compared, what)))


def plain_table(*headers: str) -> Table:
    """A table without lines, whose cells fold."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for header in headers:
        table.add_column(header, overflow="fold")
    return table
