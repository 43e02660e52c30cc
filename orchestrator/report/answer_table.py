"""The answer as a table, findings, evidence and the next step."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.report.answer import Answer
from orchestrator.report.rows import Row, rows, targets
from orchestrator.report.sentences.findings import conditions, evidence_text, factor_estimate_text
from orchestrator.report.sentences.next_step import NextStep
from orchestrator.report.side_by_side import LabeledAnswer, comparison_sentences, finding, recipes_of
from orchestrator.transition.types import CONFIDENCE, LEVEL

PLAIN_WIDTH = 200
"""Columns of an answer in a file."""


class AnswerTable(NamedTuple):
    """The table of an answer: rows of the target, then rows of ``other_tasks``. ``head`` describes its columns."""

    head: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    other_tasks: tuple[tuple[str, ...], ...] = ()


def head_of(answer: Answer) -> str:
    """Return a line above a table of transitions."""
    subject = f", {answer.subject}" if answer.subject else ""
    return f"{answer.target}{subject}: size at {LEVEL:.0%} of the asymptote, with {CONFIDENCE:.0%} intervals"


def answer_table(answer: Answer) -> AnswerTable:
    """Return the transitions of an answer as a table."""
    head = head_of(answer)
    header: tuple[str, ...] = ("mix", answer.size_axis, answer.words.parameters, "runs")
    if recipes := recipes_of(answer):
        lines = [(row.label, *row.cells, row.compared) for row in comparison_rows(recipes)]
        return AnswerTable(head, ("recipe", *header, "compared"), tuple(lines))
    # If a family does not count parameters, sizes stand for them, and the column would repeat the sizes.
    shown = [0, 1, 3] if all(count.total == count.size for count in answer.counts) else [0, 1, 2, 3]
    header = tuple(header[column] for column in shown)
    cells = [(row.is_target, tuple(row.cells[column] for column in shown)) for row in rows(answer)]
    leading, others = (tuple(row for is_target, row in cells if is_target is kind) for kind in (True, False))
    return AnswerTable(head, header, leading, others)


def render(answer: Answer, step: NextStep | None = None) -> Group:
    """Return the answer for a terminal: findings, evidence, estimated factors, the table, and qualifications."""
    table = answer_table(answer)
    estimates = "" if answer.recipes else factor_estimate_text(answer, decided=True)
    grid = plain_table(*table.header)
    for cells in table.rows:
        grid.add_row(*map(Text, cells))
    return Group(
        *(Text(sentence, style="bold") for sentence in finding(answer)),
        *(Text(sentence) for sentence in (evidence_text(answer), estimates) if sentence),
        Text(table.head, style="dim"),
        grid,
        *(Text(condition, style="yellow") for condition in conditions(answer)),
        *([Text(f"next    {step.why}")] if step else []),
    )


def plain(answer: Answer, step: NextStep | None = None) -> str:
    """Return the answer as plain text, without a trailing newline."""
    console = Console(width=PLAIN_WIDTH, file=io.StringIO(), color_system=None)
    for part in render(answer, step).renderables:
        console.print(part, soft_wrap=isinstance(part, Text), markup=False, highlight=False)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def comparison_rows(compared: Sequence[LabeledAnswer]) -> list[Row]:
    """Return the target's row of every mix of every answer."""
    return [row for entry in compared for row in targets(entry.answer, entry.label)]


def comparison_table(compared: Sequence[LabeledAnswer], kind: str) -> tuple[list[str], list[list[str]]]:
    """Return the header, with ``kind`` above the labels, and a row per mix of every answer."""
    lines = comparison_rows(compared)
    axis = " or ".join({entry.answer.size_axis: None for entry in compared})
    parameters = " or ".join({entry.answer.words.parameters: None for entry in compared})
    shown = any(row.compared for row in lines)
    rows = []
    for before, row in zip([None, *lines], lines, strict=False):
        # Print a label once, in the first row of its answer.
        label = "" if before is not None and row.label == before.label else row.label
        rows.append([label, *row.cells, *([row.compared] if shown else [])])
    return [kind, "mix", axis, parameters, "runs", *(["compared"] if shown else [])], rows


def comparison_view(compared: Sequence[LabeledAnswer], kind: str) -> RenderableType:
    """Return answers next to each other: their table, then a sentence per mix."""
    header, rows = comparison_table(compared, kind)
    table = plain_table(*header)
    for row in rows:
        table.add_row(*map(Text, row))
    return Group(table, *(Text(sentence, style="bold") for sentence in comparison_sentences(compared, kind)))


def labeled(rows: Mapping[str, str]) -> Table:
    """Return a line per row: its label in bold, then its text. Neither can have rich's markup, such as a link."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows.items():
        table.add_row(Text(label), Text(value))
    return table


def plain_table(*headers: str) -> Table:
    """Return a table without rules, whose cells wrap."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for header in headers:
        table.add_column(Text(header), overflow="fold")
    return table
