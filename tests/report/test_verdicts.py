"""Statements that a transition is there at all, beside what was found."""

from __future__ import annotations

import pytest

from orchestrator.report.answer import answer
from orchestrator.report.verdicts import Agreement, judge
from orchestrator.space.expected import Expectation
from tests.report.samples import bracketed, make_spec, train


def about(mix: str) -> Expectation:
    return Expectation(claim="it is learned", source="a test", finds="transition", mix=mix)


@pytest.mark.parametrize(("mix", "named"), [("*", ["add+prod"]), ("add", ["add"])])
def test_a_transition_that_was_found_agrees_also_for_the_baseline(mix: str, named: list[str]) -> None:
    rows = judge("space", "", [about(mix)], answer(make_spec(), bracketed()), "id")
    assert [row.about for row in rows] == named
    assert {row.agreement for row in rows} == {Agreement.AGREES}
    assert rows[0].found.startswith("units ")


def test_one_beyond_the_sizes_disagrees_and_none_is_undecided() -> None:
    spec = make_spec(sizes=(8, 12, 16))
    above = answer(spec, train(spec, [("add", 16), ("add", 12)], seeds=3))
    assert judge("space", "", [about("add")], above, "id")[0].agreement is Agreement.DISAGREES
    assert judge("space", "", [about("add")], above, "id")[0].found == "units above 16"
    assert judge("space", "", [about("add+prod")], above, "id")[0].agreement is Agreement.UNDECIDED
