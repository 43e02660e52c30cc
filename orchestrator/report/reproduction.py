"""The table of statements and findings: for the terminal, as Markdown, as CSV and as a page."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.report.answer import CONFIDENCE
from orchestrator.report.page.templates import render
from orchestrator.report.verdicts import Agreement, Row

HEADER = ("experiment", "about", "statement", "found", "verdict")
TEMPLATE = "reproduction.html.j2"
SEVERAL = {Agreement.AGREES: "agree"}
"""The words of which English has another one for several."""


@dataclass(frozen=True)
class Reproduction:
    """Everything the table says. ``cost`` is what was spent, in words; ``reports`` are links to the reports of sweeps,
    by id."""

    profile: str
    rows: tuple[Row, ...]
    cost: str
    reports: Mapping[str, str]


def summary(rows: Sequence[Row]) -> str:
    """``12 rows: 4 agree, 1 contradicted, 5 undecided at this scale, 2 not run; at 90 % chance would make 1.0 of the 10
    that were run``."""
    counts = Counter(row.agreement for row in rows)
    said = [
        f"{counts[each]} {SEVERAL.get(each, each) if counts[each] > 1 else each}" for each in Agreement if counts[each]
    ]
    asked = len(rows) - counts[Agreement.NOT_RUN]
    chance = f"; at {CONFIDENCE:.0%} chance would make up to {(1 - CONFIDENCE) * asked:.1f} of the {asked} verdicts"
    return f"{len(rows)} rows: {', '.join(said)}{chance if asked else ''}"


def markdown(content: Reproduction) -> str:
    """A table for a README."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    lines += ["| " + " | ".join(_cell(text) for text in cells(row)) + " |" for row in content.rows]
    return "\n".join([*lines, "", f"{summary(content.rows)}. {content.cost}", ""])


def as_csv(content: Reproduction) -> str:
    """A row a statement and mix, with the ids of the sweeps."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*HEADER, "source", "sweeps"])
    for row in content.rows:
        writer.writerow([*cells(row), row.source, " ".join(row.sweeps)])
    return out.getvalue()


def reproduction_page(content: Reproduction) -> str:
    """One HTML file; each row links to the reports of its sweeps."""
    return render(TEMPLATE, content=content, header=HEADER, cells=cells, summary=summary(content.rows))


def cells(row: Row) -> tuple[str, str, str, str, str]:
    """A row as the table shows it."""
    return row.space, row.about, row.claim, row.found or "-", str(row.agreement)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
