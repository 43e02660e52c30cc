"""Stacks of races: each run trains as if alone, and checkpoints are exact."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.trainables.reparametrization.racing import EVERY, families, finish, heat, learner, runs
from trainables.base import Mix, Outcome
from trainables.contract.settings import SettingsError
from trainables.reparametrization.learner import ahead, is_over
from trainables.reparametrization.methods import Standing
from trainables.reparametrization.settings import METHODS, RaceSettings

SETTINGS: dict[str, dict[str, Any]] = {
    "race": {"steps": 400, "tolerance": 1e-2, "evaluate_every": 20, "patience": 20.0}
}


def numbers(outcome: Outcome) -> dict[str, float]:
    """Return the measures of an outcome except times."""
    return {name: value for name, value in outcome.measures.items() if not name.startswith("seconds")}


def same(mine: Outcome, theirs: Outcome) -> None:
    assert numbers(mine) == pytest.approx(numbers(theirs), rel=1e-9)
    assert (mine.accuracy, mine.steps, mine.data) == (theirs.accuracy, theirs.steps, theirs.data)
    assert [point.step for point in mine.curve] == [point.step for point in theirs.curve]
    for ours, other in zip(mine.curve, theirs.curve, strict=True):
        assert ours.measures == pytest.approx(other.measures, rel=1e-6)


@pytest.mark.parametrize("name", ["heat", "phases", "clouds"])
def test_a_stack_of_seeds_equals_each_run_alone(name: str) -> None:
    family = families()[name]
    race = replace(family.settings.race, steps=400, tolerance=1e-2, evaluate_every=10, patience=3.0)
    family = type(family)(replace(family.settings, race=race))
    configs = runs(family, EVERY, 36, [0, 1, 2])
    together = finish(learner(family, configs))
    assert len({outcome.steps for outcome in together.values()}) > 1  # Some runs end and leave the stack early.
    assert all(sum(outcome.accuracy.values()) <= 1 for outcome in together.values())
    for index, config in enumerate(configs):
        same(together[index], finish(learner(family, [config]))[0])


def test_a_run_with_a_longer_budget_uses_it() -> None:
    """A recipe, an arm or a budget audit gives a run its own settings and key."""
    family = heat()
    (run,) = runs(family, EVERY, 64, [0])
    longer = replace(run, settings=replace(run.settings, race=replace(run.settings.race, steps=40, tolerance=1e-30)))
    assert finish(learner(family, [longer]))[0].steps == 40


# In units of the race, in the order of METHODS; with the hashes of the problem. NumPy rounds some functions differently
# on some processors, so two hashes were seen. If these change, raise the version.
SPENT = {
    "heat": (
        ("7def6df3bc05ea21", "494af2600549e52f"),
        [269.071, 29.929, 483.143, 582.571, 223.571, 105.143, 51.714, 592.857],
    ),
    "phases": (
        ("901eea48b0d48b8c", "d011d37091ce37a8"),
        [100.6, 38.1, 123.629, 119.171, 77.229, 88.743, 39.6, 131.057],
    ),
    "clouds": (("de95f085dde99ca7",), [88.864, 40.39, 99.212, 94.89, 60.797, 76.814, 27.746, 103.534]),
}


@pytest.mark.parametrize("name", SPENT)
def test_results_of_races_have_not_changed(name: str) -> None:
    family = families()[name]
    outcome = finish(learner(family, runs(family, EVERY, 64, [0])))[0]
    digests, spent = SPENT[name]
    assert outcome.data.startswith(digests)
    assert [outcome.measures[f"spent_{method}"] for method in METHODS] == pytest.approx(spent, rel=1e-4)


def test_runs_with_different_rates_share_a_stack() -> None:
    slow, fast = (heat(rates={"adam": rate}, **SETTINGS) for rate in (0.003, 0.03))
    configs = [*runs(slow, "adam", 64, [0]), *runs(fast, "adam", 64, [0])]
    assert slow.shape(configs[0]) == fast.shape(configs[1])
    together = finish(learner(slow, configs))
    assert together[0].measures["spent_adam"] > together[1].measures["spent_adam"]
    same(together[1], finish(learner(fast, configs[1:]))[0])


def test_a_race_continues_from_a_checkpoint_or_a_part_of_one(tmp_path: Path) -> None:
    family = heat(**SETTINGS)
    configs = runs(family, EVERY, 64, [0, 1, 2, 3])
    whole = learner(family, configs)
    for _ in range(2):
        whole.advance()
    whole.save(tmp_path)
    rest = finish(whole)
    assert rest, "the checkpoint must lie in the middle"
    again = learner(family, configs)
    again.restore(tmp_path)
    resumed = finish(again)
    assert resumed.keys() == rest.keys()
    for index, outcome in rest.items():
        assert numbers(resumed[index]) == numbers(outcome)
        assert resumed[index].curve == outcome.curve
    twice = learner(family, configs)
    twice.restore(tmp_path)
    twice.advance()
    twice.save(tmp_path / "later")
    once_more = learner(family, configs)
    once_more.restore(tmp_path / "later")
    for index, outcome in finish(once_more).items():
        same(outcome, rest[index])
    last = max(rest)
    part = learner(family, configs[last:])
    part.restore(tmp_path)
    same(finish(part)[0], rest[last])
    with pytest.raises(ValueError, match="belongs to another stack"):
        learner(family, runs(family, EVERY, 64, [9])).restore(tmp_path)
    with pytest.raises(FileNotFoundError):
        again.restore(tmp_path / "nowhere")


def test_a_diverging_method_is_reported_as_broken_without_an_error() -> None:
    """The points of the cloud fly apart along a line until they overflow float64."""
    family = families()["clouds"]
    wild = type(family)(replace(family.settings, rates=replace(family.settings.rates, momentum=30.0)))
    outcome = finish(learner(wild, runs(wild, "momentum", 36, [0])))[0]
    assert outcome.accuracy == {"momentum": 0.0}
    assert not outcome.measures["arrived_momentum"]


def test_a_network_needs_a_feature_for_each_coordinate() -> None:
    family = families()["clouds"]
    flat = type(family)(replace(family.settings, network=replace(family.settings.network, width=1)))
    with pytest.raises(SettingsError, match="width is 1; it must be at least 2, one for each coordinate"):
        flat.check(Mix.parse("hessian+adam"), 64)
    family.check(Mix.parse("hessian+adam"), 64)


RACE = RaceSettings(steps=1000, patience=20)
TENFOLD = RaceSettings(steps=1000, patience=20, factor=10)


on_the_way, arrived, broken = Standing, partial(Standing, arrived=True), partial(Standing, broken=True)


@pytest.mark.parametrize(
    ("standings", "race", "expected"),
    [
        ({"a": arrived(100), "b": arrived(101), "c": on_the_way(1000)}, RACE, ["a"]),
        ({"a": arrived(100), "b": arrived(100)}, RACE, []),
        ({"a": arrived(1001)}, RACE, []),  # The line search ended beyond the budget.
        # The rival may need 11 times as much, or only 5.1 times.
        ({"a": arrived(200), "b": on_the_way(1000)}, TENFOLD, []),
        ({"a": arrived(99), "b": on_the_way(1000)}, TENFOLD, ["a"]),
        ({"a": arrived(10), "b": broken(5)}, RACE, ["a"]),
    ],
)
def test_only_a_method_ahead_of_all_others_scores(
    standings: dict[str, Standing], race: RaceSettings, expected: list[str]
) -> None:
    assert [name for name, score in ahead(standings, race).items() if score] == expected


@pytest.mark.parametrize(
    ("standings", "spent", "race", "over"),
    [
        ({"a": arrived(10), "b": on_the_way(150)}, 199, RACE, False),
        ({"a": arrived(10), "b": on_the_way(150)}, 200, RACE, True),
        ({"a": on_the_way(150)}, 999, RACE, False),
        ({"a": on_the_way(150)}, 1000, RACE, True),
        # A rival stops less than one step before its limit: the race is undecided.
        ({"a": arrived(10), "b": on_the_way(98)}, 100, replace(TENFOLD, patience=10), False),
        ({"a": arrived(10), "b": on_the_way(103)}, 110, replace(TENFOLD, patience=10), True),
        ({"a": arrived(10), "b": broken(5)}, 50, RACE, True),
    ],
)
def test_a_race_ends_once_it_is_decided(
    standings: dict[str, Standing], spent: float, race: RaceSettings, over: bool
) -> None:
    assert is_over(standings, spent, race) == over
