"""Runs that end once their outcome is settled."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.report.answer import GivenUp, answer
from orchestrator.report.sentences.findings import caveats, late_text
from orchestrator.search.base import Request
from orchestrator.search.results import learned_runs
from orchestrator.space.runs import Run
from orchestrator.space.spaces import load_space
from orchestrator.transition.evidence import has_learned
from trainables.base import Evaluation, Outcome, RunConfig, Status
from trainables.transformer.learner import TransformerLearner
from trainables.transformer.training_settings import PROBATION, SettleSettings

RULE = "settings.training.settle={learned: 0.9, hopeless: 0.4, after: 0.75}"


def run_of(*overrides: str, size: int = 8, seed: int = 0, mix: str = "add") -> tuple[RunConfig, str]:
    """Return a run of the profile `smoke`, and its key."""
    spec = load_space("add_vs_add_prod", "smoke", overrides)
    config = spec.config(Request(mix, size, seed))
    return config, spec.make_family().key(config)


def train(config: RunConfig, cache: Path) -> Outcome:
    family = load_space("add_vs_add_prod", "smoke", [RULE]).make_family()
    learner = family.learner([config], device="cpu", cache=cache)
    while True:
        for report in learner.advance():
            if report.outcome is not None:
                return report.outcome


def on_probation(key: str) -> bool:
    return int(key, 16) % PROBATION == 0


def test_a_run_without_the_rule_keeps_its_key() -> None:
    assert run_of() == run_of("settings.training.settle=null")
    assert run_of()[1] != run_of(RULE)[1]


@pytest.mark.parametrize("value", ["{learned: 0}", "{hopeless: 0.9}", "{after: 1.5}", "{learned: 0.3, hopeless: 0.35}"])
def test_impossible_rules_are_refused(value: str) -> None:
    with pytest.raises(Exception, match=r"training\.settle\."):
        run_of(f"settings.training.settle={value}")


def test_a_hopeless_run_is_given_up_at_the_first_evaluation_after_the_share(tmp_path: Path) -> None:
    """The profile trains for 60 steps with an evaluation every 20, far too few to learn."""
    for after, steps in ((0.3, 20), (0.5, 40), (0.75, 60)):
        rule = f"settings.training.settle={{learned: 0.9, hopeless: 0.4, after: {after}}}"
        seed = next(seed for seed in range(9) if not on_probation(run_of(rule, seed=seed)[1]))
        outcome = train(run_of(rule, seed=seed)[0], tmp_path)
        assert (outcome.steps, outcome.settled("add")) == (steps, False)


def test_a_run_on_probation_trains_on_but_counts_as_given_up(tmp_path: Path) -> None:
    rule = "settings.training.settle={learned: 0.9, hopeless: 0.4, after: 0.5}"
    seed = next(seed for seed in range(90) if on_probation(run_of(rule, seed=seed)[1]))
    outcome = train(run_of(rule, seed=seed)[0], tmp_path)
    assert (outcome.steps, outcome.settled("add")) == (60, False)


def test_a_learned_run_ends_at_its_first_good_score(tmp_path: Path) -> None:
    """MAX modulo 4 is learned within some hundred steps."""
    easy = ["target=max", "mixes=[max]", "settings.training.steps=3000"]
    outcome = train(run_of(RULE, *easy, size=16, mix="max")[0], tmp_path)
    assert outcome.settled("max") is True
    assert outcome.steps == outcome.curve[-1].step < 2250
    *before, last = [point.accuracy["max"] for point in outcome.curve]
    assert last > 0.9 > outcome.floor["max"]
    assert max(before) < last


def test_a_settled_outcome_decides_whether_a_run_learned() -> None:
    config, _ = run_of(RULE)
    curve = (Evaluation(40, 0.5, {"add": 0.5}),)
    for settled, accuracy in ((1.0, 0.7), (0.0, 0.95)):
        outcome = Outcome(Status.FINISHED, 40, {"add": accuracy}, {"add": 0.2}, curve, {"settled_add": settled})
        point = Run(Request("add", 8, 0), config, outcome).point("add")
        assert point is not None
        assert point.settled is bool(settled)
        assert learned_runs({Request("add", 8, 0): point}, 0.8)["add", 8, 0] is bool(settled)
        assert has_learned(accuracy, 0.2) is not bool(settled)
    assert learned_runs({Request("add", 8, 0): Request("add", 8, 0).point(0.95, 0.2)}, 0.8)["add", 8, 0] is True


def test_late_learners_are_counted_and_said_by_mix() -> None:
    spec = load_space("add_vs_add_prod", "smoke", [RULE])
    runs = []
    for seed, (steps, accuracy) in enumerate([(45, 0.2), (60, 0.2), (60, 0.95), (45, 0.2)]):
        outcome = Outcome(Status.FINISHED, steps, {"add": accuracy}, {"add": 0.2}, measures={"settled_add": 0.0})
        request = Request("add", 8, seed)
        runs.append(Run(request, spec.config(request), outcome))
    result = answer(spec, runs)
    assert (result.mix("add").given_up, result.mix("add+prod").given_up) == (GivenUp(4, 2, 1), None)
    expected = (
        "4 runs of add were given up early. 2 of them trained to the end, and 1 learned late; "
        "still, it counts as given up."
    )
    assert expected in caveats(result)
    unknown = (
        "4 runs of add were given up early, and none of them was trained to the end to see whether it learned late."
    )
    assert late_text("add", GivenUp(4, 0, 0), "learned") == unknown


def test_an_earlier_phase_trains_in_full() -> None:
    family = load_space("add_vs_add_prod", "smoke", [RULE]).make_family()
    arm = load_space("curriculum", "smoke", [RULE]).mixes[1]
    run = family.config(arm, 8, 0)
    assert run.settings.training.settle == SettleSettings()
    assert run.start is not None
    assert run.start.donor.settings.training.settle is None


def test_a_checkpoint_keeps_what_is_settled(tmp_path: Path) -> None:
    rule = "settings.training.settle={learned: 0.9, hopeless: 0.4, after: 0.3}"
    config, _ = run_of(rule, seed=next(seed for seed in range(40) if on_probation(run_of(rule, seed=seed)[1])))
    family = load_space("add_vs_add_prod", "smoke", [rule]).make_family()
    first, second = (family.learner([config], device="cpu", cache=tmp_path) for _ in range(2))
    assert isinstance(first, TransformerLearner)
    first.advance()
    first.save(tmp_path / "checkpoint")
    second.restore(tmp_path / "checkpoint")
    ends = [[report.outcome for report in learner.advance() + learner.advance()] for learner in (first, second)]
    mine, other = (next(outcome for outcome in outcomes if outcome is not None) for outcomes in ends)
    assert mine.settled("add") is other.settled("add") is False
    assert mine.accuracy == other.accuracy
