"""Verdicts on statements: transitions, claimed factors, controls, and curves that nothing rests on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.report.answer import answer
from orchestrator.report.verdicts import Agreement, judge
from orchestrator.space.expected import Expectation
from orchestrator.space.validation import InvalidDataError, parse
from orchestrator.transition.types import Doubt, Synergy
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
    assert judge("space", "", [about("add")], above, "id")[0].agreement is Agreement.CONTRADICTED
    assert judge("space", "", [about("add")], above, "id")[0].found == "units above 16"
    assert judge("space", "", [about("add+prod")], above, "id")[0].agreement is Agreement.UNDECIDED


def verdict(found: Synergy, **asked: Any) -> Agreement:
    real = answer(make_spec(), bracketed())
    given = replace(real, mixes=(real.mixes[0], replace(real.mixes[1], synergy_total=found)))
    statement = Expectation.model_validate({"claim": "A", "source": "B", "finds": "fewer"} | asked)
    return judge("space", "", [statement], given, "id")[0].agreement


@pytest.mark.parametrize(
    ("low", "high", "factor", "agreement"),
    [
        (1.05, 1.25, 7.0, Agreement.SMALLER),
        (1.6, 5.0, 3.6, Agreement.AGREES),
        (4.2, None, 3.6, Agreement.LARGER),
        (1.4, None, 3.6, Agreement.AGREES),
        (1.5, 1.9, (2.0, 7.0), Agreement.SMALLER),
        (1.5, 2.1, (2.0, 7.0), Agreement.AGREES),
        (0.5, 0.9, 3.6, Agreement.CONTRADICTED),
    ],
)
def test_a_claim_of_a_factor_is_compared_with_that_factor(
    low: float, high: float | None, factor: float | tuple[float, float], agreement: Agreement
) -> None:
    assert verdict(Synergy(None, low, high, decided=True), factor=factor) is agreement


@pytest.mark.parametrize("finds", ["fewer", "no fewer"])
@pytest.mark.parametrize("doubt", [Doubt.LEVELS_OFF, Doubt.FALLS])
def test_nothing_rests_on_a_curve_that_levels_off_or_falls_again(finds: str, doubt: Doubt) -> None:
    for low, high in ((2.0, 4.0), (0.5, 0.9), (1.0, 1.2)):
        assert verdict(Synergy(None, low, high, decided=False, doubt=doubt), finds=finds) is Agreement.UNDECIDED


def test_a_failed_control_leaves_a_statement_undecided() -> None:
    spec = make_spec(sizes=(8, 12, 16))
    above = answer(spec, train(spec, [("add", 16), ("add", 12)], seeds=3))
    given = replace(
        above, mixes=(above.mixes[0], replace(above.mixes[1], synergy_total=Synergy(None, 2.0, None, True)))
    )
    asked = {"claim": "A", "source": "B", "finds": "fewer"}
    assert judge("space", "", [Expectation.model_validate(asked)], given, "id")[0].agreement is Agreement.AGREES
    (row,) = judge("space", "", [Expectation.model_validate(asked | {"control": "add"})], given, "id")
    assert row.agreement is Agreement.UNDECIDED
    assert row.found.endswith("; its control, add, is not learned: above 16")


@pytest.mark.parametrize("wrong", [{"factor": 0.5}, {"factor": (7, 2)}, {"finds": "no fewer", "factor": 2}])
def test_a_factor_that_claims_no_saving_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError, match="factor"):
        parse(Expectation, {"claim": "A", "source": "B", "finds": "fewer"} | wrong)
