"""Tuning as a searcher: its requests, their order, and the chosen trial."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from orchestrator.search.base import Request
from orchestrator.space.spec import SweepSpec
from orchestrator.space.tuning_settings import tuning_sizes
from orchestrator.sweep.tuning_study import (
    LEARNED_ACCURACY,
    SURE_PERCENT,
    Study,
    Tuner,
    beats,
    learned_at,
    spread_values,
)
from orchestrator.transition.types import Point
from tests.families import LogisticLearner
from tests.sweep.sweeps import HASTE, spec
from trainables.base import Evaluation


def tuned_spec(**changes: object) -> SweepSpec:
    return spec(mixes=["add"], sizes=[64, 96], settings={"haste": 0.2}, tune={**HASTE, **changes})


def train(wanted: SweepSpec, request: Request) -> Point:
    """Return the outcome of a run of the logistic family, which reaches its accuracy at its first evaluation."""
    config = wanted.config(request)
    accuracy = LogisticLearner([config]).accuracy(config)
    return request.point(accuracy, 0.0, 0.8 / accuracy if accuracy >= LEARNED_ACCURACY else 0.0)


def run(
    wanted: SweepSpec,
    at_once: int = 100,
    shuffle: Callable[[list[Request]], None] = lambda requests: None,
    train: Callable[[SweepSpec, Request], Point] = train,
) -> Study:
    """Run a tuning to its end."""
    tuner = Tuner(wanted)
    while not tuner.done:
        requests = tuner.ask(at_once)
        assert 0 < len(requests) <= at_once
        shuffle(requests)
        for request in requests:
            tuner.tell(request, train(wanted, request))
    [study] = tuner.studies()
    return study


def test_crossings_are_interpolated_for_the_given_task() -> None:
    accuracies = enumerate([0.2, 0.6, 1.0, 0.1], start=1)
    points = [Evaluation(100 * place, 1.0, {"add": accuracy, "prod": 1.0}) for place, accuracy in accuracies]
    assert learned_at(points, "add") == pytest.approx(250)
    assert learned_at(points, "prod") == pytest.approx(80)
    assert learned_at(points[:2], "add") is None
    assert learned_at([], "add") is None


@pytest.mark.parametrize(("learned", "written", "of"), [(6, 4, 8), (5, 4, 8), (1, 0, 4), (3, 9, 12), (20, 17, 40)])
def test_a_trial_wins_by_the_probability_that_its_posterior_is_higher(learned: int, written: int, of: int) -> None:
    rng = np.random.default_rng(7)
    ours, theirs = (rng.beta(1 + k, 1 + of - k, 400_000) for k in (learned, written))
    assert beats(learned, written, of) == ((ours > theirs).mean() >= SURE_PERCENT / 100)


def test_with_eight_runs_a_trial_needs_two_more_learned_runs_to_win() -> None:
    least = {written: min((k for k in range(9) if beats(k, written, 8)), default=None) for written in range(9)}
    assert least == {0: 2, 1: 3, 2: 4, 3: 5, 4: 6, 5: 7, 6: 8, 7: None, 8: None}
    assert beats(2, 1, 2)  # The probability is exactly .8.


def test_the_written_settings_come_first_and_run_at_every_size() -> None:
    wanted = tuned_spec()
    tuner = Tuner(wanted)
    first = tuner.ask(100)
    assert first == [Request("add", size, 1_000_000 + k, until=LEARNED_ACCURACY) for size in (64, 96) for k in (0, 1)]
    assert tuner.ask(100) == []  # The other trials wait for these outcomes.
    for request in first:
        tuner.tell(request, train(wanted, request))
    written, *others = tuner.studies()[0].trials
    assert written.values == {"haste": 0.2}
    assert list(written.runs) == first
    assert written.missing == []
    assert len(others) == 1  # Optuna's wave follows the outcomes of the first wave.
    [before] = tuner.progress()
    assert (before.done, before.runs_left) == (False, 2)
    second = tuner.ask(100)  # Runs of the smallest size come first.
    assert [(run.size, run.seed, run.until) for run in second] == [
        (64, 1_000_000 + k, LEARNED_ACCURACY) for k in (0, 1)
    ]
    assert [dict(run.values) for run in second] == [others[0].values] * 2


def test_values_are_spread_evenly_in_the_ranges() -> None:
    tune = tuned_spec(trials=9).tune
    assert tune is not None
    places = sorted(np.log(values["haste"] / 0.1) / np.log(300) for values in spread_values(tune, 8))
    assert [int(8 * place) for place in places] == list(range(8))
    assert spread_values(tune, 8) == spread_values(tune, 8)


def test_the_result_does_not_depend_on_the_order_or_number_of_requests() -> None:
    wanted = tuned_spec(trials=6, seeds=4)
    study = run(wanted)
    shuffled = random.Random(3)
    for at_once in (1, 2, 5, 100):
        other = run(wanted, at_once, shuffled.shuffle)
        assert (other.trials, other.result) == (study.trials, study.result)


def test_two_of_the_sweeps_sizes_are_used() -> None:
    assert tuning_sizes((8, 16, 24, 32, 48, 64, 96)) == (24, 48)
    assert tuning_sizes((8, 16)) == (8, 16)


def learning(request: Request, learns: bool, steps: float = 1.0) -> Point:
    return request.point(0.9 if learns else 0.1, 0.0, steps if learns else 0.0)


def test_a_trial_that_cannot_win_ends_at_the_smallest_size() -> None:
    first = run(tuned_spec(seeds=4)).trials[1].values  # Values from the first wave.

    def outcome(wanted: SweepSpec, request: Request) -> Point:
        """As written, half of the runs learn; in the first trial, those of the smallest size; in other trials, none."""
        values = dict(request.values)
        return learning(request, values == first and request.size == 64 if values else bool(request.seed % 2))

    study = run(tuned_spec(seeds=4), train=outcome)
    assert [len(trial.missing) for trial in study.trials] == [0, 0, 4]
    assert study.result == {}
    nothing = "no trial was reliably better than the settings as written"
    assert str(study) == f"tuning add: {nothing} (4 of 8 runs learned as written)"


def test_perfect_settings_are_kept_without_another_trial() -> None:
    study = run(tuned_spec(), train=lambda wanted, request: learning(request, True))
    assert [len(trial.missing) for trial in study.trials] == [0, 4]
    assert study.result == {}


def test_fewer_steps_break_a_tie() -> None:
    def outcome(wanted: SweepSpec, request: Request) -> Point:
        return learning(request, bool(request.values), 100 * dict(request.values).get("haste", 1.0))

    study = run(tuned_spec(), train=outcome)
    assert study.result["haste"] == min(trial.values["haste"] for trial in study.trials[1:])
    assert str(study).startswith("tuned add: haste ")


def test_the_second_wave_concentrates_where_the_first_one_learned() -> None:
    def outcome(wanted: SweepSpec, request: Request) -> Point:
        """Runs learn with a haste of 2 to 8, faster the closer it is to 4."""
        haste = dict(request.values).get("haste", 0.2)
        return learning(request, 2 <= haste <= 8, 100 * (1 + abs(np.log(haste / 4))))

    study = run(tuned_spec(trials=25, seeds=1), train=outcome)
    spread, suggested = (
        sum(2 <= trial.values["haste"] <= 8 for trial in wave) for wave in (study.trials[1:13], study.trials[13:])
    )
    assert len(study.trials) == 25
    assert suggested > 1.5 * spread
    assert study.result["haste"] == pytest.approx(4, rel=0.3)
