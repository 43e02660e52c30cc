"""The table of verdicts that `reproduce` prints, in which e-BH confirms decisions over all rows together.

A sweep stops when its own evidence decides. In a table of many sweeps, some of them decide by chance. e-BH (Wang and
Ramdas 2022, JRSS B 84, 822) keeps the expected share of wrong decisions in the table at or below :data:`FALSE_SHARE`,
for any dependence between the comparisons. Decisions that it does not confirm become undecided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.report.verdicts.agreement import Agreement
from orchestrator.system.text import counted
from orchestrator.transition.comparison import Comparison, odds

HEADER = ("experiment", "about", "statement", "found", "evidence", "verdict")
"""Names of the columns."""
FALSE_SHARE = 0.1
"""Largest expected share of wrong decisions in a table."""
NOT_SIGNIFICANT = "not significant over the whole table: lower search.error, for example to 0.01, to get more pairs"
"""Note on a decision that e-BH does not confirm: a sweep stops at its own threshold, which is too low for many rows."""


@dataclass(frozen=True)
class VerdictRow:
    """A statement about ``about``, with the finding. ``comparison`` is None unless the statement compares two mixes."""

    space: str
    about: str
    claim: str
    result: str
    agreement: Agreement
    comparison: Comparison | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """Texts of the row, in the order of :data:`HEADER`."""
        evidence = "-" if self.comparison is None else odds(self.comparison.evidence)
        return self.space, self.about, self.claim, self.result or "-", evidence, str(self.agreement)


def over_table(rows: Sequence[VerdictRow]) -> list[VerdictRow]:
    """Return the rows. Decisions that e-BH does not confirm over the whole table become undecided."""
    evidence = {index: row.comparison.evidence for index, row in enumerate(rows) if row.comparison is not None}
    compared = list(evidence)
    confirmed = {compared[position] for position in e_bh(list(evidence.values()), FALSE_SHARE)}
    unconfirmed = evidence.keys() - confirmed
    return [
        replace(row, result=f"{row.result}; {NOT_SIGNIFICANT}", agreement=Agreement.UNDECIDED)
        if index in unconfirmed and row.agreement is not Agreement.UNDECIDED
        else row
        for index, row in enumerate(rows)
    ]


def e_bh(evidence: Sequence[float], share: float) -> tuple[int, ...]:
    """Return the indices of the e-values that e-BH (Wang and Ramdas 2022, JRSS B 84, 822) rejects, largest first.

    At most ``share`` of the rejected hypotheses are expected to be true, for any dependence between them. Let K be the
    number of e-values. e-BH rejects the k largest, for the largest k such that all of them are at least K / (share k).
    """
    order = sorted(range(len(evidence)), key=lambda index: -evidence[index])
    counts = [k for k, index in enumerate(order, start=1) if evidence[index] * share * k >= len(evidence)]
    return tuple(order[: max(counts, default=0)])


def summary(rows: Sequence[VerdictRow]) -> str:
    """Return the counts and the error of a table: ``12 rows: 4 agree, 8 not run. Of the 3 rows decided ...``."""
    counts = Counter(row.agreement for row in rows)
    words = {Agreement.AGREES: "agrees" if counts[Agreement.AGREES] == 1 else "agree"}
    counts_text = ", ".join(f"{counts[kind]} {words.get(kind, kind)}" for kind in Agreement if counts[kind])
    text = f"{counted(len(rows), 'row')}: {counts_text}."
    decided = sum(row.comparison is not None and row.agreement is not Agreement.UNDECIDED for row in rows)
    if decided:
        share = f"at most 1 in {1 / FALSE_SHARE:.0f} is expected to be wrong (e-BH)"
        text += f" Of the {counted(decided, 'row')} decided by evidence, {share}."
    return text


def markdown(rows: Sequence[VerdictRow], cost: str) -> str:
    """Return the table for a README. ``cost`` is a sentence about the cost of the sweeps."""
    lines = [HEADER, ("---",) * len(HEADER), *(row.cells for row in rows)]
    table = ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines]
    return "\n".join([*table, "", f"{summary(rows)} {cost}", ""])
