"""What a report may conclude from a decided comparison: more often, or fewer parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.report.answer import Answer
from orchestrator.report.conclusions import Obstacle, conclusion_of, learned_by_half
from orchestrator.report.sentences.findings import conditions, sentence
from orchestrator.transition.comparison import Comparison
from orchestrator.transition.evidence import Direction
from orchestrator.transition.types import Estimate, SizeShare, Verdict
from tests.report.samples import Made, compared, make_answer, transition

MIX = "add+prod"
AHEAD = compared([*((12, True, False),) * 3, *((16, True, False),) * 3])
CROSSING = compared([*((8, False, True),) * 3, *((16, True, False),) * 14, *((32, True, True),) * 2])
"""The mix is behind at 8 and ahead at 16."""


def placed(low: float, high: float) -> Made:
    return transition(Verdict.FOUND, Estimate((low + high) / 2, low, high))


BELOW_24, ABOVE_24, AROUND_24 = placed(12, 20), placed(24, 40), placed(16, 30)


def answer_of(comparison: Comparison | None, baseline: Made = ABOVE_24, mix: Made = BELOW_24) -> Answer:
    return make_answer(baseline, mix, comparison)


def test_an_open_comparison_has_no_conclusion() -> None:
    for comparison in (None, compared([(12, True, False)])):
        given = answer_of(comparison)
        assert conclusion_of(given, given.mix(MIX)) is None


@pytest.mark.parametrize(
    ("baseline", "mix", "obstacle"),
    [
        (ABOVE_24, BELOW_24, None),
        (transition(Verdict.ABOVE, Estimate(None, 64, None)), BELOW_24, None),
        (ABOVE_24, transition(Verdict.BELOW, Estimate(None, None, 12)), None),
        (AROUND_24, BELOW_24, Obstacle.OVERLAP),
        (BELOW_24, ABOVE_24, Obstacle.OVERLAP),
        (transition(Verdict.UNDECIDED), BELOW_24, Obstacle.UNPLACED),
        (ABOVE_24, transition(Verdict.ABOVE, Estimate(None, 64, None)), Obstacle.UNPLACED),
        (transition(Verdict.NEAR_FLOOR), BELOW_24, Obstacle.UNPLACED),
    ],
)
def test_a_conclusion_about_parameters_needs_transitions_that_are_apart(
    baseline: Made, mix: Made, obstacle: Obstacle | None
) -> None:
    given = answer_of(AHEAD, baseline, mix)
    conclusion = conclusion_of(given, given.mix(MIX))
    assert conclusion is not None
    assert (conclusion.direction, conclusion.obstacle) == (Direction.MIX_AHEAD, obstacle)
    text = sentence(given, given.mix(MIX))
    assert text.startswith("add+prod needs fewer parameters than add. At ") == (obstacle is None)
    open_question = "Whether add+prod needs fewer parameters than add is open: "
    assert any(line.startswith(open_question) for line in conditions(given)) == (obstacle is not None)


def test_crossing_curves_are_reported_with_the_sizes_on_either_side() -> None:
    given = answer_of(CROSSING)
    conclusion = conclusion_of(given, given.mix(MIX))
    assert conclusion is not None
    assert conclusion.obstacle is Obstacle.CONTRARY
    assert conclusion.contrary is not None
    assert (conclusion.place.mix.sizes, conclusion.contrary.mix.sizes) == ((16,), (8,))
    assert sentence(given, given.mix(MIX)) == (
        "At units 16, add+prod models learned add more often than add models: 14 of 14 against 0 of 14. "
        "At units 8 it is the other way around: 0 of 3 against 3 of 3."
    )


def test_the_parts_have_the_evidence_of_their_own_pairs() -> None:
    low, middle, high = CROSSING.parts
    assert [part.sizes for part in CROSSING.parts] == [(8,), (16,), (32,)]
    assert low.evidence(Direction.BASELINE_AHEAD) == pytest.approx(compared([(8, False, True)] * 3).evidence, rel=0.3)
    assert middle.evidence(Direction.MIX_AHEAD) > 20 > 1 > middle.evidence(Direction.BASELINE_AHEAD)
    assert max(high.mix_ahead, high.baseline_ahead) < 0.5


def test_a_conclusion_of_rarer_learning_is_about_sizes_only() -> None:
    given = answer_of(AHEAD)
    shares = tuple(SizeShare(size, learned, 6) for size, learned in ((8, 0), (16, 6), (32, 5), (64, 0)))
    rarer = replace(given, mixes=(given.mixes[0], replace(given.mixes[1], shares=shares)))
    conclusion = conclusion_of(rarer, rarer.mix(MIX))
    assert conclusion is not None
    assert conclusion.obstacle is Obstacle.RARER


def test_a_factor_is_printed_only_if_the_larger_side_was_learned_somewhere() -> None:
    """Otherwise the factor is the ratio of the sizes that happened to be tried."""
    factor = compared([*((20, True, False),) * 5, *((20, True, False, 28),) * 5])
    given = answer_of(factor, placed(40, 48), placed(12, 20))
    baseline, mix = given.mixes
    runs = [((28, 0, 5), (48, learned, 6)) for learned in (0, 2, 3)]
    lucky = [((28, 1, 2), (48, 0, 6)), ((28, 0, 5), (48, 2, 2))]
    for cells, shown in zip([*runs, *lucky], (False, False, True, False, False), strict=True):
        shares = tuple(SizeShare(*cell) for cell in cells)
        changed = replace(given, mixes=(replace(baseline, shares=shares), mix))
        assert learned_by_half(changed.mixes[0]) == shown
        assert ("at least 1.9 times fewer" in sentence(changed, changed.mix(MIX))) == shown
