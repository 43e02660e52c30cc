"""Answers from outcomes: the runs that count as evidence, and the counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.report.answer import answer
from orchestrator.transition.evidence import Direction
from orchestrator.transition.types import SizeShare, Verdict
from tests.report.samples import SIZES, bracketed, config, diverged, failed, in_order, make_spec, run_of, train


def test_both_transitions_and_their_ratio_are_found() -> None:
    result = answer(make_spec(), bracketed())
    for mix, midpoint in (("add", 40), ("add+prod", 20)):
        found = result.mix(mix).target.transition
        assert found.verdict is Verdict.FOUND
        low, value, high = (end or 0.0 for end in (found.relative.low, found.relative.value, found.relative.high))
        # 80% of the asymptote lies a little above the midpoint.
        assert low <= value <= high
        assert midpoint < value < 1.35 * midpoint
        task = result.mix(mix).target
        assert (task.total.value, task.core.value) == pytest.approx((value * value + value, value * value))
    synergy = result.mix("add+prod").synergy
    assert synergy is not None
    assert synergy.value == pytest.approx(4, rel=0.25)
    assert result.mix("add").synergy is None


def test_every_task_has_a_transition_and_the_target_comes_first() -> None:
    spec = make_spec(target="prod", mixes=("prod", "add+max+prod"))
    result = answer(spec, train(spec, [("prod", 64), ("add+max+prod", 64)]))
    assert [task.task for task in result.mix("add+max+prod").tasks] == ["prod", "add", "max"]
    assert result.mix("add+max+prod").target.task == "prod"


def test_diverged_runs_count_at_the_floor_and_failed_ones_do_not_count() -> None:
    spec = make_spec()
    lost = diverged(config("add", 64))
    lost.accuracy["add"] = 0.9  # Must be ignored.
    outcomes = [*train(spec, [("add", 128)]), run_of(config("add", 64), lost), run_of(config("add", 64, 1), failed())]
    outcomes += train(spec, [("max", 64)])  # Of another mix.
    mix = answer(spec, outcomes).mix("add")
    assert (mix.finished, mix.diverged, mix.failed, mix.runs) == (2, 1, 1, 3)
    points = mix.target.transition.points
    assert [point.size for point in points] == [64, 128, 128]
    assert points[0].accuracy == points[0].floor == pytest.approx(0.1)


def test_without_runs_everything_is_undecided() -> None:
    result = answer(make_spec(), [])
    assert [mix.target.transition.verdict for mix in result.mixes] == [Verdict.UNDECIDED] * 2
    assert result.mix("add+prod").comparison is None
    assert result.tested(result.mixes[0].target.transition)[1].size == 128


def test_a_comparison_is_decided_by_the_pairs_in_the_journal() -> None:
    spec = make_spec()
    result = answer(spec, bracketed(), blocks=in_order(spec))
    comparison = result.mix("add+prod").comparison
    assert comparison is not None
    assert comparison.decided is Direction.MIX_AHEAD
    assert comparison.pairs == 2 * len(SIZES)
    assert result.mix("add").comparison is None


def test_pairs_after_an_incomplete_pair_do_not_count() -> None:
    spec, (first, second, third, *_) = make_spec(), in_order(make_spec())
    ended = [run for run in bracketed() if (run.config.label, run.config.size, run.config.seed) != second.runs[1]]
    comparison = answer(spec, ended, blocks=(first, second, third)).mix("add+prod").comparison
    assert comparison is not None
    assert comparison.pairs == 1


def test_a_threshold_set_beforehand_decides_which_runs_learned() -> None:
    [run] = train(make_spec(), [("add", 64)], seeds=1)
    half = replace(run, outcome=replace(run.outcome, accuracy={"add": 0.6}))
    for learned, count in ((0.5, 1), (0.6, 0)):
        spec = make_spec(search={"method": "grid", "learned": learned})
        mix = answer(spec, [half]).mix("add")
        assert mix.shares == (SizeShare(64, count, 1),)
