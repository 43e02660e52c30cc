"""The files of answers next to the findings: each follows from its pairs, and the findings cite its evidence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.catalog.answer_file import read_answer
from orchestrator.catalog.verified_answer import check

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "tests/bench/results/answers").glob("*.json"))
FINDINGS = (ROOT / "search_spaces/FINDINGS.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_answer_follows_from_its_pairs_and_the_findings_cite_its_evidence(file: Path) -> None:
    checked = check(read_answer(file))
    assert checked.differences == ()
    evidence = next(line for line in checked.file.claims.answer if line.startswith("Evidence "))
    cited = re.findall(rf"\[([^\]]*)\]\([^)]*/{file.name}\)", FINDINGS)
    assert cited, f"{file.name} is not cited"
    for words in cited:
        for odds in re.findall(r"\d[\d.,]*:\d[\d.]*", words):
            assert f" {odds} " in evidence, (words, evidence)
